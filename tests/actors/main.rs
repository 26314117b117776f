//! The actors under a paused clock: stores and receivers are in memory, late, away and hostile, and hours pass in
//! milliseconds. `scenarios` tells one story each; `random` tries many histories and judges each by the `oracle`. `cluster` runs
//! several replicas over the same stores, each with a clock that stands still while the replica does. `model` tries all
//! histories of one small world.
//!
//! Where the service is `whole`, its changes come from the source (`upstream` tells what happened there), and webhooks that fail have
//! their jobs; `switching` judges who was switched off.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is test code: it fails by panic, and its seeds are for people"
)]

mod cluster;
mod memory;
mod model;
mod oracle;
mod random;
mod random_replicas;
mod receiver;
mod scenarios;
mod switching;
mod time;
mod upstream;
mod whole;
mod world;
