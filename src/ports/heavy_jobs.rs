//! Heavy jobs, one row each: the truth about work that Redis may lose.

use super::{BoxFuture, StoreResult};
use crate::domain::config::ClientId;
use crate::domain::heavy_job::{HeavyJob, HeavyState, HeavyStep};
use crate::domain::job::JobId;

/// Jobs in one list, at most.
pub const LARGEST_HEAVY_LIST: usize = 1_000;

/// Keeps heavy jobs.
pub trait HeavyJobs: Send + Sync {
    /// Keeps a job, unless one with its id is kept already, in whatever state. Returns the one that is.
    fn put(&self, job: HeavyJob) -> BoxFuture<'_, StoreResult<HeavyJob>>;

    /// A job.
    fn get<'a>(&'a self, id: &'a JobId) -> BoxFuture<'a, StoreResult<Option<HeavyJob>>>;

    /// Jobs, the newest first, at most [`LARGEST_HEAVY_LIST`]: of a client, or of all.
    fn list(&self, client: Option<ClientId>) -> BoxFuture<'_, StoreResult<Vec<HeavyJob>>>;

    /// Those that are open, the oldest first, at most [`LARGEST_HEAVY_LIST`].
    fn open(&self) -> BoxFuture<'_, StoreResult<Vec<HeavyJob>>>;

    /// Writes how far an open job is. `Fenced` when it is not open any more, or a holder with a larger `fence` has written.
    fn step<'a>(&'a self, id: &'a JobId, fence: i64, step: HeavyStep) -> BoxFuture<'a, StoreResult<()>>;

    /// Turns a job that is `from` into one that is `to`; where it goes on stays. `false`: it is not, or there is none.
    fn turn<'a>(
        &'a self,
        id: &'a JobId,
        from: HeavyState,
        to: HeavyState,
        reason: Option<&'a str>,
        now_ms: i64,
    ) -> BoxFuture<'a, StoreResult<bool>>;

    /// Forgets a job that has ended: its id is free. `false`: it has not, or there is none.
    fn forget<'a>(&'a self, id: &'a JobId) -> BoxFuture<'a, StoreResult<bool>>;

    /// Forgets the jobs that ended before this time (milliseconds since 1970), and of the others that have ended all but the last `keep`.
    /// Returns how many went.
    fn purge(&self, before_ms: i64, keep: u32) -> BoxFuture<'_, StoreResult<u64>>;
}
