//! The connection for commands: kept by a task, used only while it is known to work.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult};
use tokio::sync::watch;
use tokio::time::timeout;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// A server that hangs is found before somebody asks it.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Redis did not do what was asked. Whether it is away or refused does not matter to those who only lose a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Away(pub(super) String);

/// The connection, when there is one.
pub(super) struct Link {
    current: watch::Sender<Result<MultiplexedConnection, Away>>,
}

impl Link {
    pub(super) fn new() -> Self {
        let current = watch::Sender::new(Err(Away("not connected yet".to_owned())));
        Self { current }
    }

    /// Runs a command; at once an error while there is no connection.
    pub(super) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Away> {
        self.run(async |connection| command.query_async(connection).await).await
    }

    /// Runs several commands in one go.
    pub(super) async fn pipeline(&self, commands: &Pipeline) -> Result<(), Away> {
        self.run(async |connection| commands.exec_async(connection).await).await
    }

    /// Uses the connection.
    pub(super) async fn run<T>(
        &self,
        ask: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, Away> {
        let mut connection = self.current.borrow().clone()?;
        // The limit of the connection counts from when a command is sent; it may wait before.
        let answer = timeout(ANSWER_WITHIN * 2, ask(&mut connection)).await;
        let away = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(err)) if is_about_the_command(&err) => return Err(Away(err.to_string())),
            Ok(Err(err)) => Away(err.to_string()),
            Err(_) => Away("no answer in time".to_owned()),
        };
        self.current.send_if_modified(|current| {
            let was_there = current.is_ok();
            if was_there {
                *current = Err(away.clone());
            }
            was_there
        });
        Err(away)
    }

    fn set(&self, current: Result<MultiplexedConnection, Away>) {
        drop(self.current.send_replace(current));
    }

    /// Waits until there is a connection.
    pub(super) async fn there(&self) {
        // The sender is in `self`: it cannot be closed.
        let _ = self.current.subscribe().wait_for(Result::is_ok).await;
    }
}

/// Whether the connection is good, and only this command was refused.
fn is_about_the_command(err: &RedisError) -> bool {
    use redis::{ErrorKind, ServerErrorKind};
    match err.kind() {
        ErrorKind::UnexpectedReturnType => true,
        ErrorKind::Server(kind) => matches!(kind, ServerErrorKind::ResponseError),
        _ => false,
    }
}

/// Keeps the connection of a link, until it is aborted. `harmless` is a write that changes nothing: a server that refuses it is away, or every
/// look would find it there and the next write would not.
pub(super) async fn keep(link: Arc<Link>, client: Client, harmless: Cmd) {
    let mut said = false;
    loop {
        match connect(&client, &harmless).await {
            Ok(connection) => {
                if std::mem::take(&mut said) {
                    log::info!("redis is there again");
                }
                link.set(Ok(connection));
                until_broken(&link).await;
            }
            Err(err) => link.set(Err(Away(err.to_string()))),
        }
        if let Err(Away(err)) = &*link.current.borrow()
            && !std::mem::replace(&mut said, true)
        {
            log::warn!("redis is away, copies are not read and not written err={err}");
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    }
}

async fn connect(client: &Client, harmless: &Cmd) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_WITHIN))
        .set_response_timeout(Some(ANSWER_WITHIN));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    // One that only accepts connections is not there.
    harmless.query_async::<()>(&mut connection).await?;
    Ok(connection)
}

async fn until_broken(link: &Link) {
    let mut current = link.current.subscribe();
    while timeout(ASK_EVERY, current.wait_for(Result::is_err)).await.is_err() {
        // What comes of it stands in `current`.
        let _ = link.query::<()>(&redis::cmd("PING")).await;
    }
}
