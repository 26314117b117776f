//! One story each.

mod answers;
mod configs;
mod drain;
mod endings;
mod insurance;
mod memory;
mod records;
mod orders;
mod replicas;
mod resting;
mod source;
mod stash;
