//! What is asked of the stash.

use diesel::dsl::{exists, min, select};
use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::super::errors::JobResult;
use super::super::schema::{stash, stash_totals};
use super::dead_rows;
use crate::domain::config::ClientId;
use crate::domain::stash::{Backlog, RowState, StashCheck};
use crate::domain::transfer::{DocumentHash, EventId};

/// What is known of these documents and events. Most clients have no rows: one look answers for them.
pub(super) fn check(
    connection: &mut SqliteConnection,
    client: &ClientId,
    documents: &[DocumentHash],
    events: &[EventId],
) -> JobResult<StashCheck> {
    let mut known = StashCheck::default();
    if !select(exists(stash_totals::table.find(client.as_str()))).get_result::<bool>(connection)? {
        return Ok(known);
    }
    for document in documents {
        let mut is = |state: RowState| {
            select(exists(
                stash::table
                    .filter(stash::client.eq(client.as_str()))
                    .filter(stash::document_hash.eq(&document.0[..]))
                    .filter(stash::state.eq(state.as_str())),
            ))
            .get_result::<bool>(connection)
        };
        if is(RowState::Pending)? {
            known.waiting.insert(*document);
        }
        if is(RowState::Dead)? {
            known.dead.insert(*document);
        }
    }
    for event in events {
        if let Some(row) = dead_rows::own(connection, client, event)? {
            known.stashed.insert(event.clone(), row);
        }
    }
    Ok(known)
}

fn with_times(
    connection: &mut SqliteConnection,
    client: &str,
    pending: i64,
    pending_bytes: i64,
    dead: i64,
) -> JobResult<Backlog> {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let mut backlog = Backlog {
        pending: count(pending),
        pending_bytes: count(pending_bytes),
        dead: count(dead),
        ..Backlog::default()
    };
    if pending > 0 {
        backlog.oldest_ts_ms = stash::table
            .filter(stash::client.eq(client))
            .filter(stash::state.eq(RowState::Pending.as_str()))
            .order((stash::incarnation, stash::partition, stash::offset))
            .select(stash::ts_ms)
            .first(connection)
            .optional()?;
        backlog.next_attempt_at_ms = stash::table
            .filter(stash::client.eq(client))
            .filter(stash::state.eq(RowState::Pending.as_str()))
            .filter(stash::next_attempt_at_ms.gt(0))
            .select(min(stash::next_attempt_at_ms))
            .first(connection)?;
    }
    Ok(backlog)
}

/// What waits for a client.
pub(super) fn backlog(connection: &mut SqliteConnection, client: &ClientId) -> JobResult<Backlog> {
    let totals: Option<(i64, i64, i64)> = stash_totals::table
        .find(client.as_str())
        .select((stash_totals::pending, stash_totals::pending_bytes, stash_totals::dead))
        .first(connection)
        .optional()?;
    totals.map_or(Ok(Backlog::default()), |(pending, bytes, dead)| {
        with_times(connection, client.as_str(), pending, bytes, dead)
    })
}

/// What waits for every client that has rows.
pub(super) fn backlogs(connection: &mut SqliteConnection) -> JobResult<Vec<(ClientId, Backlog)>> {
    let totals: Vec<(String, i64, i64, i64)> = stash_totals::table
        .select((
            stash_totals::client,
            stash_totals::pending,
            stash_totals::pending_bytes,
            stash_totals::dead,
        ))
        .load(connection)?;
    totals
        .into_iter()
        .map(|(client, pending, bytes, dead)| {
            let backlog = with_times(connection, &client, pending, bytes, dead)?;
            Ok((ClientId::new(&client), backlog))
        })
        .collect()
}
