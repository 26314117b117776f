//! Applies batches: all in one transaction, a few statements for all of them. Only when PostgreSQL refuses it are they
//! written one by one, each under a savepoint, so that the bad one alone is not written.

use diesel_async::AsyncPgConnection;

use super::super::database::{begin, end};
use super::super::errors::{JobError, JobResult};
use super::super::key;
use super::ownership::{Epochs, Tokens};
use super::steps::steps;
use super::writes;
use crate::domain::stash::StashWrite;
use crate::ports::stash::StashBatch;
use crate::ports::{StoreError, StoreResult};

pub(super) async fn apply(
    connection: &mut AsyncPgConnection,
    batches: &[StashBatch],
) -> JobResult<Vec<StoreResult<()>>> {
    begin(connection).await?;
    let result = together(connection, batches).await;
    match end(connection, result).await {
        Err(error) if error.may_be_of_the_data() => {
            begin(connection).await?;
            let result = one_by_one(connection, batches).await;
            end(connection, result).await
        }
        result => result,
    }
}

async fn together(
    connection: &mut AsyncPgConnection,
    batches: &[StashBatch],
) -> JobResult<Vec<StoreResult<()>>> {
    let epochs = Epochs::hold(connection, batches.iter().map(|batch| batch.ownership)).await?;
    let drains = batches.iter().filter(|batch| batch.lease.is_some());
    let tokens = Tokens::hold(connection, drains.map(|batch| &batch.client)).await?;
    let allowed: Vec<StoreResult<()>> = batches
        .iter()
        .map(|batch| {
            epochs.check(batch.ownership)?;
            batch.lease.map_or(Ok(()), |token| tokens.check(&batch.client, token))?;
            can_be_stored(batch)
        })
        .map(|checked| checked.map_err(StoreError::from))
        .collect();
    let written = batches.iter().zip(&allowed).filter(|(_, allowed)| allowed.is_ok()).map(|(batch, _)| batch);
    for step in steps(written) {
        writes::run(connection, &step).await?;
    }
    Ok(allowed)
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

async fn one_by_one(
    connection: &mut AsyncPgConnection,
    batches: &[StashBatch],
) -> JobResult<Vec<StoreResult<()>>> {
    let mut results = Vec::with_capacity(batches.len());
    for batch in batches {
        begin(connection).await?;
        let result = together(connection, std::slice::from_ref(batch)).await;
        results.push(match end(connection, result).await {
            Ok(mut alone) => alone.pop().unwrap_or(Ok(())),
            Err(JobError::Store(error)) => Err(error),
            Err(error) if error.may_be_of_the_data() => Err(error.into()),
            Err(error) => return Err(error),
        });
    }
    Ok(results)
}
