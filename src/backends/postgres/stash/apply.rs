//! Applies batches: all in one transaction, a few statements for all of them. Only when PostgreSQL refuses it, or takes too long over it, are
//! they written one by one, so that the bad one alone is not written.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::super::database::{Database, begin, end};
use super::super::errors::{JobError, JobResult};
use super::super::key;
use super::ownership::{Epochs, Tokens};
use super::steps::steps;
use super::{older, writes};
use crate::domain::config::ClientId;
use crate::domain::stash::StashWrite;
use crate::ports::stash::StashBatch;
use crate::ports::{StoreError, StoreResult};

/// For all that are written one by one. What is left then is asked for again: nobody waits longer for the slow batches of others.
const ONE_BY_ONE: Duration = Duration::from_secs(20);

/// Of a statement of one that is written alone.
const ALONE: &str = "SET LOCAL statement_timeout = '10s'";

/// Parts of one batch, at once: the others wait meanwhile.
const PARTS: usize = 5;

/// Why a transaction was taken back.
enum No {
    /// It concerns more rows than one transaction may take.
    TooManyRows,
    /// PostgreSQL says so.
    Other(StoreError),
}

/// Applies batches in order.
pub(super) async fn apply(
    database: &Database,
    batches: Vec<StashBatch>,
) -> StoreResult<Vec<StoreResult<()>>> {
    let batches: Arc<[StashBatch]> = batches.into();
    let written =
        decide(database, &batches, "", |connection, batches| Box::pin(write(connection, batches))).await;
    match (written, &batches[..]) {
        (Ok(Ok(results)), _) => Ok(results),
        (Ok(Err(No::Other(error))), [_]) => Ok(vec![Err(error)]),
        (Err(error), [] | [_]) => Err(error),
        (Ok(Err(_)) | Err(_), _) => one_by_one(database, &batches).await,
    }
}

/// Each for itself, with time of its own. The outer error: nothing was written, for there is no answer.
async fn one_by_one(database: &Database, batches: &[StashBatch]) -> StoreResult<Vec<StoreResult<()>>> {
    let began = Instant::now();
    let mut results: Vec<StoreResult<()>> = Vec::with_capacity(batches.len());
    // Something of theirs was not written: what comes after it has to wait, too.
    let mut waiting: HashSet<&ClientId> = HashSet::new();
    let mut away = false;
    for batch in batches {
        let result = if away || began.elapsed() > ONE_BY_ONE || waiting.contains(&batch.client) {
            Err(StoreError::Unavailable("it waits behind other writes".into()))
        } else {
            match alone(database, batch).await {
                Ok(result) => result,
                Err(error) if results.iter().all(Result::is_err) => return Err(error),
                Err(error) => {
                    away = true;
                    Err(error)
                }
            }
        };
        if result.as_ref().is_err_and(StoreError::is_transient) {
            waiting.insert(&batch.client);
        }
        results.push(result);
    }
    Ok(results)
}

/// One batch. If it concerns too many rows, those go first, part by part: each attempt comes further.
async fn alone(database: &Database, batch: &StashBatch) -> StoreResult<StoreResult<()>> {
    let batch: Arc<[StashBatch]> = [batch.clone()].into();
    let mut left = PARTS;
    loop {
        let written =
            decide(database, &batch, ALONE, |connection, batch| Box::pin(write(connection, batch))).await?;
        match written {
            Ok(mut results) => return Ok(results.pop().unwrap_or(Ok(()))),
            Err(No::Other(error)) => return Ok(Err(error)),
            Err(No::TooManyRows) if left == 0 => return Ok(Err(JobError::TooManyRows.into())),
            Err(No::TooManyRows) => {}
        }
        while left > 0 {
            left -= 1;
            let part = decide(database, &batch, ALONE, |connection, batch| Box::pin(part(connection, batch)));
            match part.await? {
                Ok(true) => {}
                Ok(false) => break,
                Err(No::TooManyRows) => return Ok(Err(JobError::TooManyRows.into())),
                Err(No::Other(error)) => return Ok(Err(error)),
            }
        }
    }
}

/// Runs a piece of work as one transaction. The outer error: there is no answer.
async fn decide<T, W>(
    database: &Database,
    batches: &Arc<[StashBatch]>,
    settings: &'static str,
    work: W,
) -> StoreResult<Result<T, No>>
where
    T: Send + 'static,
    W: for<'c> FnOnce(&'c mut AsyncPgConnection, &'c [StashBatch]) -> BoxFuture<'c, JobResult<T>>
        + Send
        + 'static,
{
    let batches = Arc::clone(batches);
    let decided = database.run(move |connection| {
        Box::pin(async move {
            begin(connection).await?;
            if !settings.is_empty() {
                connection.batch_execute(settings).await?;
            }
            let result = work(connection, &batches).await;
            match end(connection, result).await {
                Ok(value) => Ok(Ok(value)),
                Err(JobError::TooManyRows) => Ok(Err(No::TooManyRows)),
                Err(JobError::Store(error)) => Ok(Err(No::Other(error))),
                Err(error) if error.may_be_of_the_data() => Ok(Err(No::Other(error.into()))),
                Err(error) => Err(error),
            }
        })
    });
    decided.await
}

async fn write(
    connection: &mut AsyncPgConnection,
    batches: &[StashBatch],
) -> JobResult<Vec<StoreResult<()>>> {
    let allowed = allowed(connection, batches).await?;
    let written = batches.iter().zip(&allowed).filter(|(_, allowed)| allowed.is_ok()).map(|(batch, _)| batch);
    for step in steps(written) {
        writes::run(connection, &step).await?;
    }
    Ok(allowed)
}

/// Whether more may be left.
async fn part(connection: &mut AsyncPgConnection, batches: &[StashBatch]) -> JobResult<bool> {
    let mut more = false;
    for (batch, allowed) in batches.iter().zip(allowed(connection, batches).await?) {
        allowed?;
        more |= older::part(connection, batch).await?;
    }
    Ok(more)
}

/// Whether each may be written, which stays so until the transaction ends.
async fn allowed(
    connection: &mut AsyncPgConnection,
    batches: &[StashBatch],
) -> JobResult<Vec<StoreResult<()>>> {
    let epochs = Epochs::hold(connection, batches.iter().map(|batch| batch.ownership)).await?;
    let drains = batches.iter().filter(|batch| batch.lease.is_some());
    let tokens = Tokens::hold(connection, drains.map(|batch| &batch.client)).await?;
    let check = |batch: &StashBatch| {
        epochs.check(batch.ownership)?;
        batch.lease.map_or(Ok(()), |token| tokens.check(&batch.client, token))?;
        can_be_stored(batch)
    };
    Ok(batches.iter().map(|batch| check(batch).map_err(StoreError::from)).collect())
}

fn can_be_stored(batch: &StashBatch) -> JobResult<()> {
    key(batch.client.as_str())?;
    for write in &batch.writes {
        let transfer = match write {
            StashWrite::Insert(row) => &row.transfer,
            StashWrite::Delivered { transfer }
            | StashWrite::Coalesced { transfer }
            | StashWrite::Replay { transfer } => transfer,
            StashWrite::Failed { .. } | StashWrite::Dead { .. } => continue,
        };
        key(transfer.event_id.as_str())?;
        if transfer.client != batch.client {
            return Err(StoreError::Refused("a row of another client than the batch's".into()).into());
        }
    }
    Ok(())
}
