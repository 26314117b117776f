//! Applies batches: all in one job, each under a savepoint. Who concerns very many rows comes after the others, in jobs of its own.

use std::collections::HashSet;
use std::sync::Arc;

use diesel::sqlite::SqliteConnection;

use super::super::database::{Database, savepoint};
use super::super::errors::{JobError, JobResult};
use super::{older, writes};
use crate::domain::config::ClientId;
use crate::ports::clock::Clock;
use crate::ports::stash::StashBatch;
use crate::ports::{StoreError, StoreResult};

/// Parts of one batch, at once: the others wait meanwhile.
const PARTS: usize = 10;

/// Applies batches in order.
pub(super) async fn apply(
    database: &Database,
    clock: &Arc<dyn Clock>,
    batches: Vec<StashBatch>,
) -> StoreResult<Vec<StoreResult<()>>> {
    let batches: Arc<[StashBatch]> = batches.into();
    let (all, clock_of_all) = (Arc::clone(&batches), Arc::clone(clock));
    let written =
        database.write_bulk(move |connection| write(connection, &all, clock_of_all.now_ms())).await?;
    let mut results: Vec<StoreResult<()>> = Vec::with_capacity(batches.len());
    // Something of theirs was not written: what comes after it has to wait, too.
    let mut waiting: HashSet<&ClientId> = HashSet::new();
    for (batch, written) in batches.iter().zip(written) {
        let result = match written {
            Err(JobError::TooManyRows) if waiting.contains(&batch.client) => {
                Err(JobError::TooManyRows.into())
            }
            Err(JobError::TooManyRows) => by_parts(database, clock, batch).await,
            written => written.map_err(StoreError::from),
        };
        if result.as_ref().is_err_and(StoreError::is_transient) {
            waiting.insert(&batch.client);
        }
        results.push(result);
    }
    Ok(results)
}

/// Each attempt comes further.
async fn by_parts(database: &Database, clock: &Arc<dyn Clock>, batch: &StashBatch) -> StoreResult<()> {
    for _ in 0..PARTS {
        let batch = batch.clone();
        if !database.write_bulk(move |connection| older::part(connection, &batch)).await? {
            break;
        }
    }
    let (batch, clock) = (batch.clone(), Arc::clone(clock));
    database.write_bulk(move |connection| writes::apply(connection, &batch, clock.now_ms())).await
}

fn write(
    connection: &mut SqliteConnection,
    batches: &[StashBatch],
    now_ms: i64,
) -> JobResult<Vec<JobResult<()>>> {
    let mut later: HashSet<&ClientId> = HashSet::new();
    let mut results = Vec::with_capacity(batches.len());
    for batch in batches {
        if later.contains(&batch.client) {
            results.push(Err(JobError::TooManyRows));
            continue;
        }
        match savepoint(connection, |connection| writes::apply(connection, batch, now_ms))? {
            Ok(()) => results.push(Ok(())),
            Err(JobError::TooManyRows) => {
                later.insert(&batch.client);
                results.push(Err(JobError::TooManyRows));
            }
            // No space, or no file: the other batches would fare no better.
            Err(error) => match StoreError::from(error) {
                error if error.is_transient() => return Err(error.into()),
                error => results.push(Err(error.into())),
            },
        }
    }
    Ok(results)
}
