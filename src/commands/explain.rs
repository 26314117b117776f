//! `dispatcher explain`: says what each record of a file is, and who would get it.

mod command;
mod routes;

use std::io::{Read, Write};
use std::sync::Arc;

use anyhow::Context;
use serde::Serialize;

use crate::domain::change_event::{self, ChangeEvent, SourceEvent, SourceNames, SourceRecord, Subject};
use crate::domain::config::ClientId;
use crate::domain::intake::{self, Defaults, NewRecord};
use crate::domain::transfer::SourcePosition;

pub(super) use command::{ExplainOptions, run};

/// What would become of a change for one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The client.
    pub client: ClientId,
    /// Whether the client would get it.
    pub sent: bool,
    /// Why not; or what is to be said although it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Finds out who would get a change: needs the configs, so whoever has them gives it.
pub type Routes<'a> = &'a dyn Fn(&ChangeEvent) -> Vec<Route>;

/// How many records there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Explained {
    /// All.
    pub records: usize,
    /// Those that cannot be read.
    pub invalid: usize,
}

/// Prints one JSON object for each record of the input (a file as `dispatcher send` takes it), a line each.
///
/// # Errors
///
/// When the input cannot be read, holds something that is no record, or the output cannot be written.
pub fn explain(
    mut input: impl Read,
    default_topic: Option<&str>,
    names: &SourceNames,
    routes: Option<Routes<'_>>,
    out: &mut impl Write,
) -> anyhow::Result<Explained> {
    let mut content = Vec::new();
    input.read_to_end(&mut content).context("cannot read the input")?;
    let records = intake::read_file(&content, Defaults { prefix: &names.prefix, topic: default_topic })
        .map_err(|err| anyhow::anyhow!("record {} is broken: {}", err.index + 1, err.problem))?;
    let mut explained = Explained::default();
    for (record, offset) in records.into_iter().zip(0..) {
        let event = change_event::read(&at(record, offset), names);
        explained.records += 1;
        explained.invalid += usize::from(matches!(event, SourceEvent::Invalid(..)));
        serde_json::to_writer(&mut *out, &Explanation::of(&event, routes))?;
        out.write_all(b"\n")?;
    }
    Ok(explained)
}

fn at(record: NewRecord, offset: i64) -> SourceRecord {
    let NewRecord { topic, key, value, headers } = record;
    let position = SourcePosition { topic: Arc::clone(&topic), partition: 0, offset };
    SourceRecord { position, timestamp_ms: 0, key, value, headers }
}

#[derive(Serialize)]
struct Explanation<'a> {
    kind: &'static str,
    op: Option<&'static str>,
    db: Option<&'a str>,
    collection: Option<&'a str>,
    id: Option<&'a str>,
    clients: &'a [ClientId],
    removed_clients: &'a [ClientId],
    deleted: bool,
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routes: Option<Vec<Route>>,
}

impl<'a> Explanation<'a> {
    fn of(event: &'a SourceEvent, routes: Option<Routes<'_>>) -> Self {
        match event {
            SourceEvent::Change(change) => Self {
                kind: "change",
                op: Some(change.op.as_str()),
                db: Some(&change.db),
                collection: Some(&change.collection),
                id: Some(&change.id),
                clients: &change.clients,
                removed_clients: &change.removed_clients,
                deleted: change.deleted,
                reason: None,
                routes: routes.map(|routes| routes(change)),
            },
            SourceEvent::Tombstone(subject) => {
                Self { deleted: true, ..Self::without_change("tombstone", subject) }
            }
            SourceEvent::Skip(subject, reason) => Self {
                op: reason.op(),
                reason: Some(reason.as_str()),
                ..Self::without_change("skip", subject)
            },
            SourceEvent::Invalid(subject, reason) => {
                Self { reason: Some(reason), ..Self::without_change("invalid", subject) }
            }
        }
    }

    fn without_change(kind: &'static str, subject: &'a Subject) -> Self {
        Self {
            kind,
            op: None,
            db: subject.db.as_deref(),
            collection: subject.collection.as_deref(),
            id: subject.id.as_deref(),
            clients: &[],
            removed_clients: &[],
            deleted: false,
            reason: None,
            routes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fixtures::{self, names};

    fn explained(input: &str, routes: Option<Routes<'_>>) -> (Explained, Vec<serde_json::Value>) {
        let mut out = Vec::new();
        let explained = explain(input.as_bytes(), None, &names(), routes, &mut out).unwrap();
        let lines = String::from_utf8(out).unwrap();
        (explained, lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    #[test]
    fn says_of_every_fixture_what_is_expected() {
        let fixtures = fixtures::all();
        let input: String = fixtures.iter().map(|fixture| fixture.text.as_str()).collect();
        let (explained, lines) = explained(&input, None);
        assert_eq!((explained.records, lines.len()), (237, 237));
        assert_eq!(
            explained.invalid,
            fixtures.iter().filter(|fixture| fixture.expect["kind"] == "invalid").count()
        );
        for (fixture, line) in fixtures.iter().zip(&lines) {
            for member in ["kind", "op", "db", "collection", "id", "clients", "removed_clients", "deleted"] {
                assert_eq!(line[member], fixture.expect[member], "{} {member}", fixture.name);
            }
            let has_reason = line["kind"] == "skip" || line["kind"] == "invalid";
            assert_eq!(line["reason"].is_string(), has_reason, "{}", fixture.name);
            assert_eq!(line.get("routes"), None);
        }
    }

    #[test]
    fn says_who_would_get_a_change_where_that_is_known() {
        let routes = |change: &ChangeEvent| -> Vec<Route> {
            let blocked = |client: &ClientId| Route {
                client: client.clone(),
                sent: false,
                reason: Some("no_config".to_string()),
            };
            change.clients.iter().map(blocked).collect()
        };
        let (_, lines) = explained(&fixtures::one("a01_create").text, Some(&routes));
        let expected = serde_json::json!([
            {"client": "64c0a1e0f1a2b3c4d5e60001", "sent": false, "reason": "no_config"}
        ]);
        assert_eq!(lines[0]["routes"], expected);
    }

    #[test]
    fn names_what_is_no_record() {
        let err = explain("{\"x\":1}".as_bytes(), None, &names(), None, &mut Vec::new()).unwrap_err();
        assert!(err.to_string().starts_with("record 1 is broken: "), "{err}");
    }
}
