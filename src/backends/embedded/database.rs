//! A SQLite file: one connection that writes, on a thread of its own, and some that read.
//!
//! **Group commit.** The writer takes every job that waits, runs each under a savepoint (a job that fails rolls back
//! only itself), commits once, and answers all of them after that. A commit that fails (no space) wrote nothing of any.
//!
//! **Bulk** jobs write hundreds of rows. Each has a commit of its own, and lets the others have theirs before: a change of a healthy client
//! does not wait for all that is drained for another.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use diesel::Connection;
use diesel::connection::SimpleConnection;
use diesel::sqlite::SqliteConnection;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::OpenError;
use super::errors::{JobError, JobResult};
use super::job::{Job, Ran, Task};
use super::lock_file::LockFile;
use crate::ports::{StoreError, StoreResult};

/// Jobs of one commit, and jobs that wait: the memory that they hold is bounded by this and the size of a request.
pub(super) const GROUP: usize = 64;

/// FULL: a commit is on the disk before it is answered. The checkpoint limit keeps a page that is written often from
/// being copied into the file with every few commits.
const WRITER: &str = "
    PRAGMA busy_timeout = 5000;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = ON;
    PRAGMA wal_autocheckpoint = 8000;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -16384;
    PRAGMA temp_store = MEMORY;";
const READER: &str = "PRAGMA busy_timeout = 5000; PRAGMA query_only = ON; PRAGMA temp_store = MEMORY;";

/// Runs a job inside a savepoint: what it wrote is gone when it fails.
pub(super) fn savepoint<T>(
    connection: &mut SqliteConnection,
    work: impl FnOnce(&mut SqliteConnection) -> JobResult<T>,
) -> JobResult<JobResult<T>> {
    connection.batch_execute("SAVEPOINT job")?;
    let result = work(connection);
    // SQLite ends the whole transaction by itself after some errors (no space): then there is nothing to go back to, and
    // the error of these statements ends the group.
    connection.batch_execute(if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" })?;
    Ok(result)
}

enum Message {
    Run(Box<dyn Job>),
    RunAlone(Bulk),
    Close,
}

/// A job of many rows, and its right to wait.
struct Bulk {
    job: Box<dyn Job>,
    _room: OwnedSemaphorePermit,
}

/// Bulk jobs that wait.
const BULK: usize = 4;

/// A file, shared by the stores in it.
pub(super) struct Database {
    writer: mpsc::Sender<Message>,
    bulk: Arc<Semaphore>,
    /// For what nobody waits for: one at a time.
    spare: Arc<Semaphore>,
    readers: mpsc::Sender<Message>,
    threads: watch::Receiver<()>,
}

impl Database {
    /// Opens or creates the file, brings its tables up to date, and starts the threads.
    pub(super) fn open(
        path: &Path,
        lock: Arc<LockFile>,
        tables: EmbeddedMigrations,
        readers: usize,
    ) -> Result<Self, OpenError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let failed = |error: String| OpenError::Database(format!("{name}: {error}"));
        let (alive, threads) = watch::channel(());
        let held = Arc::new(Held { _lock: lock, _alive: alive });
        let mut place = Place { path: path.to_string_lossy().into_owned(), opened: None, _held: held };
        let mut connection = place.connect(WRITER).map_err(failed)?;
        place.opened = place.identity();
        connection.run_pending_migrations(tables).map_err(|error| failed(format!("migrations: {error}")))?;
        let (writer, jobs) = mpsc::channel(GROUP);
        let thread_failed = |error: std::io::Error| failed(format!("no thread: {error}"));
        let at = place.clone();
        std::thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || write_until_closed(&at, connection, jobs))
            .map_err(thread_failed)?;
        let (questions, jobs) = mpsc::channel(GROUP);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..readers {
            let (at, jobs) = (place.clone(), Arc::clone(&jobs));
            std::thread::Builder::new()
                .name("sqlite-reader".into())
                .spawn(move || read_until_closed(&at, &jobs))
                .map_err(thread_failed)?;
        }
        Ok(Self {
            writer,
            bulk: Arc::new(Semaphore::new(BULK)),
            spare: Arc::new(Semaphore::new(1)),
            readers: questions,
            threads,
        })
    }

    /// Runs a job that writes. When this is ready with `Ok`, what it wrote is durable.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteConnection) -> JobResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.write_then(work, |value| value).await
    }

    /// The same, and runs `after` on the writer's thread when it is durable, in the order of the commits. The job is done
    /// whole, `after` with it, even when this future is dropped.
    pub(super) async fn write_then<T: Send + 'static, R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteConnection) -> JobResult<T> + Send + 'static,
        after: impl FnOnce(T) -> R + Send + 'static,
    ) -> StoreResult<R> {
        ask(&self.writer, Message::Run, work, after).await
    }

    /// Runs a job that writes many rows, when nothing else waits or has just been written. It is not in the order of the other jobs.
    pub(super) async fn write_bulk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteConnection) -> JobResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let room = Arc::clone(&self.bulk).acquire_owned().await.map_err(|_| closed())?;
        let message = |job| Message::RunAlone(Bulk { job, _room: room });
        ask(&self.writer, message, work, |value| value).await
    }

    /// The same for what nobody waits for. However much there is of that, other bulk jobs wait for one of it at most.
    pub(super) async fn write_in_spare_time<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteConnection) -> JobResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let _turn = self.spare.acquire().await.map_err(|_| closed())?;
        self.write_bulk(work).await
    }

    /// Runs a job that reads one consistent state, at least as new as every write that was answered.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteConnection) -> JobResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        ask(&self.readers, Message::Run, work, |value| value).await
    }

    /// Does what waits, moves the write-ahead log into the file, and ends the threads.
    pub(super) async fn close(&self) {
        for jobs in [&self.readers, &self.writer] {
            // An error says that it is closed.
            let _ = jobs.send(Message::Close).await;
        }
        // Ends with an error when the last thread let go of its end; nothing is ever sent.
        let _ = self.threads.clone().changed().await;
    }
}

