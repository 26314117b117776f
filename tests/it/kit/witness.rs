//! Which replica sent each request, and when it had its partitions.

use std::time::{Duration, Instant};

use super::ledger::Arrival;
use super::owner::Owners;
use super::receiver::{Answer, Receiver};
use super::service::Service;

/// Log lines have milliseconds.
pub(crate) const LOG_PRECISION: Duration = Duration::from_millis(5);

/// A receiver that finds out which replica sent each request.
pub(crate) struct Witness {
    pub(crate) receiver: Receiver,
    owners: Owners,
}

impl Witness {
    /// It answers 200 to everything.
    pub(crate) fn start() -> Self {
        Self::answering(|_| Answer::Status(200))
    }

    /// It answers by a script.
    pub(crate) fn answering(script: impl Fn(&Arrival) -> Answer + Send + Sync + 'static) -> Self {
        let owners = Owners::start();
        Self { receiver: Receiver::that_knows(owners.clone(), script), owners }
    }

    /// Requests may come from this replica.
    pub(crate) fn expects(&self, replica: &Service) {
        self.owners.expect(replica.pid());
    }

    /// When each request of this replica came in, since `after`.
    pub(crate) fn of(&self, replica: &Service, after: Instant) -> Vec<Instant> {
        self.receiver.ledger().sent_by(replica.pid(), after)
    }
}

/// When a replica said that partitions are its own, after it had said so `before` times.
pub(crate) fn assigned_at(log: &str, before: usize) -> Option<Instant> {
    let line = log.lines().filter(|line| line.contains("partitions assigned")).nth(before)?;
    let time = chrono::DateTime::parse_from_rfc3339(line.split_whitespace().next()?).ok()?;
    let ago = chrono::Utc::now().signed_duration_since(time).to_std().ok()?;
    Instant::now().checked_sub(ago)
}
