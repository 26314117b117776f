//! What others see of the running service's queues in Redis, and what their buttons do: the real BullMQ of Node, and Bull Board.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::cluster::Cluster;
use crate::kit::events::Document;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::Service;
use crate::kit::turn::Turn;
use crate::kit::wait::{eventually, holds};
use crate::node::{Board, Node};

const SOON: Duration = Duration::from_secs(30);
/// From a button to the request: far below the next attempt by the owner's own clock.
const AT_ONCE: Duration = Duration::from_secs(5);
const QUEUES: [&str; 3] = ["dispatcher", "dispatcher-schedule", "dispatcher-heavy"];

/// A client that fails, its owner, and another replica that has the workers of the queues.
struct Scene {
    _owner: Service,
    workers: Service,
    receiver: Receiver,
    status: Arc<AtomicU16>,
}

impl Scene {
    async fn new(turn: &Turn, cluster: &Cluster) -> Self {
        let replica = |roles: &str| {
            let replica = cluster.replica_in(turn).env("DISPATCHER_ROLES", roles);
            // The owner's next attempt is far away once the first have failed.
            replica.env("DISPATCHER_RETRY_BASE", "60s").env("DISPATCHER_CANARY_INTERVAL", "60s")
        };
        let owner = replica("ingest,transfer").start().await;
        let workers = replica("retry,schedule,heavy,web").start().await;
        let status = Arc::new(AtomicU16::new(503));
        let answer = status.clone();
        let receiver = Receiver::start(move |_| Answer::Status(answer.load(Ordering::Relaxed)));
        workers.api().put_client("a", json!({ "webhook": receiver.hook("a"), "concurrency": 1 })).await;
        cluster.produce(&[Document::new(1, &["a"]).create(), Document::new(2, &["a"]).create()]).await;
        Self { _owner: owner, workers, receiver, status }
    }

    /// Waits for a job that shows a failed attempt.
    async fn shows(&self, seen: impl Fn() -> Option<(String, Value, u64, Value)>) -> Value {
        eventually("a job with its reason", SOON, async || {
            let (state, reason, attempts, job) = seen().ok_or("there is no job")?;
            let failed = reason.as_str().is_some_and(|reason| reason.starts_with("status_503"));
            holds(state == "delayed" && failed && attempts >= 1, || format!("{state} {job}"))?;
            Ok(job)
        })
        .await
    }

    /// Presses a button, which leads to a request at once.
    async fn leads_to_a_request(&self, press: impl FnOnce()) {
        let before = self.receiver.ledger().len();
        press();
        let pressed = Instant::now();
        eventually("a request", SOON, async || {
            holds(self.receiver.ledger().len() > before, || format!("{before} requests"))
        })
        .await;
        assert!(pressed.elapsed() < AT_ONCE, "{:?}", pressed.elapsed());
    }

    async fn all_arrive(&self) {
        eventually("both documents", SOON, async || {
            let taken = self.receiver.ledger().arrivals();
            let distinct = taken.iter().filter(|arrival| arrival.answered.is_some());
            let distinct: std::collections::BTreeSet<_> =
                distinct.map(|arrival| arrival.webhook_id()).collect();
            let rows = self.workers.api().metrics().await.sum("stash_rows", &[("state", "pending")]);
            holds(distinct.len() == 2 && rows == 0.0, || format!("{} and {rows} rows", distinct.len()))
        })
        .await;
    }
}

