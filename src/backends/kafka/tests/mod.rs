//! Against a real broker.
