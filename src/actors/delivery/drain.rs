//! The drain: rows of the stash come back into the lanes, oldest first, in passes from the oldest row to the newest.

mod pass;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::time::Instant;

use self::pass::Pass;
pub(super) use self::pass::{Drain, Lease};
use super::lanes::{Entry, LaneKey, Origin};
use super::permission::HeldLease;
use super::requests::InFlight;
use super::writes::After;
use super::{Rows, Target, WebhookDeliveryActor};
use crate::domain::client_state::ClientEvent;
use crate::domain::config::Ordering;
use crate::domain::stash::{Backlog, StashPage, StashRow, StashWrite};
use crate::domain::transfer::{DocumentHash, Sequence};
use crate::ports::StoreError;

/// Rows read at once, and their bytes.
const FETCH: (usize, usize) = (256, 4 << 20);

/// The same while one row is looked for that tells whether the webhook lives: of a thousand dead clients each reads this much.
const PROBE_FETCH: (usize, usize) = (32, 64 << 10);

/// So many pages of rows whose documents had their turn are read before the oldest has it again: all are read while one canary is due.
const VAIN_PAGES: u32 = 20;

/// For so long requests may start under a lease. In the store it lasts longer by the time that a request of the client may take: an owner by
/// another log takes it when it has expired, and finds none of ours on the wire. (The next owner by this log takes it at once, see `permission`.)
const LEASE: Duration = Duration::from_secs(30);

/// A lease under which requests may start for a shorter time is renewed before rows are read under it.
const LEASE_LEFT: Duration = Duration::from_secs(15);

/// Rows of which the outcome is not durable, at most: they are sent faster than they are deleted, and each is held in memory, and sent
/// again after a crash.
const UNDECIDED: usize = 512;

/// The pause between passes when nothing says that there is more: kicks only make it sooner.
const RECHECK: Duration = Duration::from_secs(1);

/// The same while all that is known to wait has its time.
const RECHECK_HELD: Duration = Duration::from_secs(15);

/// How much later the next pass begins for each page on which nothing could be sent: of a client for which very much waits that has its time,
/// a pass reads everything.
const REST: Duration = Duration::from_millis(10);

/// The pause before a pass that a commit asked for: rows come in crowds.
const SOON: Duration = Duration::from_millis(20);

/// What a look at the stash brought.
enum Look {
    Rows(HeldLease, StashPage),
    Backlog(Backlog),
}

impl WebhookDeliveryActor {
    /// Goes on with the pass, or begins the next one, as far as it may.
    pub(super) fn drain(&mut self, ctx: &mut Context<Self>) {
        let may = self.life.rows.pending
            && !self.life.stopping
            && !self.is_reordering()
            && !self.waits_for_an_answer()
            && !self.life.drain.asking
            && matches!(self.life.target, Target::Webhook(_))
            && self.life.state.may_send(self.now_ms());
        self.inbox.wait_for_commit(may && matches!(self.life.drain.pass, Pass::Due(_)));
        if !may {
            return;
        }
        let now = Instant::now();
        match &self.life.drain.pass {
            Pass::Due(_) if self.life.drain.next_pass() <= Some(now) && self.no_rows_in_hand() => {
                self.life.drain.appended = false;
                self.life.drain.rest_until = now;
                let all = self.life.drain.all_at_once;
                // What was asked for holds until the webhook lives: then everything goes, and not the one row that found it out.
                self.life.drain.all_at_once &= self.life.state.is_probing();
                let as_of_ms = if all { i64::MAX } else { self.now_ms() };
                self.life.drain.pass = Pass::begin(as_of_ms);
                self.read_rows(as_of_ms, None, ctx);
            }
            Pass::Running { exhausted: true, .. } if self.no_rows_in_hand() => {
                if self.life.state.is_probing() && !self.life.probed.is_empty() {
                    // Every document that waits had its turn: the next pass begins with the oldest again.
                    self.life.probed.clear();
                    self.life.drain.begin_anew();
                } else {
                    self.look_what_is_left(ctx);
                }
            }
            pass if pass.remembers_too_much() => {
                if self.no_rows_in_hand() {
                    self.life.drain.begin_anew();
                }
            }
            Pass::Running { as_of_ms, after, exhausted: false, .. } if self.has_room_for_rows() => {
                self.read_rows(*as_of_ms, *after, ctx);
            }
            Pass::Due(_) | Pass::Running { .. } => {}
        }
    }

