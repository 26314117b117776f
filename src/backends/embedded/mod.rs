//! Everything in one SQLite file.
