//! What can be known about an actor from outside, and done to it, without asking it: it may be dead or stuck.

use std::{
    collections::BTreeMap,
    fmt,
    panic::Location,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::{
    arbiters::Seat,
    exit::ExitReason,
    lock,
    panics::Cause,
    policy::{Failures, RestartPolicy},
    status::{ActorStatus, LastCause},
};

/// How long an actor may be unable to take a message, unless it says otherwise. With the time that it takes to find out, and the first
/// back-off, a frozen actor is back within 5 s.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// Where an actor is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// Takes messages.
    Running,
    /// Broke, and waits for its restart; messages are kept.
    Restarting,
    /// Broke too often. Its address is closed.
    Failed,
    /// Was stopped, or its arbiter ended. Its address is closed.
    Stopped,
}

impl Life {
    /// Nothing follows.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Failed | Self::Stopped)
    }
}

/// The life of an actor, and how often it was restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Where it is.
    pub life: Life,
    /// 0 at first; rises before each call of `restarting()`.
    pub generation: u64,
}

impl Phase {
    /// It runs, and never broke.
    pub(super) const FIRST: Self = Self { life: Life::Running, generation: 0 };
}

/// The cell of an actor: its state, health and controls. A clone is the same cell; it outlives the actor.
#[derive(Clone)]
pub struct Cell(Arc<Shared>);

struct Shared {
    kind: &'static str,
    id: Arc<str>,
    born: Instant,
    /// `None`: nobody watches its thread.
    seat: Option<Seat>,
    phase: watch::Sender<Phase>,
    stop: CancellationToken,
    restart: Notify,
    probe: Probe,
    /// Counts what waits for it.
    waiting: OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>,
    seen: Mutex<Seen>,
}

/// How it is found out whether an actor that says nothing could take a message.
#[derive(Default)]
struct Probe {
    /// It is at work right now.
    at_work: AtomicBool,
    /// It was at work since a probe came through.
    worked: AtomicBool,
    /// Looks of the watchdog at which the probe was under way.
    unanswered: AtomicU32,
    asked: Notify,
}

#[derive(Clone)]
struct Seen {
    progress: Instant,
    /// When its life, or the wait for the next, began.
    since: Instant,
    patience: Duration,
    last_message: Option<&'static str>,
    last_cause: Option<Exit>,
    exits: BTreeMap<ExitReason, u64>,
    failures: Failures,
    /// Why it is to begin anew.
    asked: Option<Cause>,
    published: Option<Arc<Value>>,
}

impl Seen {
    /// Of an actor that begins, and never broke.
    fn new(born: Instant) -> Self {
        Self {
            progress: born,
            since: born,
            patience: PATIENCE,
            last_message: None,
            last_cause: None,
            exits: BTreeMap::new(),
            failures: Failures::default(),
            asked: None,
            published: None,
        }
    }
}

/// Why a life ended, when, and how long it had lasted.
#[derive(Clone)]
struct Exit {
    cause: Cause,
    at: Instant,
    lasted: Duration,
}

impl Cell {
    /// A cell of a running actor. [`supervise`](super::supervise) makes the one that it hands out.
    pub fn new(kind: &'static str, id: impl Into<String>) -> Self {
        Self::seated(kind, id.into().into(), None)
    }

    pub(super) fn seated(kind: &'static str, id: Arc<str>, seat: Option<Seat>) -> Self {
        let born = Instant::now();
        Self::with(kind, id, born, seat, 0, Seen::new(born))
    }

    /// The cell of the next actor of one that has retired: it begins anew, and what had befallen the one before is known.
    pub(super) fn heir(&self, seat: Seat) -> Self {
        let born = Instant::now();
        let Seen { last_cause, exits, failures, .. } = lock(&self.0.seen).clone();
        let seen = Seen { last_cause, exits, failures, ..Seen::new(born) };
        Self::with(self.0.kind, Arc::clone(&self.0.id), born, Some(seat), self.generation(), seen)
    }

    /// The cell of the actor that takes the place of one whose thread is lost, or that was given up: with all that is known of it. That it
    /// begins may count as a restart.
    pub(super) fn successor(&self, seat: Seat, counts: bool) -> Self {
        let now = Instant::now();
        let mut seen = Seen { progress: now, since: now, asked: None, ..lock(&self.0.seen).clone() };
        if self.phase().life == Life::Failed {
            seen.failures = Failures::default();
        }
        let generation = self.generation() + u64::from(counts);
        Self::with(self.0.kind, Arc::clone(&self.0.id), self.0.born, Some(seat), generation, seen)
    }

