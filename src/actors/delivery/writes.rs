//! What this actor writes to the stash: in order, one message at a time, and what follows when it is durable.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;

use super::WebhookDeliveryActor;
use super::lanes::{Entry, LaneKey};
use crate::actors::refused::keep_refused;
use crate::actors::stash::write_all;
use crate::domain::stash::StashWrite;
use crate::domain::transfer::{Sequence, Transfer};
use crate::ports::stash::{Ownership, StashBatch};
use crate::ports::{StoreError, StoreResult};

/// How many writes go into one message: what the intake takes at once. Its partition waits for it.
const AT_ONCE: usize = 512;

/// The same of a drain, for which nobody waits: small, so that the writes of others come between.
const OF_DRAIN_AT_ONCE: usize = 128;

/// The wait before writes are tried again that the store did not take.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What follows when everything up to here is durable.
#[derive(Debug, Clone)]
pub(super) enum After {
    /// Older rows that this one stands for are gone: it may be sent, unless the pass that read it was given up. Not before: after a
    /// crash they would come after it.
    SendRow {
        /// The row.
        entry: Entry,
        /// Of the drain, when it was read.
        generation: u64,
    },
    /// A row that was in hand has its outcome: the drain may look at it again.
    RowDecided,
    /// A row is a dead letter: the next change of its document may go. Not before: after a crash the dead one would come after it.
    RowDead(LaneKey),
    /// The transfer has a row: it is settled.
    Settle(Sequence),
    /// The head of the lane has a row: what came behind it meanwhile follows it there.
    CloseLane(LaneKey),
    /// The head of the lane has no row any more: the next may go.
    FreeLane(LaneKey),
    /// What was taken from the inbox has rows.
    IntakeWritten,
    /// Every row of before is visible: the stash may be asked about this batch.
    Ask(Vec<Arc<Transfer>>),
}

impl After {
    /// Whether a row of the drain is in hand until then.
    fn decides_a_row(&self) -> bool {
        matches!(self, Self::RowDecided | Self::RowDead(_) | Self::SendRow { .. })
    }
}

/// One thing to do, in order.
#[derive(Debug, Clone)]
struct Queued {
    write: Option<StashWrite>,
    /// It concerns a row that the drain holds: it names the lease.
    of_drain: bool,
    after: After,
}

/// The writes of one actor.
#[derive(Default)]
pub(super) struct Writes {
    queue: VecDeque<Queued>,
    under_way: bool,
    /// Outcomes of rows that are not durable.
    undecided: usize,
    /// How many writes were ever queued: tells whether something came in between.
    queued: u64,
}

impl Writes {
    /// A write of the actor as owner of the client's partition.
    pub(super) fn push(&mut self, write: StashWrite, after: After) {
        self.push_any(Queued { write: Some(write), of_drain: false, after });
    }

    /// A write about a row that the drain holds.
    pub(super) fn push_of_drain(&mut self, write: StashWrite, after: After) {
        self.push_any(Queued { write: Some(write), of_drain: true, after });
    }

    fn push_any(&mut self, queued: Queued) {
        self.queued += 1;
        self.undecided += usize::from(queued.after.decides_a_row());
        self.queue.push_back(queued);
    }

    /// No write: something that follows when all before it are durable.
    pub(super) fn push_mark(&mut self, after: After) {
        self.undecided += usize::from(after.decides_a_row());
        self.queue.push_back(Queued { write: None, of_drain: false, after });
    }

    /// Whether everything is durable.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.under_way
    }

    /// How many outcomes of rows are not durable.
    pub(super) fn undecided(&self) -> usize {
        self.undecided
    }

    /// How many writes were ever queued.
    pub(super) fn queued(&self) -> u64 {
        self.queued
    }
}

/// A stretch of the queue that goes as one batch.
struct Stretch {
    of_drain: bool,
    things: Vec<Queued>,
    /// Its one payload is one that the stash will never take: it becomes a dead letter of the log.
    refused: Option<(Arc<Transfer>, String)>,
}

impl Stretch {
    /// Each write alone, with what follows it.
    fn one_by_one(self) -> Vec<Self> {
        let of_drain = self.of_drain;
        let mut alone: Vec<Self> = Vec::new();
        for thing in self.things {
            match alone.last_mut() {
                Some(last) if thing.write.is_none() => last.things.push(thing),
                _ => alone.push(Self { of_drain, things: vec![thing], refused: None }),
            }
        }
        alone
    }

    /// Its writes.
    fn writes(&self) -> Vec<StashWrite> {
        self.things.iter().filter_map(|thing| thing.write.clone()).collect()
    }
}

impl WebhookDeliveryActor {
    /// Writes the next stretch of the queue, if none is under way. Whether something followed at once: there may be something to send.
    pub(super) fn write(&mut self, ctx: &mut Context<Self>) -> bool {
        let mut followed = false;
        while !self.life.writes.under_way {
            let queue = &self.life.writes.queue;
            let of_drain = queue.front().is_some_and(|first| first.of_drain);
            let count = queue.len().min(if of_drain { OF_DRAIN_AT_ONCE } else { AT_ONCE });
            if count == 0 {
                break;
            }
            let things: Vec<_> = self.life.writes.queue.drain(..count).collect();
            if things.iter().all(|thing| thing.write.is_none()) {
                self.follow(things, ctx);
                followed = true;
                continue;
            }
            self.life.writes.under_way = true;
            self.send_writes(stretches(things), Duration::ZERO, ctx);
        }
        followed
    }

