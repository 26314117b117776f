//! The whole service, seen from outside: the built binary, real sockets, real files.
//!
//! Each file is one group of promises. `kit` is the world around the service: clients that receive,
//! a source that sends, and the oracle that compares what was sent with what arrived.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is test code: it fails by panic, and its figures are for people"
)]

mod kit;

mod admin;
mod bounds;
mod cli;
mod disk_full;
mod fixtures;
mod flow;
mod hostile;
mod kill;
mod outage;
mod panic;
mod readme;
mod stop;
