//! The signals that stop the service.

use std::time::Duration;

/// A second signal within this time is the first one again.
const SAME_SIGNAL: Duration = Duration::from_millis(200);

/// SIGTERM and SIGINT.
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// From now on they do not end the process by themselves.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The name of the next one.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// The name of the next one, but for those that come with the one before: some senders signal the process and its group.
    pub async fn next_but_echoes(&mut self) -> &'static str {
        let echoes = tokio::time::Instant::now() + SAME_SIGNAL;
        while tokio::time::timeout_at(echoes, self.next()).await.is_ok() {}
        self.next().await
    }
}
