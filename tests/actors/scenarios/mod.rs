//! One story each.

mod answers;
mod configs;
mod endings;
mod stash;
