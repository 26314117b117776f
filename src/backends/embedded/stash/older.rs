//! Older rows of documents of which a newer change was delivered. Of one document there may be very many: a statement takes a part of them.

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary, Text};
use diesel::sqlite::SqliteConnection;

use super::super::errors::{JobError, JobResult};
use super::ownership;
use crate::domain::config::ClientId;
use crate::domain::stash::StashWrite;
use crate::domain::transfer::Transfer;
use crate::ports::stash::StashBatch;

/// Rows of one part: others write between two.
const PART: usize = 1_000;

macro_rules! older_rows {
    ($state:literal) => {
        concat!(
            " WHERE id IN (SELECT id FROM stash WHERE client = ? AND document_hash = ? AND state = ",
            $state,
            " AND (incarnation, partition, offset) < (?, ?, ?) ORDER BY incarnation, partition, offset LIMIT ?)"
        )
    };
}

/// They are worth nothing to the receiver any more: it has a newer state.
const SUPERSEDE: &str = concat!("UPDATE stash SET state = 'superseded'", older_rows!("'dead'"));

/// A newer change goes in their place.
const COALESCE: &str = concat!("DELETE FROM stash", older_rows!("'pending'"));

/// Marks older rows that were given up.
pub(super) fn supersede(
    connection: &mut SqliteConnection,
    client: &ClientId,
    delivered: &Transfer,
) -> JobResult<()> {
    all(part_of(connection, SUPERSEDE, client, delivered)?)
}

/// Deletes older rows that wait.
pub(super) fn coalesce(
    connection: &mut SqliteConnection,
    client: &ClientId,
    coalesced: &Transfer,
) -> JobResult<()> {
    all(part_of(connection, COALESCE, client, coalesced)?)
}

fn all(rows: usize) -> JobResult<()> {
    if rows < PART { Ok(()) } else { Err(JobError::TooManyRows) }
}

/// Does a part of what a batch asks for of older rows, ahead of the batch itself. Returns whether more may be left.
pub(super) fn part(connection: &mut SqliteConnection, batch: &StashBatch) -> JobResult<bool> {
    ownership::check_batch(connection, batch)?;
    for write in &batch.writes {
        let rows = match write {
            StashWrite::Delivered { transfer } => part_of(connection, SUPERSEDE, &batch.client, transfer)?,
            StashWrite::Coalesced { transfer } => part_of(connection, COALESCE, &batch.client, transfer)?,
            StashWrite::Insert(_)
            | StashWrite::Failed { .. }
            | StashWrite::Dead { .. }
            | StashWrite::Replay { .. } => 0,
        };
        if rows >= PART {
            return Ok(true);
        }
    }
    Ok(false)
}

fn part_of(
    connection: &mut SqliteConnection,
    statement: &str,
    client: &ClientId,
    transfer: &Transfer,
) -> JobResult<usize> {
    let sequence = transfer.sequence;
    Ok(sql_query(statement)
        .bind::<Text, _>(client.as_str())
        .bind::<Binary, _>(&transfer.document_hash.0[..])
        .bind::<BigInt, _>(i64::from(sequence.incarnation))
        .bind::<BigInt, _>(i64::from(sequence.partition))
        .bind::<BigInt, _>(sequence.offset)
        .bind::<BigInt, _>(PART as i64)
        .execute(connection)?)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{migrated, plan};
    use super::*;

    #[test]
    fn a_part_reads_no_more_than_itself() {
        let mut connection = migrated();
        for statement in [SUPERSEDE, COALESCE] {
            let plan = plan(&mut connection, statement);
            assert!(
                plan.contains(
                    "USING COVERING INDEX stash_document (client=? AND document_hash=? AND state=? AND \
                    (incarnation,partition,offset)<"
                ),
                "{plan}"
            );
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
