//! The example of the documents does what it says, on each store.

#[expect(dead_code, unreachable_pub, reason = "it is a program of its own")]
#[path = "../../examples/custom_worker.rs"]
mod custom_worker;

use dispatcher::ports::job_queue::JobQueues;

use crate::world::soon;

async fn works(store: &dyn JobQueues) {
    let all = soon(custom_worker::run(store)).await.unwrap();
    assert_eq!(all, ["counted", "sent ada", "sent bob"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_custom_worker_of_the_documents_works_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = custom_worker::in_folder(folder.path()).await.unwrap();
    works(&*embedded.queues()).await;
}

#[cfg(feature = "cluster")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_custom_worker_of_the_documents_works_in_redis() {
    let prefix = crate::services::unique("example");
    works(&custom_worker::in_redis(crate::services::redis().url(), &prefix)).await;
}