    /// When the drain has to be looked at again.
    pub(super) fn drain_due(&self, now: Instant) -> Option<Instant> {
        let waits = self.life.rows.pending && matches!(self.life.target, Target::Webhook(_));
        if !waits || self.waits_for_an_answer() || self.life.drain.asking || self.life.stopping {
            return None;
        }
        let gate = self.life.state.wait(self.now_ms())?;
        if !gate.is_zero() {
            return Some(now + gate);
        }
        self.life.drain.next_pass().map(|at| at.max(now + SOON))
    }

    /// In the order of the client rows come after what is on the wire: the rows of its document are left out while it has one of its own,
    /// and those of others would go first.
    fn waits_for_an_answer(&self) -> bool {
        self.life.ordering == Ordering::Client
            && self.life.in_flight.values().any(|request| !request.is_row())
    }

    /// The partition was committed further: rows that waited for it can be drained.
    pub(super) fn drain_after_commit(&mut self) {
        if let Pass::Due(at) = &mut self.life.drain.pass
            && self.life.drain.appended
        {
            *at = (*at).min(Instant::now() + SOON);
        }
    }

    /// Leaves the rows that wait in the lanes where they still are, in the stash. A change may wait behind one that was buried
    /// meanwhile: it gets a row of its own.
    pub(super) fn leave_rows(&mut self) {
        let waiting = self.life.lanes.take_rows();
        self.entries_to_stash(waiting, "behind");
    }

    /// Whether no row of a drain is in the lanes or on the wire, and no outcome of a row waits to be written: what is read now is not
    /// in hand already, and no document that is passed over now is free a page later.
    fn no_rows_in_hand(&self) -> bool {
        self.life.lanes.rows().records == 0
            && !self.life.in_flight.values().any(|request| request.is_row())
            && self.life.writes.undecided() == 0
    }

    /// Whether more rows may come into memory: few enough wait, and with those on the wire they are below the bytes of one
    /// client. While it is found out whether the webhook lives, one row is enough.
    fn has_room_for_rows(&self) -> bool {
        let Target::Webhook(settings) = &self.life.target else { return false };
        if self.no_rows_in_hand() || self.life.state.is_probing() || self.life.drain.starved {
            return self.no_rows_in_hand();
        }
        if self.life.writes.undecided() >= UNDECIDED {
            return false;
        }
        let waiting = self.life.lanes.rows();
        let on_the_wire: usize = self.life.in_flight.values().map(InFlight::row_bytes).sum();
        waiting.records < (settings.concurrency * 4).min(FETCH.0)
            && waiting.bytes + on_the_wire < self.services.limits.client_bytes
    }

    fn read_rows(&mut self, as_of_ms: i64, after: Option<Sequence>, ctx: &mut Context<Self>) {
        let ownership = self.ownership();
        let (services, client) = (self.services.clone(), self.client().clone());
        // In the order of the client a row that has its time holds all behind it, and so it has to be seen.
        let as_of_ms = if self.life.ordering == Ordering::Client { i64::MAX } else { as_of_ms };
        let now_boot_ms = self.services.clock.boot_ms();
        let (claim, held) = (self.life.claim, self.life.drain.lease);
        let (records, bytes) = if self.life.state.is_probing() { PROBE_FETCH } else { FETCH };
        let bytes = bytes.min(self.services.limits.client_bytes);
        let Target::Webhook(settings) = &self.life.target else { return };
        let ttl_ms = (settings.timeout + LEASE).as_millis() as i64;
        let fresh = held.filter(|held| held.until_boot_ms - now_boot_ms > LEASE_LEFT.as_millis() as i64);
        let look = async move {
            let lease = match fresh {
                Some(lease) => lease,
                None => {
                    let token = held.map(|held| held.lease.token);
                    let lease = services.stash.lease_drain(&client, ownership, token, ttl_ms).await;
                    // Only the lease is another's, or the whole partition?
                    if matches!(lease, Err(StoreError::Fenced(_)))
                        && let Err(StoreError::Fenced(_)) = services.stash.committed(ownership, 0).await
                    {
                        services.windows.lose(ownership);
                    }
                    HeldLease { lease: lease?, until_boot_ms: now_boot_ms + LEASE.as_millis() as i64 }
                }
            };
            let page = services.stash.drainable(&client, after, (as_of_ms, claim), records, bytes).await?;
            Ok(Look::Rows(lease, page))
        };
        self.look(look, ctx);
    }

