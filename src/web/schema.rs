//! Types of parameters that check their bounds and describe them, and the words of the domain for the OpenAPI document.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{KnownFormat, RefOr, Required, SchemaFormat};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::path::ID_BYTES;
use crate::domain::access::AccessRole;
use crate::domain::audit::ActionOutcome;
use crate::domain::heavy_job;
use crate::domain::job;
use crate::domain::operational_event::Happening;
use crate::domain::stash;
use crate::ports::attempts::LARGEST_ATTEMPT_PAGE;
use crate::ports::audit::LARGEST_AUDIT_PAGE;
use crate::ports::operational_events::LARGEST_EVENT_PAGE;
use crate::ports::stash_rows::LARGEST_ROW_PAGE;

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $default:literal of $least:literal to $most:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Serialize)]
        pub(super) struct $name(pub(super) usize);

        impl $name {
            /// The largest.
            const MOST: usize = $most;
        }

        impl Default for $name {
            fn default() -> Self {
                Self($default)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let limit = u64::deserialize(deserializer)?;
                let fits = usize::try_from(limit).ok().filter(|limit| ($least..=Self::MOST).contains(limit));
                let problem = || D::Error::custom(format!("limit must be {} to {}", $least, Self::MOST));
                fits.map(Self).ok_or_else(problem)
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .minimum(Some($least as usize))
                    .maximum(Some(Self::MOST))
                    .default(Some(Self::default().0.into()))
                    .into()
            }
        }

        impl ToSchema for $name {}
    )+};
}

limits! {
    /// How many rows a page has at most.
    PageLimit: 100 of 1 to 1000;
    /// The same of jobs, which may be large.
    JobLimit: 20 of 1 to 100;
    /// The same on the dashboard, where the sums alone are asked for, too.
    BoardLimit: 50 of 0 to 200;
    /// How many payloads are sent again at once.
    PartLimit: 100 of 1 to 500;
    /// How many rows are removed at once.
    PurgeLimit: 1000 of 1 to 10_000;
}

// Who asks for a whole page gets one.
const _: () = assert!(
    PageLimit::MOST <= LARGEST_ROW_PAGE
        && PageLimit::MOST <= LARGEST_AUDIT_PAGE
        && PageLimit::MOST <= LARGEST_EVENT_PAGE
        && PageLimit::MOST <= LARGEST_ATTEMPT_PAGE
);

/// How many rows are left out before the first. No list is longer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Offset(pub(super) usize);

const LARGEST_OFFSET: u32 = i32::MAX as u32;

impl<'de> Deserialize<'de> for Offset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let offset = u32::deserialize(deserializer)?;
        if offset > LARGEST_OFFSET {
            return Err(D::Error::custom(format!("offset must be 0 to {LARGEST_OFFSET}")));
        }
        Ok(Self(offset as usize))
    }
}

impl PartialSchema for Offset {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
            .minimum(Some(0_usize))
            .maximum(Some(LARGEST_OFFSET))
            .default(Some(0.into()))
            .into()
    }
}

impl ToSchema for Offset {}

/// A number that counts or is a time: 0 or more.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Whole(i64);

impl Whole {
    /// The number.
    pub(super) fn get(self) -> i64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        if number < 0 { Err(D::Error::custom(format!("{number} is below 0"))) } else { Ok(Self(number)) }
    }
}

impl PartialSchema for Whole {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0_usize))
            .maximum(Some(i64::MAX))
            .into()
    }
}

impl ToSchema for Whole {}

/// A schema of words.
fn one_of(words: impl IntoIterator<Item = &'static str>) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).enum_values(Some(words)).into()
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $words:expr;)+) => {$(
        $(#[$doc])*
        pub(super) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                one_of($words)
            }
        }

        impl ToSchema for $name {}
    )+};
}

