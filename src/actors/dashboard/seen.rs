//! From what a client's view was made.

use std::sync::Arc;

use super::client::{ActorFacts, Facts, Rank, Row};
use super::window::Latency;
use crate::actors::meters::ClientMeter;
use crate::domain::client_state::ClientState;
use crate::domain::stash::Backlog;

/// All that a view is made from but the config and what is decided: while it stays as it is, so does the view. Most clients rest.
pub(super) struct Seen {
    pub(super) numbers: Numbers,
    pub(super) stored: Option<ClientState>,
}

/// What is soon compared.
#[derive(PartialEq)]
pub(super) struct Numbers {
    actor: Option<ActorFacts>,
    retired: Option<ActorFacts>,
    backlog: Option<Backlog>,
    /// What was told, deliveries, failures, on the wire, queued, the oldest of these.
    meter: Option<(u64, u64, u64, u32, u32, Option<i64>)>,
    latency: Option<Latency>,
    rates: (f64, f64),
    minute: (u32, u32),
    /// Where they are: a view holds them, so that nothing else comes to be there.
    minutes: *const Vec<(u32, u32)>,
    rank: Option<Rank>,
}

impl Numbers {
    pub(super) fn of(facts: &Facts<'_>, latency: Option<Latency>, row: &Row) -> Self {
        let of_meter = |meter: &ClientMeter| {
            let held = (meter.in_flight(), meter.queued(), meter.oldest_ts_ms());
            (meter.told(), meter.delivered(), meter.failures(), held.0, held.1, held.2)
        };
        Self {
            actor: facts.actor,
            retired: facts.retired,
            backlog: facts.backlog.copied(),
            meter: facts.meter.map(of_meter),
            latency,
            rates: (row.delivered.shown(), row.failed.shown()),
            minute: row.minute,
            minutes: Arc::as_ptr(&row.minutes),
            rank: row.rank,
        }
    }
}
