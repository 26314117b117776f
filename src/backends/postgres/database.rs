//! The connections, and how work runs on them.
//!
//! **Bounds.** At most `pool_size` sessions. A piece of work waits for one, connects if it has to, and runs, each for a bounded time. Its
//! session is closed when PostgreSQL did not answer it or answered with an error: what state it is in is nobody's guess.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel_async::{AsyncConnection, AsyncPgConnection, TransactionManager as _};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::connect::{Connector, Session};
use super::errors::{JobError, JobResult};
use crate::ports::{StoreError, StoreResult};

/// For a session, when all are in use.
const QUEUE: Duration = Duration::from_secs(5);
/// For all statements of one piece of work. The server ends each of them earlier, unless it hangs or is cut off.
const WORK: Duration = Duration::from_secs(20);

type Transactions = <AsyncPgConnection as AsyncConnection>::TransactionManager;

/// PostgreSQL, shared by all stores.
pub(super) struct Database {
    pool: Arc<Pool>,
    runtime: Handle,
}

impl Database {
    /// Connects when it is first asked.
    pub(super) fn new(connector: Arc<Connector>, pool_size: u32, runtime: Handle) -> Self {
        let pool =
            Pool { connector, permits: Semaphore::new(pool_size.max(1) as usize), idle: Mutex::default() };
        Self { pool: Arc::new(pool), runtime }
    }

    /// Runs statements of which each is a transaction of its own. They are done whole even when this future is dropped.
    pub(super) async fn run<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut AsyncPgConnection) -> BoxFuture<'c, JobResult<T>> + Send + 'static,
    {
        let pool = Arc::clone(&self.pool);
        let task = self.runtime.spawn(async move { pool.run(work).await });
        task.await.unwrap_or_else(|err| {
            log::error!("work on postgres ended err={err}");
            Err(StoreError::Unavailable("the work ended before its answer".into()))
        })
    }

    /// Runs a piece of work as one transaction. When this is ready with `Ok`, what it wrote is durable.
    pub(super) async fn transaction<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut AsyncPgConnection) -> BoxFuture<'c, JobResult<T>> + Send + 'static,
    {
        self.run(|connection| {
            Box::pin(async move {
                begin(connection).await?;
                let result = work(connection).await;
                end(connection, result).await
            })
        })
        .await
    }
}

/// Begins a transaction, or a savepoint inside of one.
pub(super) async fn begin(connection: &mut AsyncPgConnection) -> JobResult<()> {
    Ok(Transactions::begin_transaction(connection).await?)
}

/// Commits what succeeded, and takes back what failed.
pub(super) async fn end<T>(connection: &mut AsyncPgConnection, result: JobResult<T>) -> JobResult<T> {
    match result {
        Ok(value) => {
            Transactions::commit_transaction(connection).await?;
            Ok(value)
        }
        Err(error) => {
            Transactions::rollback_transaction(connection).await?;
            Err(error)
        }
    }
}

struct Pool {
    connector: Arc<Connector>,
    permits: Semaphore,
    idle: Mutex<Vec<Session>>,
}

impl Pool {
    async fn run<T, W>(&self, work: W) -> StoreResult<T>
    where
        W: for<'c> FnOnce(&'c mut AsyncPgConnection) -> BoxFuture<'c, JobResult<T>>,
    {
        let unavailable = |why: String| StoreError::Unavailable(why);
        let permit = tokio::time::timeout(QUEUE, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(unavailable(format!("all connections are in use for {QUEUE:?}")));
        };
        let mut session = match self.take_idle() {
            Some(session) => session,
            None => self.connector.connect().await?,
        };
        let result = tokio::time::timeout(WORK, work(&mut session.connection))
            .await
            .map_err(|_| unavailable(format!("no answer within {WORK:?}")))?;
        if !matches!(result, Err(JobError::Database(_))) {
            self.lock().push(session);
        }
        result.map_err(StoreError::from)
    }

    /// The one that was used last: the others may grow old and be closed by the server.
    fn take_idle(&self) -> Option<Session> {
        let mut idle = self.lock();
        idle.retain(|session| !session.is_closed());
        idle.pop()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
