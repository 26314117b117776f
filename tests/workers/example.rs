//! The example of the documents does what it says.

#[expect(dead_code, unreachable_pub, reason = "it is a program of its own")]
#[path = "../../examples/custom_worker.rs"]
mod custom_worker;

use crate::services::{redis, unique};
use crate::world::soon;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_custom_worker_of_the_documents_works() {
    let all = soon(custom_worker::run(redis().url(), &unique("example"))).await.unwrap();
    assert_eq!(all, ["counted", "sent ada", "sent bob"]);
}