async fn ask<T: Send + 'static, R: Send + 'static>(
    jobs: &mpsc::Sender<Message>,
    message: impl FnOnce(Box<dyn Job>) -> Message,
    work: impl FnOnce(&mut SqliteConnection) -> JobResult<T> + Send + 'static,
    after: impl FnOnce(T) -> R + Send + 'static,
) -> StoreResult<R> {
    let (reply, answer) = oneshot::channel();
    jobs.send(message(Box::new(Task::new(work, after, reply)))).await.map_err(|_| closed())?;
    answer.await.map_err(|_| closed())?
}

fn closed() -> StoreError {
    StoreError::Unavailable("the file is closed".into())
}

/// What is let go when the last thread has ended: first the lock, then who waits for that.
struct Held {
    _lock: Arc<LockFile>,
    _alive: watch::Sender<()>,
}

/// Where the file is. Each thread holds it, and so the lock, until its connection is closed.
#[derive(Clone)]
struct Place {
    path: String,
    /// Which file it was when it was opened.
    opened: Option<(u64, u64)>,
    _held: Arc<Held>,
}

impl Place {
    fn connect(&self, settings: &str) -> Result<SqliteConnection, String> {
        let mut connection = SqliteConnection::establish(&self.path).map_err(|error| error.to_string())?;
        connection.batch_execute(settings).map_err(|error| error.to_string())?;
        Ok(connection)
    }

    /// The device and the number of the file that is there now.
    fn identity(&self) -> Option<(u64, u64)> {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(&self.path).ok().map(|file| (file.dev(), file.ino()))
    }

    /// SQLite goes on in a file that was removed or replaced: what it writes there is durable for nobody, and who opens
    /// the path again gets another file.
    fn check(&self) -> Result<(), StoreError> {
        if self.identity() == self.opened {
            return Ok(());
        }
        Err(StoreError::Unavailable(
            "the file was removed or replaced while the service runs: restart it".into(),
        ))
    }

    /// A connection that broke is opened again by the next job.
    fn reconnect<'a>(
        &self,
        connection: &'a mut Option<SqliteConnection>,
        settings: &str,
    ) -> Result<&'a mut SqliteConnection, StoreError> {
        match connection {
            Some(connection) => Ok(connection),
            None => Ok(connection.insert(self.connect(settings).map_err(StoreError::Unavailable)?)),
        }
    }
}

fn write_until_closed(place: &Place, connection: SqliteConnection, jobs: mpsc::Receiver<Message>) {
    let mut connection = Some(connection);
    let mut waiting = Waiting { jobs, bulk: VecDeque::new(), has_bulk_its_turn: false };
    let mut group: Vec<Box<dyn Job>> = Vec::with_capacity(GROUP);
    while waiting.next(&mut group) {
        let connected = place.check().and_then(|()| place.reconnect(&mut connection, WRITER));
        let broken = match connected {
            Ok(connection) => write_group(connection, &mut group),
            Err(error) => {
                group.drain(..).for_each(|job| job.answer(Err(error.clone())));
                false
            }
        };
        if broken {
            log::warn!("sqlite connection is opened again");
            connection = None;
        }
    }
    if let Some(mut connection) = connection
        && let Err(err) = connection.batch_execute("PRAGMA wal_checkpoint(TRUNCATE)")
    {
        log::warn!("sqlite write-ahead log stays beside the file err={err}");
    }
}

