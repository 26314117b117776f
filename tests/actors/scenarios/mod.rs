//! One story each.

mod answers;
