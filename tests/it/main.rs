//! The whole service, seen from outside: the built binary, real sockets, real files.
//!
//! Each file is one group of promises. `kit` is the world around the service: clients that receive,
//! a source that sends, and the oracle that compares what was sent with what arrived.

#![cfg_attr(
    not(feature = "cluster"),
    expect(dead_code, unused_imports, reason = "the kit is made for both modes")
)]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "all of this is test code: it fails by panic, and its figures are for people"
)]

mod kit;
#[cfg(feature = "cluster")]
#[path = "../node/mod.rs"]
mod node;
#[cfg(feature = "cluster")]
#[path = "../workers/process.rs"]
mod process;
#[cfg(feature = "cluster")]
#[path = "../services/mod.rs"]
mod services;

mod admin;
mod big_stash;
#[cfg(feature = "cluster")]
mod boards;
#[cfg(feature = "cluster")]
mod both_modes;
mod bounds;
mod broken;
mod browser;
mod check;
mod cli;
#[cfg(feature = "cluster")]
mod cut_off;
mod dead_letters;
mod dead_webhook;
mod disk_full;
mod fixtures;
mod flow;
mod hostile;
mod kill;
mod long_outage;
mod openapi;
mod operational_events;
mod outage;
#[cfg(feature = "cluster")]
mod outages;
mod owners;
mod panic;
#[cfg(feature = "cluster")]
mod passwords;
mod queues;
mod readme;
#[cfg(feature = "cluster")]
mod redis_away;
#[cfg(feature = "cluster")]
mod redis_emptied;
#[cfg(feature = "cluster")]
mod replicas;
#[cfg(feature = "cluster")]
mod resync;
mod roles;
mod stop;
#[cfg(feature = "cluster")]
mod switched_off;
#[cfg(feature = "cluster")]
mod topics;
mod watched;
#[cfg(feature = "cluster")]
mod whole;
