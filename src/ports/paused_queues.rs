//! Which queues stand still.

/// The pauses that operators decided. The store behind a queue may lose its pause; what was decided still holds.
pub trait PausedQueues: Send + Sync {
    /// Whether the queue of this name is paused, as far as this process knows. Never waits.
    fn is_paused(&self, queue: &str) -> bool;
}
