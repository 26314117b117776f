//! One story each.

mod answers;
mod configs;
mod endings;
mod insurance;
mod resting;
mod source;
mod stash;