#[actix_web::test]
async fn node_sees_retry_and_disable_and_promotes_them_wherever_the_owner_is() {
    let turn = Turn::shared();
    let cluster = Cluster::shared("nodesees");
    let scene = Scene::new(&turn, &cluster).await;
    let node = Node::new(cluster.redis.port(), &cluster.queue_prefix(), "bullmq");
    // The job is due with the attempt after the first ones: it asks for one, which fails, and tells why.
    scene.leads_to_a_request(|| ()).await;
    eventually("RETRY", SOON, async || {
        let job = node.job("dispatcher", "retry-a");
        holds(job["name"] == "RETRY" && job["state"] == "delayed", || job.to_string())
    })
    .await;
    scene.leads_to_a_request(|| node.act("dispatcher", "retry-a", "promote")).await;
    let job = scene
        .shows(|| {
            let job = node.job("dispatcher", "retry-a");
            let state = job["state"].as_str()?.to_owned();
            Some((state, job["failedReason"].clone(), job["attemptsMade"].as_u64()?, job))
        })
        .await;
    assert_eq!((&job["name"], &job["data"]["client"]), (&json!("RETRY"), &json!("a")));
    assert_eq!(job["progress"]["waiting"], 2, "{job}");
    let clock = node.job("dispatcher", "disable-a");
    assert_eq!((&clock["name"], &clock["state"]), (&json!("DISABLE"), &json!("delayed")));
    assert_eq!(clock["data"], json!({ "client": "a" }));

    scene.status.store(200, Ordering::Relaxed);
    scene.leads_to_a_request(|| node.act("dispatcher", "retry-a", "promote")).await;
    scene.all_arrive().await;
    eventually("the end of both jobs", SOON, async || {
        let jobs = ["retry-a", "disable-a"].map(|id| node.job("dispatcher", id));
        holds(jobs.iter().all(Value::is_null), || format!("{jobs:?}"))
    })
    .await;
}

#[actix_web::test]
async fn bull_board_shows_the_queues_of_the_service_and_its_buttons_act() {
    let turn = Turn::shared();
    let cluster = Cluster::shared("board");
    let scene = Scene::new(&turn, &cluster).await;
    let node = Node::new(cluster.redis.port(), &cluster.queue_prefix(), "bullmq");
    let board = Board::new(node, &QUEUES);
    eventually("RETRY", SOON, async || {
        let job = board.job("dispatcher", "retry-a");
        holds(job.as_ref().is_some_and(|(state, _)| state == "delayed"), || format!("{job:?}"))
    })
    .await;
    let queue = board.queue("dispatcher", "delayed");
    assert_eq!((&queue["hasWorkers"], &queue["isPaused"]), (&json!(true), &json!(false)), "{queue}");
    let mut names: Vec<_> = queue["jobs"].as_array().unwrap().iter().map(|job| job["name"].clone()).collect();
    names.sort_by_key(Value::to_string);
    assert_eq!(names, ["DISABLE", "RETRY"]);
    eventually("both schedules", SOON, async || {
        let listed = board.get("/job-schedulers");
        let schedulers = listed["schedulers"].as_array().unwrap().iter();
        let mut ids: Vec<_> = schedulers.map(|scheduler| scheduler["id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        holds(ids == ["purge-stash", "reconcile-configs"], || listed.to_string())
    })
    .await;

    let promote = "/queues/dispatcher/retry-a/promote";
    scene.leads_to_a_request(|| board.press(promote)).await;
    let job = scene
        .shows(|| {
            let (state, job) = board.job("dispatcher", "retry-a")?;
            Some((state, job["failedReason"].clone(), job["attempts"].as_u64()?, job))
        })
        .await;
    assert_eq!(job["progress"]["waiting"], 2, "{job}");
    let logs = board.get("/queues/dispatcher/retry-a/logs");
    assert!(logs[0].as_str().is_some_and(|line| line.contains("status_503")), "{logs}");

    // Paused, a promoted job waits; the owner's own clock is not touched by it.
    board.press("/queues/dispatcher/pause");
    board.press(promote);
    assert_eq!(board.job("dispatcher", "retry-a").unwrap().0, "waiting");
    scene.status.store(200, Ordering::Relaxed);
    scene.leads_to_a_request(|| board.press("/queues/dispatcher/resume")).await;
    scene.all_arrive().await;
    eventually("the end of both jobs", SOON, async || {
        let jobs = ["retry-a", "disable-a"].map(|id| board.job("dispatcher", id));
        holds(jobs.iter().all(Option::is_none), || format!("{jobs:?}"))
    })
    .await;
}
