//! Heavy jobs, one row each.

use std::sync::Arc;

use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::database::Database;
use super::errors::{JobError, JobResult};
use super::schema::heavy_jobs as jobs;
use super::{key, text};
use crate::backends::stored::StoredHeavyJob;
use crate::domain::config::ClientId;
use crate::domain::heavy_job::{HeavyJob, HeavyState, HeavyStep};
use crate::domain::job::JobId;
use crate::ports::heavy_jobs::{HeavyJobs, LARGEST_HEAVY_LIST};
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct PgHeavyJobs {
    database: Arc<Database>,
}

impl PgHeavyJobs {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

type Row = (String, Vec<u8>, String, String, String, String, String, Option<Vec<u8>>, i64, i64);

type Columns = (
    jobs::id,
    jobs::client,
    jobs::kind,
    jobs::parameters,
    jobs::state,
    jobs::position,
    jobs::progress,
    jobs::reason,
    jobs::created_ms,
    jobs::updated_ms,
);

const COLUMNS: Columns = (
    jobs::id,
    jobs::client,
    jobs::kind,
    jobs::parameters,
    jobs::state,
    jobs::position,
    jobs::progress,
    jobs::reason,
    jobs::created_ms,
    jobs::updated_ms,
);

const OPEN: &str = HeavyState::Open.as_str();

fn read(row: Row) -> JobResult<HeavyJob> {
    let (id, client, kind, parameters, state, position, progress, reason, created_ms, updated_ms) = row;
    let at_ms = (created_ms, updated_ms);
    let client = text(client, "client")?;
    let reason = reason.map(|reason| text(reason, "reason")).transpose()?;
    let stored = StoredHeavyJob { id, client, kind, parameters, state, position, progress, reason, at_ms };
    Ok(stored.read()?)
}

async fn find(connection: &mut AsyncPgConnection, id: &JobId) -> JobResult<Option<HeavyJob>> {
    let row: Option<Row> =
        jobs::table.find(id.as_str()).select(COLUMNS).first(connection).await.optional()?;
    row.map(read).transpose()
}

impl HeavyJobs for PgHeavyJobs {
    fn put(&self, job: HeavyJob) -> BoxFuture<'_, StoreResult<HeavyJob>> {
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                diesel::insert_into(jobs::table)
                    .values((
                        jobs::id.eq(job.id.as_str()),
                        jobs::client.eq(key(job.client.as_str())?),
                        jobs::kind.eq(&job.kind),
                        jobs::parameters.eq(job.parameters.to_string()),
                        jobs::state.eq(job.state.as_str()),
                        jobs::position.eq(job.position.to_string()),
                        jobs::progress.eq(job.progress.to_string()),
                        jobs::reason.eq(job.reason.as_deref().map(str::as_bytes)),
                        jobs::fence.eq(0),
                        jobs::created_ms.eq(job.created_ms),
                        jobs::updated_ms.eq(job.updated_ms),
                    ))
                    .on_conflict_do_nothing()
                    .execute(connection)
                    .await?;
                Ok(find(connection, &job.id).await?.unwrap_or(job))
            })
        }))
    }

    fn get<'a>(&'a self, id: &'a JobId) -> BoxFuture<'a, StoreResult<Option<HeavyJob>>> {
        let id = id.clone();
        Box::pin(self.database.run(move |connection| Box::pin(async move { find(connection, &id).await })))
    }

    fn list(&self, client: Option<ClientId>) -> BoxFuture<'_, StoreResult<Vec<HeavyJob>>> {
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let mut query = jobs::table
                    .select(COLUMNS)
                    .order((jobs::created_ms.desc(), jobs::id.desc()))
                    .limit(LARGEST_HEAVY_LIST as i64)
                    .into_boxed();
                if let Some(client) = &client {
                    query = query.filter(jobs::client.eq(client.as_str().as_bytes()));
                }
                query.load::<Row>(connection).await?.into_iter().map(read).collect()
            })
        }))
    }

    fn open(&self) -> BoxFuture<'_, StoreResult<Vec<HeavyJob>>> {
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let rows: Vec<Row> = jobs::table
                    .filter(jobs::state.eq(OPEN))
                    .select(COLUMNS)
                    .order((jobs::created_ms.asc(), jobs::id.asc()))
                    .limit(LARGEST_HEAVY_LIST as i64)
                    .load(connection)
                    .await?;
                rows.into_iter().map(read).collect()
            })
        }))
    }

    fn step<'a>(&'a self, id: &'a JobId, fence: i64, step: HeavyStep) -> BoxFuture<'a, StoreResult<()>> {
        let id = id.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let row = jobs::table.find(id.as_str());
                let written = diesel::update(row)
                    .filter(jobs::state.eq(OPEN).and(jobs::fence.le(fence)))
                    .set((
                        jobs::state.eq(step.state.as_str()),
                        jobs::position.eq(step.position.to_string()),
                        jobs::progress.eq(step.progress.to_string()),
                        jobs::reason.eq(step.reason.map(String::into_bytes)),
                        jobs::fence.eq(fence),
                        jobs::updated_ms.eq(step.now_ms),
                    ))
                    .execute(connection)
                    .await?;
                if written == 1 { Ok(()) } else { Err(JobError::fenced("the job ended, or another runs it")) }
            })
        }))
    }

    fn turn<'a>(
        &'a self,
        id: &'a JobId,
        from: HeavyState,
        to: HeavyState,
        reason: Option<&'a str>,
        now_ms: i64,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        let (id, reason) = (id.clone(), reason.map(str::to_owned));
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let turned = diesel::update(jobs::table.find(id.as_str()))
                    .filter(jobs::state.eq(from.as_str()))
                    .set((
                        jobs::state.eq(to.as_str()),
                        jobs::reason.eq(reason.map(String::into_bytes)),
                        jobs::updated_ms.eq(now_ms),
                    ))
                    .execute(connection)
                    .await?;
                Ok(turned == 1)
            })
        }))
    }

    fn forget<'a>(&'a self, id: &'a JobId) -> BoxFuture<'a, StoreResult<bool>> {
        let id = id.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let row = jobs::table.find(id.as_str());
                Ok(diesel::delete(row).filter(jobs::state.ne(OPEN)).execute(connection).await? == 1)
            })
        }))
    }

    fn purge(&self, before_ms: i64, keep: u32) -> BoxFuture<'_, StoreResult<u64>> {
        const PURGE: &str = "DELETE FROM heavy_jobs WHERE state <> 'open' AND (updated_ms < $1 OR id NOT IN
            (SELECT id FROM heavy_jobs WHERE state <> 'open' ORDER BY updated_ms DESC, id LIMIT $2))";
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let purge =
                    diesel::sql_query(PURGE).bind::<BigInt, _>(before_ms).bind::<BigInt, _>(i64::from(keep));
                Ok(purge.execute(connection).await? as u64)
            })
        }))
    }
}
