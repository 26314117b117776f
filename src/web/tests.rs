//! The API over a real socket, the ports in memory.

mod access;
mod actions;
mod actors;
mod attempts;
mod audit;
mod blocked_owners;
mod clients;
mod dashboard;
mod dead_letters;
mod events;
mod fake_heavy_jobs;
mod fake_queue;
mod fakes;
mod heavy_jobs;
mod operational_events;
mod queues;
mod source_letters;
mod stash;
mod status;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::http::Method;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::ready;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::fake_heavy_jobs::FakeHeavyJobs;
use self::fake_queue::{FakeQueue, FakeQueues};
use self::fakes::{
    FakeAttempts, FakeAudit, FakeConfigs, FakeDecisions, FakeEvents, FakeLog, FakeStash, FakeStates,
    FixedClock,
};
use super::*;
use crate::actors::dashboard::Snapshot;
use crate::domain::access::AccessToken;
use crate::domain::config::Secret;
use crate::domain::decision::DecisionKind;
use crate::domain::guard::DecisionList;
use crate::ports::event_log::NewRecord;
use crate::runtime::Registry;
use crate::workers::queues::Queue;
use crate::workers::{OpenQueues, QueuePauses};

/// A record, in the form in which it is taken.
const RECORD: &str =
    r#"{"topic":"mongo.a.b","key":"{\"id\":\"1\"}","value":"{}","headers":{"h":"v"},"note":"x"}"#;

/// The name of the replica.
fn here() -> ReplicaName {
    ReplicaName::parse("pod-1").unwrap()
}

/// A served API, and the fakes behind it.
struct World {
    address: SocketAddr,
    log: Arc<FakeLog>,
    configs: Arc<FakeConfigs>,
    stash: Arc<FakeStash>,
    states: Arc<FakeStates>,
    events: Arc<FakeEvents>,
    attempts: Arc<FakeAttempts>,
    audit: Arc<FakeAudit>,
    decisions: Arc<FakeDecisions>,
    queue: Arc<FakeQueue>,
    heavy_queue: Arc<FakeQueue>,
    heavy_jobs: Arc<FakeHeavyJobs>,
    block_list_is_late: Arc<std::sync::Mutex<bool>>,
    readiness: Arc<Readiness>,
    metrics: Metrics,
    refreshed: Arc<std::sync::Mutex<Vec<ClientId>>>,
    tried: Arc<std::sync::Mutex<Vec<ClientId>>>,
    restarted: Arc<std::sync::Mutex<Vec<RestartWish>>>,
    store_is_up: Arc<AtomicBool>,
    actor_state: Arc<std::sync::Mutex<&'static str>>,
    delivery: Arc<std::sync::Mutex<HashMap<ClientId, Value>>>,
    registry: Registry,
    snapshots: tokio::sync::watch::Sender<Arc<Snapshot>>,
    stopping: CancellationToken,
    server: actix_web::dev::ServerHandle,
}

impl Drop for World {
    fn drop(&mut self) {
        // The order to stop is given when the future is made.
        drop(self.server.stop(false));
    }
}

impl World {
    fn start() -> Self {
        Self::with_token(None)
    }

    fn with_token(token: Option<&str>) -> Self {
        Self::with_tokens(token.map(|token| AccessToken::admin(&Secret::new(token))).into_iter().collect())
    }