    fn look_what_is_left(&mut self, ctx: &mut Context<Self>) {
        let (services, client) = (self.services.clone(), self.client().clone());
        self.look(async move { Ok(Look::Backlog(services.stash.backlog(&client).await?)) }, ctx);
    }

    fn look(
        &mut self,
        look: impl Future<Output = Result<Look, StoreError>> + 'static,
        ctx: &mut Context<Self>,
    ) {
        self.life.drain.asking = true;
        let generation = self.life.drain.generation;
        // Only of writes that are durable by now the answer surely knows.
        let queued = self.life.writes.is_idle().then(|| self.life.writes.queued());
        ctx.spawn(look.into_actor(self).map(move |seen, actor, ctx| {
            actor.life.drain.asking = false;
            let was_away = std::mem::replace(
                &mut actor.life.drain.store_is_away,
                seen.as_ref().is_err_and(|err| !matches!(err, StoreError::Fenced(_))),
            );
            match seen {
                Ok(Look::Rows(lease, page)) => {
                    actor.hold_lease(Some(lease));
                    // Rows that were read for a pass that was given up are read again.
                    if actor.life.drain.generation == generation {
                        actor.rows_read(page);
                    }
                }
                Ok(Look::Backlog(_)) if actor.life.drain.generation != generation => {}
                Ok(Look::Backlog(backlog)) => actor.pass_ended(backlog, queued, ctx),
                Err(StoreError::Fenced(why)) => {
                    log::info!("another drains this client err={why} client={}", actor.client());
                    actor.hold_lease(None);
                    actor.life.drain.begin_anew();
                    actor.life.drain.pass = Pass::Due(Instant::now() + RECHECK);
                }
                Err(err) => {
                    if !was_away {
                        log::warn!("stash cannot be drained err={err} client={}", actor.client());
                    }
                    actor.services.metrics.store_errors.with_label_values(&["stash"]).inc();
                    actor.leave_rows();
                    actor.life.drain.begin_anew();
                    actor.life.drain.pass = Pass::Due(Instant::now() + RECHECK);
                }
            }
            actor.pump(ctx);
        }));
    }

    fn rows_read(&mut self, page: StashPage) {
        let StashPage { mut rows, end } = page;
        let probing = self.life.state.is_probing();
        let ordering = self.life.ordering;
        let coalesce =
            !probing && matches!(&self.life.target, Target::Webhook(settings) if settings.coalesce);
        // After a shared outage everybody drains at once: when the memory for rows is given out, one row a client is enough.
        let bytes = rows.iter().map(|row| row.transfer.weight()).sum();
        let memory = self.services.row_memory.try_acquire(bytes).map(Arc::new);
        let in_hand = !self.no_rows_in_hand();
        self.life.drain.starved = memory.is_none();
        let may_read_in_vain = self.life.drain.may_read_in_vain();
        let Pass::Running { as_of_ms, after, blocked, sent, vain_pages, exhausted } =
            &mut self.life.drain.pass
        else {
            return;
        };
        *exhausted = end.is_none();
        if rows.is_empty() && end.is_some() {
            self.life.drain.rest_until += REST;
        }
        let read = rows.len();
        if memory.is_none() {
            rows.truncate(usize::from(!in_hand));
        }
        let whole = rows.len() == read;
        let mut had_their_turn = false;
        let mut coalesced = Vec::new();
        let mut newest = if coalesce { newest_of_documents(&rows) } else { HashMap::new() };
        for row in rows {
            let (document, lane) = (row.transfer.document_hash, LaneKey::of(ordering, &row.transfer));
            *after = Some(row.transfer.sequence);
            if lane == LaneKey::Client && row.next_attempt_at_ms > *as_of_ms {
                blocked.insert(lane);
            }
            if blocked.contains(&lane) {
                had_their_turn |= probing;
                // Nothing further on can be of another lane.
                *exhausted |= lane == LaneKey::Client;
                continue;
            }
            // After failures one row goes first, each time of another document: it may be one document alone that fails.
            if probing && ordering == Ordering::Document && !self.life.probed.insert(document) {
                blocked.insert(lane);
                had_their_turn = true;
                continue;
            }
            if let Some(newest) = newest.get_mut(&document)
                && newest.stands
                && newest.sequence != row.transfer.sequence
            {
                newest.older += 1;
                continue;
            }
            let StashRow { attempts, payload_failures, .. } = row;
            let origin = Origin::Row { attempts, payload_failures };
            let entry = Entry {
                transfer: Arc::clone(&row.transfer),
                lane,
                origin,
                since: Instant::now(),
                _memory: memory.clone(),
            };
            *sent = true;
            match newest.get(&document) {
                Some(newest) => coalesced.push((entry, newest.older)),
                None => self.life.lanes.push(entry),
            }
            if probing {
                return;
            }
        }
        if whole {
            *after = end.or(*after);
        }
        *vain_pages += u32::from(had_their_turn);
        if *vain_pages >= may_read_in_vain {
            *exhausted = true;
            self.life.drain.vain_passes += 1;
        }
        self.coalesce(coalesced);
    }

