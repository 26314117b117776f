//! What others see of the running service's queues in Redis, and what their buttons do: the real BullMQ of Node, and Bull Board.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
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
/// More than it takes to find out that a webhook is dead.
const DOCUMENTS: u64 = 5;
const QUEUES: [&str; 3] = ["dispatcher", "dispatcher-schedule", "dispatcher-heavy"];

/// A client that fails, its owner, and another replica that has the workers of the queues.
struct Scene {
    _owner: Service,
    _workers: Service,
    receiver: Receiver,
    lives: Arc<OnceLock<Instant>>,
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
        let lives = Arc::new(OnceLock::new());
        let is_alive = lives.clone();
        let receiver =
            Receiver::start(move |_| Answer::Status(if is_alive.get().is_some() { 200 } else { 503 }));
        workers.api().put_client("a", json!({ "webhook": receiver.hook("a"), "concurrency": 1 })).await;
        let documents: Vec<_> = (0..DOCUMENTS).map(|number| Document::new(number, &["a"]).create()).collect();
        cluster.produce(&documents).await;
        Self { _owner: owner, _workers: workers, receiver, lives }
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
        let distinct = || {
            let taken = self.receiver.ledger().arrivals();
            let taken = taken.into_iter().filter(|arrival| Some(&arrival.at) > self.lives.get());
            taken.map(|arrival| arrival.webhook_id().to_owned()).collect::<BTreeSet<_>>().len()
        };
        eventually("all documents", SOON, async || {
            holds(distinct() == DOCUMENTS as usize, || format!("{}", distinct()))
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
    assert_eq!(job["progress"]["waiting"], DOCUMENTS, "{job}");
    let clock = node.job("dispatcher", "disable-a");
    assert_eq!((&clock["name"], &clock["state"]), (&json!("DISABLE"), &json!("delayed")));
    assert_eq!(clock["data"], json!({ "client": "a" }));

    scene.lives.set(Instant::now()).unwrap();
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
        holds(ids == ["purge-audit", "purge-stash", "reconcile-configs"], || listed.to_string())
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
    assert_eq!(job["progress"]["waiting"], DOCUMENTS, "{job}");
    let logs = board.get("/queues/dispatcher/retry-a/logs");
    assert!(logs[0].as_str().is_some_and(|line| line.contains("status_503")), "{logs}");

    // Paused, a promoted job waits; the owner's own clock is not touched by it.
    board.press("/queues/dispatcher/pause");
    board.press(promote);
    assert_eq!(board.job("dispatcher", "retry-a").unwrap().0, "waiting");
    scene.lives.set(Instant::now()).unwrap();
    scene.leads_to_a_request(|| board.press("/queues/dispatcher/resume")).await;
    scene.all_arrive().await;
    eventually("the end of both jobs", SOON, async || {
        let jobs = ["retry-a", "disable-a"].map(|id| board.job("dispatcher", id));
        holds(jobs.iter().all(Option::is_none), || format!("{jobs:?}"))
    })
    .await;
}