    fn with_tokens(tokens: Vec<AccessToken>) -> Self {
        let audit = Arc::new(FakeAudit::default());
        let log = Arc::new(FakeLog::default());
        let configs = Arc::new(FakeConfigs::default());
        let stash = Arc::new(FakeStash::default());
        let states = Arc::new(FakeStates::default());
        let events = Arc::new(FakeEvents::default());
        let attempts = Arc::new(FakeAttempts::default());
        let decisions = Arc::new(FakeDecisions::default());
        let queue = FakeQueue::new(Queue::Dispatcher);
        let heavy_queue = FakeQueue::new(Queue::Heavy);
        let heavy_jobs = Arc::new(FakeHeavyJobs::default());
        let block_list_is_late = Arc::<std::sync::Mutex<bool>>::default();
        let readiness = Arc::new(Readiness::default());
        let metrics = Metrics::new();
        let refreshed = Arc::new(std::sync::Mutex::new(Vec::new()));
        let tried = Arc::new(std::sync::Mutex::new(Vec::new()));
        let restarted = Arc::<std::sync::Mutex<Vec<RestartWish>>>::default();
        let store_is_up = Arc::new(AtomicBool::new(true));
        let actor_state = Arc::new(std::sync::Mutex::new("running"));
        let delivery = Arc::<std::sync::Mutex<HashMap<ClientId, Value>>>::default();
        readiness.log_is_open();
        readiness.configs_are_loaded();
        readiness.is_started();
        let probe = store_is_up.clone();
        let (registry, stopping) = (Registry::default(), CancellationToken::new());
        let (snapshots, dashboard) = Dashboard::new(here(), registry.clone(), stopping.clone());
        let state = WebState {
            mode: "embedded",
            roles: vec!["ingest", "web"],
            unattended_roles: Arc::new(|()| Box::pin(async { Some(vec!["heavy"]) })),
            serves_api: true,
            source_names: SourceNames { prefix: "mongo".into(), signal_collections: Vec::new() },
            access: AccessTokens::new(tokens).unwrap(),
            session_key: [7; 32],
            audit: audit.clone(),
            configs: configs.clone(),
            refresh_config: {
                let refreshed = refreshed.clone();
                Arc::new(move |client: ClientId| {
                    let result = if client.as_str() == "late" { Err("away".to_owned()) } else { Ok(()) };
                    refreshed.lock().unwrap().push(client);
                    ready(result).boxed()
                })
            },
            decisions: decisions.clone(),
            decided: {
                let decisions = decisions.clone();
                Arc::new(move || Decided {
                    blocked: DecisionList::new(decisions.now(DecisionKind::BlockedOwner)),
                    paused: DecisionList::new(decisions.now(DecisionKind::PausedClient)),
                    queues: DecisionList::new(decisions.now(DecisionKind::PausedQueue)),
                })
            },
            try_now: {
                let tried = tried.clone();
                Arc::new(move |client| {
                    tried.lock().unwrap().push(client);
                    ready(()).boxed()
                })
            },
            refresh_decided: {
                let late = block_list_is_late.clone();
                Arc::new(move |()| {
                    ready(if *late.lock().unwrap() { Err("away".to_owned()) } else { Ok(()) }).boxed()
                })
            },
            queues: vec![queue.clone(), heavy_queue.clone()],
            heavy_desk: HeavyDesk {
                rows: heavy_jobs.clone(),
                queues: OpenQueues::new(&FakeQueues(heavy_queue.clone())),
                blocked: Arc::new(crate::actors::config_cache::config_table().1),
                clock: Arc::new(FixedClock),
                tell: Arc::new(|_| {}),
            },
            can_resync: true,
            log: log.clone(),
            stash: stash.clone(),
            stash_rows: stash.clone(),
            states: states.clone(),
            clock: Arc::new(FixedClock),
            metrics: metrics.clone(),
            before_scrape: {
                let metrics = metrics.clone();
                Arc::new(move |()| {
                    metrics.lag.with_label_values(&["source"]).set(7);
                    ready(()).boxed()
                })
            },
            actors: {
                let state = actor_state.clone();
                Arc::new(move || vec![json!({ "kind": "ingest", "state": *state.lock().unwrap() })])
            },
            restart_actor: {
                let restarted = restarted.clone();
                Arc::new(move |wish: RestartWish| {
                    let by = |answer| Ok((wish.replica.clone().unwrap_or_else(here), answer));
                    let answer = match wish.id.as_str() {
                        "nobody" => Err(NobodyActed::Unknown),
                        "far" => Err(NobodyActed::Unreachable("redis is away".to_owned())),
                        "mute" => Err(NobodyActed::NoAnswer),
                        "over" => by(RestartAnswer::Over),
                        _ => by(RestartAnswer::Asked),
                    };
                    restarted.lock().unwrap().push(wish);
                    ready(answer).boxed()
                })
            },
            delivery: {
                let delivery = delivery.clone();
                Arc::new(move |client| delivery.lock().unwrap().get(client).cloned())
            },
            operational_events: events.clone(),
            attempts: attempts.clone(),
            recent_deliveries: {
                let attempts = attempts.clone();
                Arc::new(move |client| ready(attempts.recent(&client)).boxed())
            },
            dashboard,
            stores: vec![StoreProbe {
                name: "sqlite".into(),
                check: Arc::new(move |()| {
                    let up = probe.load(Ordering::Relaxed);
                    ready(if up { Ok(()) } else { Err("disk I/O error".to_owned()) }).boxed()
                }),
            }],
            readiness: readiness.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let running = start(state, listener).unwrap();
        let server = running.handle();
        actix_rt::spawn(running);
        Self {
            address,
            log,
            configs,
            stash,
            states,
            events,
            attempts,
            audit,
            decisions,
            queue,
            heavy_queue,
            heavy_jobs,
            tried,
            block_list_is_late,
            readiness,
            metrics,
            refreshed,
            restarted,
            store_is_up,
            actor_state,
            delivery,
            registry,
            snapshots,
            stopping,
            server,
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = awc::Client::default().request(method, format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.insert_header((*name, *value));
        }
        let mut response = request.send_body(body.into()).await.unwrap();
        let body = response.body().limit(64 << 20).await.unwrap();
        let header = |name: &str| {
            response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
        };
        Answer {
            status: response.status().as_u16(),
            content_type: header("content-type"),
            retry_after: header("retry-after"),
            text: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, &[], body.to_string()).await
    }

    async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(Method::POST, path, &[], body).await
    }

    fn pauses(&self) -> QueuePauses {
        QueuePauses::new(self.decisions.clone(), vec![self.queue.clone()])
    }

    fn taken(&self) -> Vec<NewRecord> {
        self.log.records.lock().unwrap().clone()
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    content_type: String,
    retry_after: String,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// The status and the detail of a problem document.
    fn problem(&self) -> (u16, String) {
        assert_eq!(self.content_type, "application/problem+json", "{self:?}");
        let document = self.json();
        assert_eq!(document["status"], self.status);
        (self.status, document["detail"].as_str().unwrap().to_owned())
    }
}
