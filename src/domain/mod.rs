//! The rules of the service, pure: no clock, no I/O, no async. What the outside decides is passed in.

pub mod access;
pub mod attempt;
pub mod audit;
pub mod change_event;
pub mod client_state;
pub mod commit_window;
pub mod config;
pub mod dead_row;
pub mod decision;
pub mod delivery;
pub mod document;
pub mod extended_json;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod guard;
pub mod heavy_job;
pub mod intake;
pub mod job;
pub mod operational_event;
pub mod replica;
pub mod retry;
pub mod routing;
pub mod stash;
pub mod stash_view;
pub mod transfer;