    fn with(
        kind: &'static str,
        id: Arc<str>,
        born: Instant,
        seat: Option<Seat>,
        generation: u64,
        seen: Seen,
    ) -> Self {
        Self(Arc::new(Shared {
            kind,
            id,
            born,
            seat,
            phase: watch::Sender::new(Phase { life: Life::Running, generation }),
            stop: CancellationToken::new(),
            restart: Notify::new(),
            probe: Probe::default(),
            waiting: OnceLock::new(),
            seen: Mutex::new(seen),
        }))
    }

    /// The actor begins to handle a message of this name. First line of every handler.
    pub fn handling(&self, message: &'static str) {
        let mut seen = lock(&self.0.seen);
        seen.last_message = Some(message);
        seen.progress = Instant::now();
    }

    /// The actor is alive and gets on.
    pub fn tick(&self) {
        lock(&self.0.seen).progress = Instant::now();
    }

    /// For an actor that may be busy with one thing for longer than most, and takes no message meanwhile: it is left alone for so long.
    pub fn takes_at_most(&self, patience: Duration) {
        lock(&self.0.seen).patience = patience;
    }

    /// For an actor that has a queue of its own: how what waits there is counted, by whoever asks and whatever the actor does. Said once.
    pub fn counts_waiting(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        let _ = self.0.waiting.set(Box::new(count));
    }

    /// Replaces the state that others see. It stays when the actor breaks or ends.
    pub fn publish(&self, state: Value) {
        let before = lock(&self.0.seen).published.replace(Arc::new(state));
        drop(before); // after the lock is free: it may be large
    }

    /// Ends the actor for good, as soon as it waits or comes to the end of its mailbox: its hooks `stopping()`
    /// and `stopped()` run, unless it is broken, and what is left in the mailbox is dropped.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Restarts the actor at once, also out of a `ctx.wait` that does not end or in its back-off. Counted as a
    /// restart, but not as a failure. Does nothing to an actor whose life is over.
    ///
    /// Cannot help where a handler blocks the thread.
    #[track_caller]
    pub fn restart(&self, reason: &str) {
        let place = Location::caller();
        self.begin_anew(Cause::new(ExitReason::Asked, reason, format!("{}:{}", place.file(), place.line())));
    }

    /// Restarts an actor that has work at hand and makes no progress. A failure like any other: after too many it is given up.
    pub fn is_frozen(&self, what: &str) {
        self.begin_anew(Cause::new(ExitReason::Frozen, what, String::new()));
    }

    fn begin_anew(&self, cause: Cause) {
        if self.is_alive() {
            lock(&self.0.seen).asked = Some(cause);
            self.0.restart.notify_one();
        }
    }

    /// Everything that is known now.
    pub fn status(&self) -> ActorStatus {
        self.status_at(Instant::now())
    }

    /// The same; many are asked at one moment.
    pub(super) fn status_at(&self, now: Instant) -> ActorStatus {
        let seconds = |since: Instant| now.saturating_duration_since(since).as_secs();
        let Phase { life, generation } = self.phase();
        let mailbox = self.0.waiting.get().map(|count| count());
        let seen = lock(&self.0.seen);
        ActorStatus {
            mailbox,
            kind: self.0.kind.into(),
            id: Arc::clone(&self.0.id),
            state: life,
            uptime_seconds: seconds(self.0.born),
            state_seconds: seconds(seen.since),
            progress_seconds_ago: seconds(seen.progress),
            restarts: generation,
            exits: seen.exits.clone(),
            last_cause: seen.last_cause.as_ref().map(|Exit { cause, at, lasted }| LastCause {
                reason: cause.reason,
                message: cause.message.clone(),
                is_fixed: cause.is_fixed,
                place: cause.place.clone(),
                lasted_seconds: lasted.as_secs(),
                seconds_ago: seconds(*at),
            }),
            last_message: seen.last_message.map(Into::into),
            published: seen.published.clone(),
        }
    }

