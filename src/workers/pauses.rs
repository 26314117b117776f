//! Pauses of queues: operators decide them, the store keeps the decisions, and a queue that lost its pause has it again.
//!
//! A pause that was made elsewhere (a board) is nobody's decision here, and left alone. What was paused here goes on when it is resumed
//! here: resumed elsewhere, it is paused again. Until then its workers do nothing with what it gives away
//! ([`PausedQueues`](crate::ports::paused_queues::PausedQueues)).

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::domain::decision::{Decision, DecisionKind, Subject};
use crate::ports::StoreResult;
use crate::ports::decisions::Decisions;
use crate::ports::job_queue::JobQueue;

/// A queue that lost its pause has it again within this.
const AGAIN: Duration = Duration::from_secs(15);

const PAUSED: DecisionKind = DecisionKind::PausedQueue;

/// The pauses of some queues.
#[derive(Clone)]
pub struct QueuePauses {
    decisions: Arc<dyn Decisions>,
    queues: Vec<Arc<dyn JobQueue>>,
}

/// Stops keeping when it is dropped.
pub struct KeptPauses(AbortHandle);

impl Drop for KeptPauses {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl QueuePauses {
    /// The pauses of these queues, as they are decided there.
    pub fn new(decisions: Arc<dyn Decisions>, queues: Vec<Arc<dyn JobQueue>>) -> Self {
        Self { decisions, queues }
    }

    /// All that hold.
    ///
    /// # Errors
    /// When the decisions cannot be read.
    pub async fn list(&self) -> StoreResult<Vec<Decision>> {
        self.decisions.list(PAUSED).await
    }

    /// Pauses the queue that the decision is about. Answers whether the queue has it: if not, it has it soon.
    ///
    /// # Errors
    /// When the decision is not kept.
    pub async fn pause(&self, queue: &dyn JobQueue, decision: Decision) -> StoreResult<bool> {
        self.decisions.put(PAUSED, decision).await?;
        Ok(paused(queue).await)
    }

    /// Resumes a queue, whoever paused it.
    ///
    /// # Errors
    /// When one of the stores is away: to be asked again, the queue may still be paused.
    pub async fn resume(&self, queue: &dyn JobQueue) -> StoreResult<()> {
        if let Ok(subject) = Subject::parse(queue.spec().name) {
            self.decisions.remove(PAUSED, &subject).await?;
        }
        queue.resume().await
    }

    /// Pauses again what lost its pause.
    ///
    /// # Errors
    /// When one of the stores is away.
    pub async fn put_back(&self) -> StoreResult<()> {
        for decision in self.list().await? {
            let name = decision.subject().as_str();
            let Some(queue) = self.queues.iter().find(|queue| queue.spec().name == name) else { continue };
            if queue.is_paused().await? {
                continue;
            }
            log::warn!("queue lost its pause, and has it again by={} queue={name}", decision.by());
            queue.pause().await?;
            // It may have been resumed just then. When that cannot be asked, the next look pauses it again.
            let holds =
                self.list().await.is_ok_and(|now| now.iter().any(|made| made.subject().as_str() == name));
            if !holds {
                queue.resume().await?;
            }
        }
        Ok(())
    }

    /// Does that at once, and then every 15 s.
    pub fn keep(self) -> KeptPauses {
        let task = tokio::spawn(async move {
            let mut said = false;
            loop {
                match self.put_back().await {
                    Ok(()) => said = false,
                    Err(err) if !said => {
                        log::warn!("pauses of queues not looked at err={err}");
                        said = true;
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
        KeptPauses(task.abort_handle())
    }
}

async fn paused(queue: &dyn JobQueue) -> bool {
    match queue.pause().await {
        Ok(()) => true,
        Err(err) => {
            log::warn!("queue does not have its pause yet err={err} queue={}", queue.spec().name);
            false
        }
    }
}
