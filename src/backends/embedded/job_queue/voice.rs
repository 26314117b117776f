//! What a job says while it runs.

use std::sync::Arc;

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;
use serde_json::Value;

use super::line::Line;
use super::schema::{job_lines, jobs};
use crate::backends::embedded::errors::{JobError, JobResult};
use crate::ports::job_queue::JobVoice;
use crate::ports::{BoxFuture, StoreResult};

/// Lines that are kept of a job.
const LINES: i64 = 50;
/// Bytes of a line, and of what is said about the progress.
const SAID_BYTES: usize = 64 << 10;

pub(super) struct Voice {
    pub(super) line: Arc<Line>,
    pub(super) seq: i64,
    pub(super) token: i64,
}

impl JobVoice for Voice {
    fn log(&self, text: String) -> BoxFuture<'_, StoreResult<()>> {
        let (seq, token) = (self.seq, self.token);
        Box::pin(self.line.write(move |connection, line| {
            bounded(&text)?;
            let ours = jobs::table.find(seq).filter(jobs::holder.eq(token));
            if diesel::select(diesel::dsl::exists(ours)).get_result(connection)? {
                write(connection, line, seq, &text)?;
            }
            Ok(())
        }))
    }

    fn progress(&self, progress: Value) -> BoxFuture<'_, StoreResult<()>> {
        let (seq, token) = (self.seq, self.token);
        Box::pin(self.line.write(move |connection, _| {
            let progress = progress.to_string();
            bounded(&progress)?;
            diesel::update(jobs::table.find(seq).filter(jobs::holder.eq(token)))
                .set(jobs::progress.eq(progress))
                .execute(connection)?;
            Ok(())
        }))
    }
}

fn bounded(text: &str) -> JobResult<()> {
    if text.len() <= SAID_BYTES {
        return Ok(());
    }
    Err(JobError::refused(format!("a job says at most {SAID_BYTES} bytes at a time")))
}

/// Adds a line to a job's log.
pub(super) fn write(connection: &mut SqliteConnection, line: &Line, seq: i64, text: &str) -> JobResult<()> {
    diesel::insert_into(job_lines::table)
        .values((job_lines::job.eq(seq), job_lines::place.eq(line.store.place()), job_lines::line.eq(text)))
        .execute(connection)?;
    let last_too_old: Option<i64> = job_lines::table
        .filter(job_lines::job.eq(seq))
        .order(job_lines::place.desc())
        .offset(LINES)
        .select(job_lines::place)
        .first(connection)
        .optional()?;
    if let Some(place) = last_too_old {
        diesel::delete(job_lines::table.filter(job_lines::job.eq(seq)).filter(job_lines::place.le(place)))
            .execute(connection)?;
    }
    Ok(())
}
