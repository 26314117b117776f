//! One story each.

mod answers;
mod blocked;
mod configs;
mod drain;
mod endings;
mod endless;
mod insurance;
mod lost;
mod memory;
mod old_webhook;
mod orders;
mod paused;
mod quota;
mod records;
mod replays;
mod replicas;
mod resting;
mod source;
mod stash;
mod switched_off;
