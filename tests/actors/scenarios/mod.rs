//! One story each.

mod answers;
mod blocked;
mod configs;
mod drain;
mod endless;
mod endings;
mod insurance;
mod lost;
mod memory;
mod orders;
mod paused;
mod records;
mod replays;
mod replicas;
mod resting;
mod source;
mod stash;
