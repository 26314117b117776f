//! Operators' decisions: written to the store that has the truth, told to all replicas, and copied for others to see.

use std::sync::Arc;
use std::time::Duration;

use redis::Pipeline;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Redis, notices};
use crate::domain::decision::{Decision, DecisionKind, Subject};
use crate::ports::decisions::Decisions;
use crate::ports::{BoxFuture, StoreResult};

const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The decisions of another store. Each change is told to all replicas, and what is read of the block list is copied. Reads are
/// the other store's.
pub struct DecisionCopies {
    truth: Arc<dyn Decisions>,
    redis: Arc<Redis>,
    /// The block list as it was read last.
    read: watch::Sender<Vec<Decision>>,
    writer: JoinHandle<()>,
}

impl DecisionCopies {
    /// Tells and copies what `truth` has.
    pub fn new(truth: Arc<dyn Decisions>, redis: Arc<Redis>) -> Self {
        let (read, written) = watch::channel(Vec::new());
        let writer = redis.handle.spawn(write_all(Arc::clone(&redis), written));
        Self { truth, redis, read, writer }
    }

    /// Tells all replicas, this one too, that another thing is decided. Whoever reads the block list then writes its copy.
    fn tell(&self) {
        self.redis.notices.push_decisions();
        self.redis.publish(notices::decisions());
    }
}

impl Drop for DecisionCopies {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

impl Decisions for DecisionCopies {
    fn list(&self, kind: DecisionKind) -> BoxFuture<'_, StoreResult<Vec<Decision>>> {
        Box::pin(async move {
            let decisions = self.truth.list(kind).await?;
            if kind == DecisionKind::BlockedOwner {
                self.read.send_replace(decisions.clone());
            }
            Ok(decisions)
        })
    }

    fn put(&self, kind: DecisionKind, decision: Decision) -> BoxFuture<'_, StoreResult<Decision>> {
        Box::pin(async move {
            let decision = self.truth.put(kind, decision).await?;
            self.tell();
            Ok(decision)
        })
    }

    fn remove<'a>(&'a self, kind: DecisionKind, subject: &'a Subject) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(async move {
            let removed = self.truth.remove(kind, subject).await?;
            self.tell();
            Ok(removed)
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.redis.notices.decisions_changed())
    }
}

/// Writes the newest list, as soon as Redis is there.
async fn write_all(redis: Arc<Redis>, mut read: watch::Receiver<Vec<Decision>>) {
    while read.changed().await.is_ok() {
        loop {
            redis.link.there().await;
            let commands = commands(&redis.keys.blocked_owners(), &read.borrow_and_update());
            if redis.link.pipeline(&commands).await.is_ok() {
                break;
            }
            tokio::time::sleep(TRY_AGAIN_AFTER).await;
        }
    }
}

fn commands(key: &str, decisions: &[Decision]) -> Pipeline {
    let mut commands = redis::pipe();
    commands.atomic().del(key).ignore();
    for decision in decisions {
        let Ok(json) = serde_json::to_string(decision) else { continue };
        commands.hset(key, decision.subject().as_str(), json).ignore();
    }
    commands
}
