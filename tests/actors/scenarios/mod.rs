//! One story each.

mod answers;
mod drain;
mod memory;