/// The jobs of the writer.
struct Waiting {
    jobs: mpsc::Receiver<Message>,
    /// Taken out of the queue; at most [`BULK`].
    bulk: VecDeque<Bulk>,
    /// The last group was of others.
    has_bulk_its_turn: bool,
}

impl Waiting {
    /// Waits for jobs and puts those of one commit into the group. False: there are none any more.
    fn next(&mut self, group: &mut Vec<Box<dyn Job>>) -> bool {
        if self.bulk.is_empty() {
            match self.jobs.blocking_recv() {
                Some(message) => self.sort(message, group),
                None => return false,
            }
        }
        let is_turn = std::mem::take(&mut self.has_bulk_its_turn) && !self.bulk.is_empty();
        while !is_turn && group.len() < GROUP {
            match self.jobs.try_recv() {
                Ok(message) => self.sort(message, group),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        self.has_bulk_its_turn = !group.is_empty();
        if group.is_empty() {
            group.extend(self.bulk.pop_front().map(|bulk| bulk.job));
        }
        true
    }

    fn sort(&mut self, message: Message, group: &mut Vec<Box<dyn Job>>) {
        match message {
            Message::Run(job) => group.push(job),
            Message::RunAlone(bulk) => self.bulk.push_back(bulk),
            Message::Close => self.jobs.close(),
        }
    }
}

/// Runs and answers all jobs of a group. Returns whether the connection is broken.
fn write_group(connection: &mut SqliteConnection, group: &mut Vec<Box<dyn Job>>) -> bool {
    let mut broken = false;
    let committed = run_group(connection, group, &mut broken).map_err(|error| {
        broken |= error.breaks_connection();
        // What SQLite did not end by itself. It says no when there is no transaction any more.
        let _ = connection.batch_execute("ROLLBACK");
        match StoreError::from(error) {
            error @ StoreError::Unavailable(_) => error,
            // Not the data of a single job: together they may be written later.
            error => StoreError::Unavailable(error.to_string()),
        }
    });
    group.drain(..).for_each(|job| job.answer(committed.clone()));
    broken
}

fn run_group(
    connection: &mut SqliteConnection,
    group: &mut [Box<dyn Job>],
    broken: &mut bool,
) -> JobResult<()> {
    connection.batch_execute("BEGIN IMMEDIATE")?;
    for job in group {
        let ran = savepoint(connection, |connection| match job.run(connection) {
            Ran::Done => Ok(()),
            Ran::Failed { breaks_connection } => {
                *broken |= breaks_connection;
                // The job keeps its own error; this one only rolls back.
                Err(JobError::refused("job failed"))
            }
        })?;
        if ran.is_err() && *broken {
            return Err(StoreError::Unavailable("the connection broke".into()).into());
        }
    }
    connection.batch_execute("COMMIT")?;
    Ok(())
}

fn read_until_closed(place: &Place, jobs: &Mutex<mpsc::Receiver<Message>>) {
    let mut connection = None;
    loop {
        let message = {
            let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            match jobs.blocking_recv() {
                Some(Message::Run(job) | Message::RunAlone(Bulk { job, .. })) => job,
                Some(Message::Close) => {
                    jobs.close();
                    continue;
                }
                None => return,
            }
        };
        read_one(place, &mut connection, message);
    }
}

fn read_one(place: &Place, connection: &mut Option<SqliteConnection>, mut job: Box<dyn Job>) {
    let open = match place.reconnect(connection, READER) {
        Ok(open) => open,
        Err(error) => return job.answer(Err(error)),
    };
    if let Err(error) = open.batch_execute("BEGIN") {
        let error = JobError::from(error);
        if error.breaks_connection() {
            *connection = None;
        }
        return job.answer(Err(error.into()));
    }
    let ran = job.run(open);
    let ended = open.batch_execute("ROLLBACK");
    if matches!(ran, Ran::Failed { breaks_connection: true }) || ended.is_err() {
        *connection = None;
    }
    job.answer(Ok(()));
}
