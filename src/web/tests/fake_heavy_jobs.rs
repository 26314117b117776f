//! Heavy jobs in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use crate::domain::config::ClientId;
use crate::domain::heavy_job::{HeavyJob, HeavyState, HeavyStep};
use crate::domain::job::JobId;
use crate::ports::StoreResult;
use crate::ports::heavy_jobs::HeavyJobs;

#[derive(Default)]
pub(super) struct FakeHeavyJobs(pub(super) Mutex<BTreeMap<JobId, HeavyJob>>);

fn done<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, StoreResult<T>> {
    ready(Ok(value)).boxed()
}

impl HeavyJobs for FakeHeavyJobs {
    fn put(&self, job: HeavyJob) -> BoxFuture<'_, StoreResult<HeavyJob>> {
        done(self.0.lock().unwrap().entry(job.id.clone()).or_insert(job).clone())
    }

    fn get<'a>(&'a self, id: &'a JobId) -> BoxFuture<'a, StoreResult<Option<HeavyJob>>> {
        done(self.0.lock().unwrap().get(id).cloned())
    }

    fn list(&self, client: Option<ClientId>) -> BoxFuture<'_, StoreResult<Vec<HeavyJob>>> {
        let jobs = self.0.lock().unwrap();
        let is_his = |job: &&HeavyJob| client.as_ref().is_none_or(|client| job.client == *client);
        done(jobs.values().filter(is_his).cloned().collect())
    }

    fn open(&self) -> BoxFuture<'_, StoreResult<Vec<HeavyJob>>> {
        let jobs = self.0.lock().unwrap();
        done(jobs.values().filter(|job| job.state == HeavyState::Open).cloned().collect())
    }

    fn step<'a>(&'a self, _: &'a JobId, _: i64, _: HeavyStep) -> BoxFuture<'a, StoreResult<()>> {
        panic!("the HTTP side runs no job")
    }

    fn turn<'a>(
        &'a self,
        id: &'a JobId,
        from: HeavyState,
        to: HeavyState,
        reason: Option<&'a str>,
        now_ms: i64,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        let mut jobs = self.0.lock().unwrap();
        let Some(job) = jobs.get_mut(id).filter(|job| job.state == from) else { return done(false) };
        (job.state, job.reason, job.updated_ms) = (to, reason.map(str::to_owned), now_ms);
        done(true)
    }

    fn forget<'a>(&'a self, id: &'a JobId) -> BoxFuture<'a, StoreResult<bool>> {
        let mut jobs = self.0.lock().unwrap();
        let has_ended = jobs.get(id).is_some_and(|job| job.state != HeavyState::Open);
        done(has_ended && jobs.remove(id).is_some())
    }

    fn purge(&self, _: i64, _: u32) -> BoxFuture<'_, StoreResult<u64>> {
        done(0)
    }
}