    /// What the actor is.
    pub fn kind(&self) -> &'static str {
        self.0.kind
    }

    /// Which of its kind.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Running, or waiting for its restart.
    pub fn is_alive(&self) -> bool {
        !self.phase().life.is_over()
    }

    /// Rises with each restart.
    pub fn generation(&self) -> u64 {
        self.phase().generation
    }

    /// Life and generation now.
    pub fn phase(&self) -> Phase {
        *self.0.phase.borrow()
    }

    /// Tells of every change of the phase: how a parent learns of restarts and of the end.
    pub fn watch(&self) -> watch::Receiver<Phase> {
        self.0.phase.subscribe()
    }

    /// Whether its thread was declared lost: whatever it still does counts for nothing.
    pub fn is_lost(&self) -> bool {
        self.0.seat.as_ref().is_some_and(Seat::is_lost)
    }

    /// Waits for the end: `Failed` or `Stopped`. By then the actor value is dropped, unless its thread is lost.
    pub async fn ended(&self) -> Life {
        let mut phase = self.watch();
        let lost = async {
            match &self.0.seat {
                Some(seat) => seat.lost().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = phase.wait_for(|phase| phase.life.is_over()) => match ended {
                Ok(phase) => phase.life,
                Err(_) => self.phase().life, // cannot be: this cell holds the sender
            },
            () = lost => Life::Stopped,
        }
    }

    pub(super) fn is_stop_asked(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    pub(super) async fn stop_asked(&self) {
        self.0.stop.cancelled().await;
    }

    pub(super) async fn restart_asked(&self) {
        self.0.restart.notified().await;
    }

    /// Takes why it is to begin anew.
    pub(super) fn asked(&self) -> Option<Cause> {
        lock(&self.0.seen).asked.take()
    }

    /// A life has ended for this reason.
    pub(super) fn note(&self, cause: Cause) {
        let mut seen = lock(&self.0.seen);
        *seen.exits.entry(cause.reason).or_default() += 1;
        let lasted = seen.since.elapsed();
        seen.last_cause = Some(Exit { cause, at: Instant::now(), lasted });
    }

    /// Counts a failure: how long to wait before the restart, or `None` when it was one too many.
    pub(super) fn count_failure(&self, policy: &RestartPolicy) -> Option<Duration> {
        lock(&self.0.seen).failures.add(policy, Instant::now())
    }

    pub(super) fn set_life(&self, life: Life) {
        let mut seen = lock(&self.0.seen);
        seen.since = Instant::now();
        match life {
            Life::Failed => *seen.exits.entry(ExitReason::Failed).or_default() += 1,
            Life::Stopped => *seen.exits.entry(ExitReason::Stopped).or_default() += 1,
            // What was asked of a probe was asked of the life before.
            Life::Running | Life::Restarting => self.0.probe.came_through(),
        }
        drop(seen);
        self.0.phase.send_modify(|phase| phase.life = life);
    }

    pub(super) fn next_generation(&self) {
        self.0.phase.send_modify(|phase| phase.generation += 1);
    }

    /// Its thread does not answer: then it cannot either.
    fn is_on_silent_thread(&self) -> bool {
        self.0.seat.as_ref().is_some_and(Seat::is_silent)
    }

    pub(super) fn is_on(&self, seat: &Seat) -> bool {
        self.0.seat.as_ref().is_some_and(|own| own.is_same(seat))
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.0.probe.at_work.load(Ordering::Acquire)
    }

    /// The actor's turn on its thread begins, or ends.
    pub(super) fn at_work(&self, begins: bool) {
        self.0.probe.at_work.store(begins, Ordering::Release);
        if begins {
            self.0.probe.worked.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until somebody wants to know whether it could take a message.
    pub(super) async fn probe_asked(&self) {
        self.0.probe.asked.notified().await;
    }

    /// It could take a message.
    pub(super) fn probe_came_through(&self) {
        self.0.probe.came_through();
    }

    /// One look of the watchdog, which looks this often. Restarts the actor if it could not take a message for longer than it may.
    ///
    /// Only an actor that was at work can have come to be held up; whoever has just handled a message is not.
    pub(super) fn look(&self, every: Duration) {
        let probe = &self.0.probe;
        if self.phase().life != Life::Running || self.is_on_silent_thread() {
            return; // a thread that is stuck is another matter
        }
        let under_way = probe.unanswered.load(Ordering::Relaxed);
        let (quiet, patience) = {
            let seen = lock(&self.0.seen);
            (seen.progress.elapsed() > every, seen.patience)
        };
        if under_way > 0 {
            probe.unanswered.store(under_way + 1, Ordering::Relaxed);
            if every * under_way >= patience {
                self.is_frozen("took no message");
            }
        } else if quiet && probe.worked.load(Ordering::Relaxed) {
            probe.unanswered.store(1, Ordering::Relaxed);
            probe.asked.notify_one();
        }
    }
}

impl Probe {
    fn came_through(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
        self.worked.store(false, Ordering::Relaxed);
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cell({} {}, {:?})", self.0.kind, self.0.id, self.phase())
    }
}