words! {
    /// What a token allows.
    Role = AccessRole::ALL.map(AccessRole::as_str);
    /// What came of an action.
    Outcome = ActionOutcome::ALL.map(ActionOutcome::as_str);
    /// The state of a row of the stash.
    RowState = stash::RowState::ALL.map(stash::RowState::as_str);
    /// The state of a job.
    JobState = job::JobState::ALL.map(job::JobState::as_str);
    /// How far a resync or replay is.
    HeavyState = heavy_job::HeavyState::ALL.map(heavy_job::HeavyState::as_str);
    /// The status of a client.
    ClientStatus = ["ACTIVE", "INACTIVE"];
    /// What a client's delivery does.
    Phase = PHASES;
    /// The same, or all that somebody should look at.
    PhaseFilter = [&["problem"], PHASES.as_slice()].concat();
    /// What comes first on the dashboard.
    ClientSort = CLIENT_SORTS;
    /// What happened that operators want to know of.
    EventType = Happening::ALL.map(Happening::as_str);
    /// Which end of a list comes first.
    Order = ["oldest", "newest"];
}

const PHASES: [&str; 5] = ["healthy", "degraded", "draining", "paused", "disabled"];

const CLIENT_SORTS: [&str; 9] =
    ["problems", "client", "waiting", "oldest", "rate", "failures", "latency", "restarts", "since"];

/// A part of a path that is an id.
fn segment(name: &str, description: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(
            ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(ID_BYTES)),
        ))
        .build()
}

macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident = $($segment:literal: $description:literal),+;)+) => {$(
        $(#[$doc])*
        pub(super) enum $name {}

        impl IntoParams for $name {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$(segment($segment, $description)),+]
            }
        }
    )+};
}

paths! {
    /// Below a client.
    OfClient = "id": "The client's id";
    /// A client, as the dashboard names it.
    DashboardClient = "client": "The client's id";
    /// A payload of a client.
    OfEvent = "client": "The client's id", "event": "The event's id, the header `webhook-id`";
    /// A row of a client.
    OfRow = "id": "The client's id", "event": "The event's id, the header `webhook-id`";
    /// An owner.
    OfOwner = "owner": "The owner's id";
    /// An actor.
    OfActor = "kind": "The actor's kind", "id": "Which of its kind; `-` for the only one";
    /// Below a queue.
    OfQueue = "queue": "The queue's name";
    /// A job of a queue.
    OfJob = "queue": "The queue's name", "id": "The job's id";
    /// A resync or replay of a client.
    OfHeavyJob = "id": "The client's id", "job": "The job's id";
    /// A schedule of a queue.
    OfSchedule = "queue": "The queue's name", "id": "The schedule's id";
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;
    use crate::actors::dashboard;
    use crate::domain::{client_state, config};
    use crate::ports::operational_events::EventOrder;

    /// What a schema names, a type reads.
    fn is_read<W: PartialSchema, T: DeserializeOwned>() {
        let schema = serde_json::to_value(W::schema()).unwrap();
        let words = schema["enum"].as_array().unwrap();
        assert!(!words.is_empty());
        for word in words {
            assert!(serde_json::from_value::<T>(word.clone()).is_ok(), "{word}");
        }
        assert!(serde_json::from_value::<T>(Value::from("no such word")).is_err());
    }

    #[test]
    fn every_word_is_read() {
        is_read::<JobState, job::JobState>();
        is_read::<ClientStatus, config::Status>();
        is_read::<Phase, client_state::Phase>();
        is_read::<PhaseFilter, dashboard::PhaseFilter>();
        is_read::<ClientSort, dashboard::ClientSort>();
        is_read::<EventType, Happening>();
        is_read::<Order, EventOrder>();
    }

    #[test]
    fn a_limit_keeps_its_bounds_and_says_them() {
        let read = |text: &str| serde_json::from_str::<JobLimit>(text).map(|limit| limit.0).ok();
        assert_eq!(["0", "1", "100", "101", "-1"].map(read), [None, Some(1), Some(100), None, None]);
        let schema = serde_json::to_value(JobLimit::schema()).unwrap();
        let said = ["minimum", "maximum", "default"].map(|name| schema[name].as_u64());
        assert_eq!(said, [Some(1), Some(100), Some(20)]);
    }
}
