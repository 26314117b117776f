//! What can be known about an actor from outside, and done to it, without asking it: it may be dead or stuck.

use std::{
    fmt,
    panic::Location,
    sync::{Arc, Mutex},
};

use serde::Serialize;
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{lock, panics::Cause};

/// Where an actor is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

/// The cell of an actor: its state, health and controls. A clone is the same cell; it outlives the actor.
#[derive(Clone)]
pub struct Cell(Arc<Shared>);

struct Shared {
    kind: &'static str,
    id: Arc<str>,
    born: Instant,
    phase: watch::Sender<Phase>,
    stop: CancellationToken,
    restart: Notify,
    seen: Mutex<Seen>,
}

struct Seen {
    progress: Instant,
    last_message: Option<&'static str>,
    last_cause: Option<(Cause, Instant)>,
    published: Option<Arc<Value>>,
}

impl Cell {
    /// A cell of a running actor. [`supervise`](super::supervise) makes the one that it hands out.
    pub fn new(kind: &'static str, id: impl Into<String>) -> Self {
        let born = Instant::now();
        Self(Arc::new(Shared {
            kind,
            id: id.into().into(),
            born,
            phase: watch::Sender::new(Phase { life: Life::Running, generation: 0 }),
            stop: CancellationToken::new(),
            restart: Notify::new(),
            seen: Mutex::new(Seen { progress: born, last_message: None, last_cause: None, published: None }),
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
        if self.is_alive() {
            let place = Location::caller();
            self.note(Cause::new(reason, format!("{}:{}", place.file(), place.line())));
            self.0.restart.notify_one();
        }
    }

    /// Everything that is known now.
    pub fn status(&self) -> ActorStatus {
        let Phase { life, generation } = self.phase();
        let seen = lock(&self.0.seen);
        ActorStatus {
            kind: self.0.kind,
            id: Arc::clone(&self.0.id),
            state: life,
            uptime_seconds: self.0.born.elapsed().as_secs(),
            progress_seconds_ago: seen.progress.elapsed().as_secs(),
            restarts: generation,
            last_cause: seen.last_cause.as_ref().map(|(cause, at)| LastCause {
                message: cause.message.clone(),
                place: cause.place.clone(),
                seconds_ago: at.elapsed().as_secs(),
            }),
            last_message: seen.last_message,
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

    /// Waits for the end: `Failed` or `Stopped`. By then the actor value is dropped.
    pub async fn ended(&self) -> Life {
        let mut phase = self.watch();
        match phase.wait_for(|phase| phase.life.is_over()).await {
            Ok(phase) => phase.life,
            Err(_) => self.phase().life, // cannot be: this cell holds the sender
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

    pub(super) fn note(&self, cause: Cause) {
        lock(&self.0.seen).last_cause = Some((cause, Instant::now()));
    }

    pub(super) fn set_life(&self, life: Life) {
        self.0.phase.send_modify(|phase| phase.life = life);
    }

    pub(super) fn next_generation(&self) {
        self.0.phase.send_modify(|phase| phase.generation += 1);
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cell({} {}, {:?})", self.0.kind, self.0.id, self.phase())
    }
}

/// What the status page and the dashboard show of an actor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ActorStatus {
    /// What it is.
    pub kind: &'static str,
    /// Which of its kind.
    pub id: Arc<str>,
    /// Where it is in its life.
    pub state: Life,
    /// Seconds since it was first started; restarts do not set it back.
    pub uptime_seconds: u64,
    /// Seconds since it last took a message or ticked. Large for an idle actor as for a stuck one.
    pub progress_seconds_ago: u64,
    /// Restarts since it was first started.
    pub restarts: u64,
    /// Why it last broke or was restarted.
    pub last_cause: Option<LastCause>,
    /// Name of the last message that it began to handle.
    pub last_message: Option<&'static str>,
    /// The state that it last published.
    pub published: Option<Arc<Value>>,
}

/// Why an actor last broke or was restarted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastCause {
    /// Text of the panic, or the reason that was given; one line, 300 characters at most.
    pub message: String,
    /// `file:line` of the panic, or of the call; may be empty.
    pub place: String,
    /// Seconds since then.
    pub seconds_ago: u64,
}
