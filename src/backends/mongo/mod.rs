//! The client configs in MongoDB, where the platform keeps them.
