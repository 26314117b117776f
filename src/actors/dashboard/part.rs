//! What a replica tells the others of what it alone knows, as text. What another has written is hostile until it is checked: whoever may
//! write to Redis may have written it, or a version of this program that is not this one.
//!
//! There are two texts. The *base* has all clients of the replica and its last hour; *now* has the sums, the actors that are more than
//! clients', and the clients that are others than in the base. So a thousand clients that rest cost nothing.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::ser::SerializeTuple as _;
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use super::client::ClientView;
use super::gather::{DependencyView, LagView};
use super::overview::Point;
use super::snapshot::POINTS;
use super::window::Latency;
use crate::actors::meters::{Counts, LastError, RANGES};
use crate::domain::client_state::Phase;
use crate::domain::config::ClientId;
use crate::runtime::{ActorStatus, Life};

/// Changes whenever a text of one version cannot be read by another.
const FORMAT: u32 = 3;

/// A replica shows the others no more clients than this.
pub(super) const MOST_CLIENTS: usize = 10_000;
/// Nor more actors besides those of clients that never broke.
pub(super) const MOST_ACTORS: usize = 200;
const MOST_KINDS: usize = 50;
const MOST_DEPENDENCIES: usize = 20;
const MOST_ROLES: usize = 20;
const LONGEST_ID: usize = 1024;
const LONGEST_TEXT: usize = 2000;

/// A text is not a part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPart {
    /// Another version has written it.
    #[error("it is of another version")]
    OtherFormat,
    /// It cannot be read.
    #[error("it cannot be read")]
    Unreadable,
}

/// What a replica is and does, besides its clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct About {
    /// Its version.
    pub version: String,
    /// What it does.
    pub roles: Vec<String>,
    /// For how long it has been running, seconds.
    pub uptime_s: u64,
}

/// The sums, the actors, and what is known of stores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sums {
    pub(super) about: About,
    /// Changes delivered, and attempts that failed, since its start.
    pub(super) delivered: u64,
    pub(super) failed: u64,
    /// How long webhooks took for a 2xx, and how old the changes were by then: counts of a histogram since its start.
    pub(super) answers: Vec<u32>,
    pub(super) ages: Vec<u32>,
    pub(super) lag: LagView,
    pub(super) dependencies: Vec<DependencyView>,
    pub(super) actors: ActorSums,
    /// Those that are not clients', and those that broke.
    pub(super) shown: Vec<ActorStatus>,
    /// Clients that are not told of, because there are too many.
    pub(super) left_out: usize,
    /// What a snapshot costs there, microseconds.
    pub(super) cost_us: u64,
}

/// How many actors there are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ActorSums {
    pub(super) total: usize,
    pub(super) kinds: BTreeMap<String, usize>,
    pub(super) restarting: usize,
    pub(super) failed: usize,
    pub(super) restarts: u64,
}

/// The text that is written each time. `C` is a client.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Now<C> {
    format: u32,
    /// Rises with each.
    pub(super) number: u64,
    /// Which base it goes on from.
    pub(super) base: u64,
    pub(super) sums: Sums,
    /// The clients that are others than in the base.
    pub(super) changed: Vec<C>,
    /// Those that are gone since.
    pub(super) gone: Vec<ClientId>,
}

/// The text that it goes on from.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Base<C> {
    format: u32,
    pub(super) number: u64,
    pub(super) clients: Vec<C>,
    pub(super) hour: Vec<Point>,
}

/// What a replica says of a client that it serves, or served last.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ClientPart {
    pub(super) client: ClientId,
    /// Since when it has been served there, milliseconds since 1970.
    pub(super) served_since_ms: i64,
    pub(super) actor: Option<Life>,
    pub(super) phase: Phase,
    pub(super) since_ms: Option<i64>,
    pub(super) reason: String,
    pub(super) next_attempt_at_ms: Option<i64>,
    pub(super) disable_at_ms: Option<i64>,
    pub(super) overflows: bool,
    pub(super) dropped: u64,
    pub(super) restarts: u64,
    pub(super) broke_lately: bool,
    pub(super) in_flight: u32,
    pub(super) queued: u32,
    pub(super) oldest_ts_ms: Option<i64>,
    pub(super) rate: f64,
    pub(super) failure_rate: f64,
    pub(super) delivered: u64,
    pub(super) failed: u64,
    pub(super) latency: Option<Latency>,
    pub(super) last_success_ms: Option<i64>,
    pub(super) last_error: Option<Arc<LastError>>,
}

/// Writes a client as [`ClientPart`] reads it: the values in its order, without their names.
pub(super) struct Told<'a>(pub(super) &'a ClientView);