    fn send_writes(&mut self, stretches: Vec<Stretch>, wait: Duration, ctx: &mut Context<Self>) {
        let ownership = self.ownership();
        if !self.services.windows.holds(ownership) {
            // Not ours any more; whoever takes the partition reads these transfers again.
            self.cell.restart("the partition is another's");
            return;
        }
        let lease = self.life.drain.lease_token();
        let (refused, to_write): (Vec<_>, Vec<_>) =
            stretches.iter().partition(|stretch| stretch.refused.is_some());
        let refused: Vec<_> = refused.into_iter().filter_map(|stretch| stretch.refused.clone()).collect();
        let batches: Vec<_> = to_write
            .into_iter()
            .map(|stretch| StashBatch {
                client: self.client().clone(),
                ownership,
                lease: lease.filter(|_| stretch.of_drain),
                writes: stretch.writes(),
            })
            .collect();
        let (services, fence) = (self.services.clone(), self.inbox.fence().clone());
        let write = async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            // It is the first: what stands behind it was not followed.
            let mut results = Vec::new();
            for (transfer, why) in refused {
                keep_refused(&services, &transfer, &why).await;
                results.push(Ok(()));
            }
            results.extend(write_all(&services.stash_writes, batches, &fence).await);
            results
        };
        ctx.spawn(write.into_actor(self).map(move |results, actor, ctx| {
            actor.written(stretches, ownership, results, ctx);
        }));
    }

    fn written(
        &mut self,
        stretches: Vec<Stretch>,
        ownership: Ownership,
        results: Vec<StoreResult<()>>,
        ctx: &mut Context<Self>,
    ) {
        if self.inbox.fence().is_up() {
            return;
        }
        let mut again = Vec::new();
        let mut wait = Duration::ZERO;
        for (stretch, result) in stretches.into_iter().zip(results) {
            match result {
                // Order: nothing may be followed before what is to be tried again.
                _ if !again.is_empty() => again.push(stretch),
                Ok(()) => self.follow(stretch.things, ctx),
                Err(StoreError::Fenced(why)) if stretch.of_drain => {
                    log::warn!("drain lease is lost err={why} client={}", self.client());
                    self.leave_rows();
                    self.hold_lease(None);
                    self.life.drain.begin_anew();
                    self.follow(stretch.things, ctx);
                }
                Err(StoreError::Fenced(why)) => {
                    log::warn!("stash write is fenced err={why} client={}", self.client());
                    self.services.windows.lose(ownership);
                    self.cell.restart("the partition is another's");
                    return;
                }
                Err(StoreError::Refused(why)) => match &stretch.writes()[..] {
                    [StashWrite::Insert(row)] => {
                        let refused = Some((row.transfer.clone(), why));
                        again.push(Stretch { refused, ..stretch });
                    }
                    [_] => {
                        log::error!("stash refuses a write, dropped err={why} client={}", self.client());
                        self.follow(stretch.things, ctx);
                    }
                    // One of them is at fault: it is found by writing each alone.
                    _ => again.extend(stretch.one_by_one()),
                },
                Err(err) => {
                    // Nothing is lost while it is not written: the lane, and in the end the partition, waits.
                    log::error!("stash does not take a write err={err} client={}", self.client());
                    again.push(stretch);
                    wait = TRY_AGAIN;
                }
            }
        }
        if again.is_empty() {
            self.life.writes.under_way = false;
            self.pump(ctx);
        } else {
            self.send_writes(again, wait, ctx);
        }
    }

    fn follow(&mut self, things: Vec<Queued>, ctx: &mut Context<Self>) {
        for thing in things {
            match thing.after {
                After::SendRow { entry, generation } => {
                    self.life.writes.undecided -= 1;
                    self.send_row(entry, generation);
                }
                After::RowDecided => self.life.writes.undecided -= 1,
                After::RowDead(lane) => {
                    self.life.writes.undecided -= 1;
                    self.life.lanes.finish(lane);
                }
                After::Settle(sequence) => self.inbox.settle(sequence),
                After::CloseLane(lane) => self.close_lane(lane),
                After::FreeLane(lane) => self.life.lanes.finish(lane),
                After::IntakeWritten => self.life.intake.written(),
                After::Ask(batch) => self.ask_stash(batch, ctx),
            }
        }
        self.bury(ctx);
    }

    /// The head of a lane has a row. What came behind it meanwhile follows it into the stash.
    fn close_lane(&mut self, lane: LaneKey) {
        let behind = self.life.lanes.take_behind(lane);
        if behind.is_empty() {
            self.life.lanes.finish(lane);
        } else {
            self.entries_to_stash(behind, "behind");
            self.life.writes.push_mark(After::CloseLane(lane));
        }
    }
}

/// Splits the queue where the right to write changes.
fn stretches(things: Vec<Queued>) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for thing in things {
        match stretches.last_mut() {
            Some(last) if last.of_drain == thing.of_drain || thing.write.is_none() => last.things.push(thing),
            _ => {
                let of_drain = thing.of_drain;
                stretches.push(Stretch { of_drain, things: vec![thing], refused: None });
            }
        }
    }
    stretches
}
