//! The worker kit on a real Redis: what handlers may do, crashes, outages, and the real BullMQ of Node.
#![cfg(feature = "cluster")]
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod crashes;
mod example;
mod exclusive;
mod handling;
mod interop;
mod outages;
mod process;
mod schedules;
#[path = "../services/mod.rs"]
mod services;
mod world;
