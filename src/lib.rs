//! Carries MongoDB change events to the webhooks of the clients that may see each document.
//!
//! ```text
//! change event ──> ingest ──> routing ──> transfer log ──> delivery (one actor a client) ──> webhook
//!                    │                         ^                │ failed / slow / paused
//!                    └ commit with the         └ order          v
//!                      transfers                              stash ──> drain ──> webhook
//! ```
//!
//! Every stage writes its result durably, then acknowledges the stage before it. Work lives in stores;
//! actors hold leases on it and send each other kicks.
//!
//! Dependencies point one way, and `tests/architecture.rs` holds them:
//! `domain <- ports <- {backends, workers <- actors} <- web, commands, app, main`; `runtime` stands beside `domain`.

pub mod actors;
pub mod app;
pub mod backends;
pub mod commands;
pub mod domain;
pub mod metrics;
pub mod ports;
pub mod runtime;
pub mod settings;
pub mod web;
pub mod workers;