    /// Sends rows in place of the older ones that they stand for, so many each, in this order.
    fn coalesce(&mut self, rows: Vec<(Entry, u32)>) {
        let generation = self.life.drain.generation;
        for (entry, older) in rows {
            let transfer = entry.transfer.clone();
            let send = After::SendRow { entry, generation };
            if older == 0 {
                self.life.writes.push_mark(send);
            } else {
                self.services.metrics.coalesced.inc_by(older.into());
                self.life.writes.push_of_drain(StashWrite::Coalesced { transfer }, send);
            }
        }
    }

    /// Puts a row into its lane, if the pass that read it still runs.
    pub(super) fn send_row(&mut self, entry: Entry, generation: u64) {
        let Pass::Running { blocked, .. } = &self.life.drain.pass else { return };
        if self.life.drain.generation == generation && !blocked.contains(&entry.lane) {
            self.life.lanes.push(entry);
        }
    }

    /// All rows were read, and those that could be sent were. `queued`: how many writes there had been when the question was
    /// asked; `None`: not all of them were durable.
    fn pass_ended(&mut self, backlog: Backlog, queued: Option<u64>, ctx: &mut Context<Self>) {
        let nothing_since = queued == Some(self.life.writes.queued());
        self.quota_is(&backlog);
        if backlog.pending == 0 && nothing_since {
            self.rows_are(Rows { pending: false, dead: backlog.dead > 0 });
            self.happened(ClientEvent::RowsGone);
            let released = self.release_lease();
            ctx.spawn(released.into_actor(self));
        } else if backlog.dead > 0 {
            self.rows_are(Rows { dead: true, ..self.life.rows });
        }
        let now = Instant::now();
        let in_vain = |at: i64| matches!(self.life.drain.pass, Pass::Running { as_of_ms, sent: false, .. } if at <= as_of_ms);
        let next_attempt = backlog.next_attempt_at_ms.map(|at| {
            let wait = Duration::from_millis(u64::try_from(at - self.now_ms()).unwrap_or(0));
            // A pass for which its time had come did not bring it: it waits for something else, like a commit.
            now + wait.max(if in_vain(at) { RECHECK } else { SOON })
        });
        let recheck = match (self.life.drain.appended, next_attempt) {
            (true, _) => SOON,
            (false, None) => RECHECK,
            (false, Some(_)) => RECHECK_HELD,
        };
        self.life.drain.pass = Pass::Due(next_attempt.unwrap_or(now + recheck).min(now + recheck));
    }

    /// The lease is this one from now on; `None`: it is another's, or given back.
    pub(super) fn hold_lease(&mut self, lease: Option<HeldLease>) {
        self.life.drain.lease = lease;
        self.inbox.note_lease(self.life.drain.lease_token());
    }

    /// Gives the drain lease back, so that the next owner of the client need not wait until it expires.
    pub(super) fn release_lease(&mut self) -> impl Future<Output = ()> + 'static {
        let token = self.life.drain.lease_token();
        self.hold_lease(None);
        let (stash, client) = (self.services.stash.clone(), self.client().clone());
        async move {
            let Some(token) = token else { return };
            if let Err(err) = stash.release_drain(&client, token).await {
                log::debug!("drain lease was not given back, it expires err={err} client={client}");
            }
        }
    }
}

/// The newest row of a document in a page.
struct Newest {
    sequence: Sequence,
    /// It goes in place of the older ones. Not a replay: what it carries may be older than theirs, and was refused before.
    stands: bool,
    /// For how many it stands, so far.
    older: u32,
}

/// The newest row of each document of a page.
fn newest_of_documents(rows: &[StashRow]) -> HashMap<DocumentHash, Newest> {
    let newest = |row: &StashRow| {
        let stands = !row.transfer.kind.is_replay();
        Newest { sequence: row.transfer.sequence, stands, older: 0 }
    };
    rows.iter().map(|row| (row.transfer.document_hash, newest(row))).collect()
}
