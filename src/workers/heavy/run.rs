//! A row in the hands of whoever runs the job. Every write names the lease under which it runs, so that one who stood still for long writes over
//! nobody's work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::Fence;
use crate::domain::heavy_job::{HeavyJob, HeavyState, HeavyStep};
use crate::ports::clock::Clock;
use crate::ports::event_log::StillHeld;
use crate::ports::heavy_jobs::HeavyJobs;
use crate::ports::{StoreError, StoreResult};

/// What follows a step that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The next one.
    More,
    /// The next one, but not before this time.
    Wait(Duration),
    /// Nothing: all is done.
    Done,
}

/// Why a step did not go well.
#[derive(Debug)]
pub enum Stop {
    /// Trying again is of no use; says why.
    Never(String),
    /// A store said so.
    Store(StoreError),
}

impl From<StoreError> for Stop {
    fn from(err: StoreError) -> Self {
        Self::Store(err)
    }
}

/// A row, and what was counted since it was read.
pub struct HeavyRun {
    /// The job.
    pub row: HeavyJob,
    fence: i64,
    /// Whether the lease is held still.
    pub(super) held: StillHeld,
    rows: Arc<dyn HeavyJobs>,
    clock: Arc<dyn Clock>,
    counts: BTreeMap<String, u64>,
}

impl HeavyRun {
    /// The row, run under this lease.
    pub fn new(
        row: HeavyJob,
        Fence(fence): Fence,
        held: StillHeld,
        rows: Arc<dyn HeavyJobs>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let counts = serde_json::from_value(row.progress.clone()).unwrap_or_default();
        Self { row, fence, held, rows, clock, counts }
    }

    /// Where it goes on; its beginning when nothing is written.
    ///
    /// # Errors
    /// What is written is of another version.
    pub fn position<T: DeserializeOwned + Default>(&self) -> Result<T, Stop> {
        if self.row.position.is_null() {
            return Ok(T::default());
        }
        serde_json::from_value(self.row.position.clone())
            .map_err(|err| Stop::Never(format!("where it was cannot be read: {err}")))
    }

    /// Counts.
    pub fn count(&mut self, what: &str, more: usize) {
        if more > 0 {
            *self.counts.entry(what.to_owned()).or_default() += more as u64;
        }
    }

    /// What is counted so far.
    pub fn progress(&self) -> Value {
        json!(self.counts)
    }

    /// Names this run of the work: a job that was forgotten and asked for again is another.
    pub fn name(&self) -> String {
        format!("{}/{}", self.row.id, self.row.created_ms)
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Writes where it goes on, and what is counted.
    ///
    /// # Errors
    /// The store is away, the job was ended, or another runs it.
    pub async fn save<T: Serialize>(&mut self, position: &T) -> StoreResult<()> {
        self.row.position = serde_json::to_value(position)
            .map_err(|err| StoreError::Refused(format!("where it goes on cannot be written: {err}")))?;
        self.write(HeavyState::Open, None).await
    }

    /// Writes that it has ended.
    pub(super) async fn end(&mut self, state: HeavyState, reason: Option<&str>) -> StoreResult<()> {
        self.write(state, reason).await
    }

    async fn write(&mut self, state: HeavyState, reason: Option<&str>) -> StoreResult<()> {
        let step = HeavyStep {
            state,
            position: self.row.position.clone(),
            progress: self.progress(),
            reason: reason.map(str::to_owned),
            now_ms: self.clock.now_ms(),
        };
        self.rows.step(&self.row.id, self.fence, step.clone()).await?;
        let HeavyStep { state, progress, reason, now_ms, .. } = step;
        self.row = HeavyJob { state, progress, reason, updated_ms: now_ms, ..self.row.clone() };
        Ok(())
    }
}
