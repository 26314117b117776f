//! Sends again what is dead of a client: page by page, the oldest failures first. A replay is a record of the transfer log; the owner that comes
//! to it lets the row wait again.
//!
//! A page that was appended and not written down is appended again after a crash. That brings nothing back twice: a row that waits already, or
//! was delivered, refuses the second replay.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::HeavyWorker;
use super::run::{HeavyRun, Stop, Turn};
use crate::domain::config::ClientId;
use crate::domain::dead_row::{ByAge, DeadRow, DeadRowQuery, GivenUp, Refusal, may_come_back};
use crate::domain::transfer::{EventId, NewTransfer, TransferKind};
use crate::ports::StoreResult;
use crate::ports::event_log::EventLog;
use crate::ports::stash::Stash;
use crate::workers::queues::Replay;

/// Rows of one page.
const PAGE: usize = 100;
/// A page whose payloads have this many bytes is full, whatever its rows.
const PAGE_BYTES: u64 = 8 << 20;
/// While too much waits already.
const WAIT: Duration = Duration::from_secs(10);

/// What became of a page.
#[derive(Debug, Default)]
pub struct ReplayedPage {
    /// So many are in the log.
    pub replayed: usize,
    /// So many were not brought back, by reason.
    pub refused: BTreeMap<&'static str, usize>,
    /// Where the next page begins; `None`: that was the last.
    pub next: Option<String>,
}

/// Replays a page of what is dead of a client.
///
/// # Errors
/// When the stash or the log is away: the page may be in the log.
pub async fn replay_page(
    stash: &dyn Stash,
    log: &dyn EventLog,
    client: &ClientId,
    query: DeadRowQuery,
    forced: bool,
) -> StoreResult<ReplayedPage> {
    let limit = query.limit;
    let mut rows = stash.dead_rows(query).await?;
    let found = rows.len();
    rows.truncate(fitting(&rows));
    let is_last = rows.len() == found && found < limit;
    let next = rows.last().filter(|_| !is_last).map(|last| last.place().to_string());
    // Of one document in the order of its changes.
    rows.sort_by_key(|row| row.sequence);
    let (transfers, refused) = replays(stash, client, &rows, forced).await?;
    let replayed = transfers.len();
    if replayed > 0 {
        log.append_transfers(transfers).await?;
    }
    Ok(ReplayedPage { replayed, refused, next })
}

/// How many of these rows go into one page: one at least.
fn fitting(rows: &[DeadRow]) -> usize {
    let mut bytes = 0;
    let more = rows.iter().take_while(|row| {
        bytes += row.bytes;
        bytes <= PAGE_BYTES
    });
    more.count().max(1)
}

/// The replays of rows, and how many were refused, by reason.
async fn replays(
    stash: &dyn Stash,
    client: &ClientId,
    rows: &[DeadRow],
    forced: bool,
) -> StoreResult<(Vec<NewTransfer>, BTreeMap<&'static str, usize>)> {
    let events: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
    let known = stash.check(client, Vec::new(), events.clone()).await?;
    let kind = if forced { TransferKind::ForcedReplay } else { TransferKind::Replay };
    let (mut transfers, mut refused) = (Vec::new(), BTreeMap::new());
    for event in events {
        let payload = match may_come_back(known.stashed.get(&event).copied(), forced) {
            Ok(()) => stash.dead_payload(client, &event).await?.ok_or(Refusal::Gone),
            Err(refusal) => Err(refusal),
        };
        match payload {
            Ok(payload) => transfers.push(NewTransfer { kind, ..payload }),
            Err(refusal) => *refused.entry(refusal.as_str()).or_default() += 1,
        }
    }
    Ok((transfers, refused))
}

/// Where the job goes on.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Place {
    /// Behind this row.
    after: Option<String>,
}

impl HeavyWorker {
    /// One page.
    pub(super) async fn replay(&self, job: &Replay, run: &mut HeavyRun) -> Result<Turn, Stop> {
        let Place { after } = run.position()?;
        if self.is_behind(&run.row).await? {
            return Ok(Turn::Wait(WAIT));
        }
        let broken = |why: String| Stop::Never(format!("where it was cannot be read: {why}"));
        let query = DeadRowQuery {
            client: Some(job.client.clone()),
            kind: GivenUp::Dead,
            from_ms: job.from_ms.unwrap_or(i64::MIN),
            // What dies while this runs is not its business: it would never end.
            until_ms: job.to_ms.unwrap_or(i64::MAX).min(run.row.created_ms),
            after: after.map(|after| after.parse()).transpose().map_err(broken)?,
            order: ByAge::OldestFirst,
            limit: PAGE,
        };
        let page = replay_page(&*self.stash, &*self.log, &job.client, query, job.force).await?;
        run.count("replayed", page.replayed);
        for (reason, count) in page.refused {
            run.count(reason, count);
        }
        let is_last = page.next.is_none();
        run.save(&Place { after: page.next }).await?;
        Ok(if is_last { Turn::Done } else { Turn::More })
    }
}
