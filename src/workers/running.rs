//! Which job is running, for what it calls.

use crate::domain::job::QueueSpec;

tokio::task_local! {
    static RUNNING: (&'static str, String);
}

/// Does the work as that of a job.
pub(super) async fn running<T>(spec: &QueueSpec, id: &str, work: impl Future<Output = T>) -> T {
    RUNNING.scope((spec.name, id.to_owned()), work).await
}

/// Whether whoever asks runs in this job.
pub(super) fn is_running(spec: &QueueSpec, id: &str) -> bool {
    RUNNING.try_with(|(queue, running)| *queue == spec.name && running == id).unwrap_or(false)
}
