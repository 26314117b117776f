//! A queue in the file, and what its users in this process share: the signal that wakes its workers, and who is alive.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diesel::dsl::max;
use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;
use tokio::sync::watch;

use super::rows::go_on_waiting;
use super::schema::jobs;
use crate::backends::embedded::database::Database;
use crate::backends::embedded::errors::JobResult;
use crate::domain::job::{JobState, QueueSpec};
use crate::ports::StoreResult;
use crate::ports::clock::Clock;

/// What all queues of the file share.
pub(super) struct Store {
    database: Arc<Database>,
    pub(super) clock: Arc<dyn Clock>,
    /// The last place that was given away. Only this process gives them.
    places: AtomicI64,
    holders: AtomicI64,
    /// The attempts that are under way.
    alive: Mutex<HashSet<i64>>,
    /// By the name of the queue.
    signals: Mutex<HashMap<&'static str, watch::Sender<()>>>,
}

impl Store {
    pub(super) async fn open(database: Arc<Database>, clock: Arc<dyn Clock>) -> StoreResult<Arc<Self>> {
        let last = database
            .write(|connection| {
                let held = jobs::table.filter(jobs::state.eq(JobState::Active.as_str()));
                for (seq, priority) in
                    held.select((jobs::seq, jobs::priority)).load::<(i64, i64)>(connection)?
                {
                    go_on_waiting(connection, seq, priority)?;
                }
                Ok(jobs::table.select(max(jobs::place)).first::<Option<i64>>(connection)?)
            })
            .await?;
        Ok(Arc::new(Self {
            database,
            clock,
            places: AtomicI64::new(last.unwrap_or(0)),
            holders: AtomicI64::new(0),
            alive: Mutex::default(),
            signals: Mutex::default(),
        }))
    }

    /// A place behind all others.
    pub(super) fn place(&self) -> i64 {
        self.places.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn alive(&self) -> std::sync::MutexGuard<'_, HashSet<i64>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue.
pub(super) struct Line {
    pub(super) spec: &'static QueueSpec,
    pub(super) store: Arc<Store>,
    signal: watch::Sender<()>,
}

/// That an attempt is under way: when this is dropped before its end is written, its job is taken over.
pub(super) struct Hold {
    pub(super) token: i64,
    line: Arc<Line>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.line.store.alive().remove(&self.token);
        self.line.signal.send_replace(());
    }
}

impl Line {
    pub(super) fn of(store: &Arc<Store>, spec: &'static QueueSpec) -> Arc<Self> {
        let mut signals = store.signals.lock().unwrap_or_else(PoisonError::into_inner);
        let signal = signals.entry(spec.name).or_default().clone();
        Arc::new(Self { spec, store: store.clone(), signal })
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.store.clock.now_ms()
    }

    /// Hears of every change.
    pub(super) fn listen(&self) -> watch::Receiver<()> {
        self.signal.subscribe()
    }

    pub(super) fn hold(self: &Arc<Self>) -> Hold {
        let token = self.store.holders.fetch_add(1, Ordering::Relaxed) + 1;
        self.store.alive().insert(token);
        Hold { token, line: self.clone() }
    }

    pub(super) fn is_alive(&self, holder: i64) -> bool {
        self.store.alive().contains(&holder)
    }

    /// Reads one consistent state.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut SqliteConnection, &Self) -> JobResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let line = self.clone();
        self.store.database.read(move |connection| work(connection, &line)).await
    }

    /// Writes, and wakes nobody.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut SqliteConnection, &Arc<Self>) -> JobResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let line = self.clone();
        self.store.database.write(move |connection| work(connection, &line)).await
    }

    /// Writes, and wakes the workers when it is durable.
    pub(super) async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut SqliteConnection, &Arc<Self>) -> JobResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (line, woken) = (self.clone(), self.clone());
        let wake = move |value| {
            woken.signal.send_replace(());
            value
        };
        self.store.database.write_then(move |connection| work(connection, &line), wake).await
    }
}
