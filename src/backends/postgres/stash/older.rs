//! Older rows of documents of which a newer change was delivered. Of one document there may be very many: a statement takes a part of them.

use std::collections::HashMap;

use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Binary};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};

use super::super::errors::{JobError, JobResult};
use crate::domain::config::ClientId;
use crate::domain::stash::StashWrite;
use crate::domain::transfer::{DocumentHash, Transfer};
use crate::ports::stash::StashBatch;

/// Rows of one part: well below the time that a statement may take.
const PART: usize = 2_000;

/// The rows before the newest of each document, oldest first. Found by their index and locked, then written where they are: a join may read all
/// rows of the document.
macro_rules! older_rows {
    ($state:literal) => {
        concat!(
            " WHERE ctid = ANY(ARRAY(
                SELECT older.ctid
                FROM unnest($1, $2, $3, $4, $5) AS sent (client, document_hash, incarnation, partition, \"offset\")
                CROSS JOIN LATERAL (
                    SELECT stash.ctid FROM stash
                    WHERE stash.client = sent.client AND stash.document_hash = sent.document_hash AND ",
            $state,
            " AND (stash.incarnation, stash.partition, stash.\"offset\")
                        < (sent.incarnation, sent.partition, sent.\"offset\")
                    ORDER BY stash.incarnation, stash.partition, stash.\"offset\" LIMIT $6 FOR UPDATE
                ) AS older LIMIT $6))"
        )
    };
}

/// They are worth nothing to the receiver any more: it has a newer state.
const SUPERSEDE: &str = concat!(
    "UPDATE stash SET state = 'superseded'",
    older_rows!("stash.state <> 'pending' AND stash.state = 'dead'")
);

/// A newer change goes in their place.
const COALESCE: &str = concat!("DELETE FROM stash", older_rows!("stash.state = 'pending'"));

/// Marks older rows that were given up.
pub(super) async fn supersede(connection: &mut AsyncPgConnection, delivered: &[&Transfer]) -> JobResult<()> {
    all(part_of(connection, SUPERSEDE, delivered).await?)
}

/// Deletes older rows that wait.
pub(super) async fn coalesce(connection: &mut AsyncPgConnection, coalesced: &[&Transfer]) -> JobResult<()> {
    all(part_of(connection, COALESCE, coalesced).await?)
}

fn all(rows: usize) -> JobResult<()> {
    if rows < PART { Ok(()) } else { Err(JobError::TooManyRows) }
}

/// Does a part of what a batch asks for of older rows, ahead of the batch itself. Returns whether more may be left.
pub(super) async fn part(connection: &mut AsyncPgConnection, batch: &StashBatch) -> JobResult<bool> {
    let (mut delivered, mut coalesced) = (Vec::new(), Vec::new());
    for write in &batch.writes {
        match write {
            StashWrite::Delivered { transfer } => delivered.push(&**transfer),
            StashWrite::Coalesced { transfer } => coalesced.push(&**transfer),
            StashWrite::Insert(_)
            | StashWrite::Failed { .. }
            | StashWrite::Dead { .. }
            | StashWrite::Replay { .. } => {}
        }
    }
    let superseded = part_of(connection, SUPERSEDE, &delivered).await?;
    let deleted = part_of(connection, COALESCE, &coalesced).await?;
    Ok(superseded >= PART || deleted >= PART)
}

async fn part_of(
    connection: &mut AsyncPgConnection,
    statement: &str,
    transfers: &[&Transfer],
) -> JobResult<usize> {
    fn column<'a, T>(
        newest: &HashMap<(&ClientId, DocumentHash), &'a Transfer>,
        value: impl Fn(&'a Transfer) -> T,
    ) -> Vec<T> {
        newest.values().map(|transfer| value(transfer)).collect()
    }
    // Each row once: what is older than one of two is older than the newer.
    let mut newest: HashMap<(&ClientId, DocumentHash), &Transfer> = HashMap::new();
    for transfer in transfers {
        let known = newest.entry((&transfer.client, transfer.document_hash)).or_insert(transfer);
        if transfer.sequence > known.sequence {
            *known = transfer;
        }
    }
    if newest.is_empty() {
        return Ok(0);
    }
    let rows = sql_query(statement)
        .bind::<Array<Binary>, _>(column(&newest, |transfer| transfer.client.as_str().as_bytes()))
        .bind::<Array<Binary>, _>(column(&newest, |transfer| &transfer.document_hash.0[..]))
        .bind::<Array<BigInt>, _>(column(&newest, |transfer| i64::from(transfer.sequence.incarnation)))
        .bind::<Array<BigInt>, _>(column(&newest, |transfer| i64::from(transfer.sequence.partition)))
        .bind::<Array<BigInt>, _>(column(&newest, |transfer| transfer.sequence.offset))
        .bind::<BigInt, _>(PART as i64)
        .execute(connection)
        .await?;
    Ok(rows)
}