impl Serialize for Told<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ClientView { client, phase, since_ms, reason, next_attempt_at_ms, disable_at_ms, .. } = self.0;
        let mut values = serializer.serialize_tuple(22)?;
        values.serialize_element(client)?;
        values.serialize_element(&self.0.served_since_ms.unwrap_or_default())?;
        values.serialize_element(&self.0.actor)?;
        values.serialize_element(phase)?;
        values.serialize_element(since_ms)?;
        values.serialize_element(cut(reason))?;
        values.serialize_element(next_attempt_at_ms)?;
        values.serialize_element(disable_at_ms)?;
        values.serialize_element(&self.0.overflows)?;
        values.serialize_element(&self.0.dropped)?;
        values.serialize_element(&self.0.restarts)?;
        values.serialize_element(&self.0.broke_lately)?;
        values.serialize_element(&self.0.in_flight)?;
        values.serialize_element(&self.0.queued)?;
        values.serialize_element(&self.0.oldest_ts_ms)?;
        values.serialize_element(&self.0.rate)?;
        values.serialize_element(&self.0.failure_rate)?;
        values.serialize_element(&self.0.delivered)?;
        values.serialize_element(&self.0.failed)?;
        values.serialize_element(&self.0.latency)?;
        values.serialize_element(&self.0.last_success_ms)?;
        values.serialize_element(
            &self.0.last_error.as_deref().map(|error| (error.at_ms, cut(&error.reason))),
        )?;
        values.end()
    }
}

impl<'a> Now<Told<'a>> {
    pub(super) fn new(
        number: u64,
        base: u64,
        sums: Sums,
        changed: Vec<Told<'a>>,
        gone: Vec<ClientId>,
    ) -> Self {
        Self { format: FORMAT, number, base, sums, changed, gone }
    }

    pub(super) fn text(&self) -> String {
        text(self)
    }
}

impl<'a> Base<Told<'a>> {
    pub(super) fn new(number: u64, clients: Vec<Told<'a>>, hour: Vec<Point>) -> Self {
        Self { format: FORMAT, number, clients, hour }
    }

    pub(super) fn text(&self) -> String {
        text(self)
    }
}

fn text(part: &impl Serialize) -> String {
    // All keys are text: there is nothing that could not be written.
    serde_json::to_string(part).unwrap_or_default()
}

impl Now<ClientPart> {
    pub(super) fn read(text: &str) -> Result<Self, NoPart> {
        let now = read(text, |now: &Self| now.format)?;
        let sane = are_clients(&now.changed) && now.gone.len() <= MOST_CLIENTS && now.sums.is_sane();
        if sane { Ok(now) } else { Err(NoPart::Unreadable) }
    }
}

impl Base<ClientPart> {
    pub(super) fn read(text: &str) -> Result<Self, NoPart> {
        let base = read(text, |base: &Self| base.format)?;
        let sane = are_clients(&base.clients)
            && base.hour.len() <= POINTS
            && base.hour.is_sorted_by_key(|point| point.at_ms);
        if sane { Ok(base) } else { Err(NoPart::Unreadable) }
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a str, format: impl Fn(&T) -> u32) -> Result<T, NoPart> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let (part, format) = match serde_json::from_str(text) {
        Ok(part) => {
            let format = format(&part);
            (Some(part), format)
        }
        Err(_) => (None, serde_json::from_str(text).map_or(FORMAT, |Format { format }| format)),
    };
    if format != FORMAT { Err(NoPart::OtherFormat) } else { part.ok_or(NoPart::Unreadable) }
}

fn are_clients(clients: &[ClientPart]) -> bool {
    let mut seen = HashSet::with_capacity(clients.len().min(MOST_CLIENTS));
    clients.len() <= MOST_CLIENTS
        && clients.iter().all(|client| client.is_sane() && seen.insert(&client.client))
}

impl ClientPart {
    fn is_sane(&self) -> bool {
        let reason = self.last_error.as_ref().map_or("", |error| &error.reason);
        (1..=LONGEST_ID).contains(&self.client.as_str().len())
            && is_short(&self.reason)
            && is_short(reason)
            && self.rate >= 0.0
            && self.failure_rate >= 0.0
    }

    /// Whether others take it.
    pub(super) fn may_be_told(client: &ClientView) -> bool {
        (1..=LONGEST_ID).contains(&client.client.as_str().len())
    }

    /// Whether its actor is there.
    pub(super) fn is_served(&self) -> bool {
        self.actor.is_some_and(|actor| actor != Life::Stopped)
    }
}

impl Sums {
    fn is_sane(&self) -> bool {
        let Self { about, answers, ages, dependencies, actors, shown, .. } = self;
        let is_actor = |actor: &ActorStatus| {
            let cause = actor.last_cause.as_ref();
            let texts = cause.is_none_or(|cause| is_short(&cause.message) && is_short(&cause.place));
            texts
                && is_short(&actor.kind)
                && actor.id.len() <= LONGEST_ID
                && actor.last_message.as_deref().is_none_or(is_short)
                && actor.exits.len() <= MOST_KINDS
        };
        answers.len() == RANGES
            && ages.len() == RANGES
            && is_short(&about.version)
            && about.roles.len() <= MOST_ROLES
            && about.roles.iter().all(|role| is_short(role))
            && dependencies.len() <= MOST_DEPENDENCIES
            && dependencies
                .iter()
                .all(|store| is_short(&store.name) && store.error.as_deref().is_none_or(is_short))
            && actors.kinds.len() <= MOST_KINDS
            && actors.kinds.keys().all(|kind| is_short(kind))
            && shown.len() <= MOST_ACTORS
            && shown.iter().all(is_actor)
    }

    /// The counts of a histogram that was read: it has as many as there are ranges.
    pub(super) fn counts(read: &[u32]) -> Counts {
        std::array::from_fn(|range| read.get(range).copied().unwrap_or_default())
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= LONGEST_TEXT
}

/// As much of a text as others read.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_TEXT)]
}
