//! Heavy jobs: their rows, and the rule by which a resync never lets a copy go back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dispatcher::backends::embedded::Embedded;
use dispatcher::domain::change_event::SourceNames;
use dispatcher::domain::client_state::ClientState;
use dispatcher::domain::config::{ClientId, Status, read_value};
use dispatcher::domain::delivery::FailureClass;
use dispatcher::domain::guard::{Decided, WhenBlocked};
use dispatcher::domain::heavy_job::{HeavyJob, HeavyState};
use dispatcher::domain::job::JobState;
use dispatcher::domain::stash::{NewRow, RowFailure, StashWrite};
use dispatcher::domain::transfer::{
    DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, Transfer, TransferKind,
};
use dispatcher::metrics::Metrics;
use dispatcher::ports::clock::{Clock as _, SystemClock};
use dispatcher::ports::documents::{CollectionName, DocumentKey, Documents, StoredDocument};
use dispatcher::ports::event_log::{BatchLimits, TransferConsumer, TransferEvent};
use dispatcher::ports::source_progress::{SourcePlaces, SourceProgress};
use dispatcher::ports::stash::StashBatch;
use dispatcher::ports::{BoxFuture, StoreError, StoreResult};
use dispatcher::workers::heavy::document::DocumentRoutes;
use dispatcher::workers::heavy::{HeavyDesk, HeavyWorker, ResyncSource};
use dispatcher::workers::queues::{HeavyWork, Queue, Replay, Resync};
use dispatcher::workers::{Exclusive, OpenQueues, WorkerKit};
use serde_json::{Value, json};

use crate::world::{Blocked, Pauses, eventually, open_in, soon};

const CLIENT: &str = "c";

/// What happens to the documents before the question of this number, from 1, of those that ask for documents again.
type Script = BTreeMap<usize, Box<dyn Fn(&mut BTreeMap<u32, Value>) -> StoreResult<()> + Send>>;

/// One collection, `wnx-shop.orders`, of documents with the ids 1, 2, …
#[derive(Default)]
struct Shop {
    documents: Mutex<BTreeMap<u32, Value>>,
    script: Mutex<Script>,
    asked: Mutex<usize>,
    /// Questions to which the answer is that the change events are not read yet.
    behind: Mutex<usize>,
}

impl Shop {
    fn of(documents: impl IntoIterator<Item = (u32, Value)>) -> Arc<Self> {
        Arc::new(Self { documents: Mutex::new(documents.into_iter().collect()), ..Self::default() })
    }

    fn before(
        &self,
        question: usize,
        change: impl Fn(&mut BTreeMap<u32, Value>) -> StoreResult<()> + Send + 'static,
    ) {
        self.script.lock().unwrap().insert(question, Box::new(change));
    }
}

fn order(version: u32) -> Value {
    json!({ "clients": [CLIENT], "version": version })
}

fn stored(number: u32, document: &Value) -> StoredDocument {
    let mut text = document.clone();
    text["_id"] = json!(number);
    StoredDocument {
        key: DocumentKey(number.to_string()),
        id: number.to_string(),
        text: Some(text.to_string()),
    }
}

impl Documents for Shop {
    fn collections(&self) -> BoxFuture<'_, StoreResult<Vec<CollectionName>>> {
        let name = |collection: &str| CollectionName { db: "wnx-shop".into(), collection: collection.into() };
        Box::pin(async move { Ok(vec![name("orders"), name("uncaptured")]) })
    }

    fn page<'a>(
        &'a self,
        _: &'a CollectionName,
        client: &'a ClientId,
        after: Option<&'a DocumentKey>,
        limit: usize,
        _: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<StoredDocument>>> {
        let after: u32 = after.map_or(0, |key| key.0.parse().unwrap());
        let documents = self.documents.lock().unwrap();
        let his = documents.range(after + 1..).filter(|(_, document)| {
            document["clients"].as_array().unwrap().contains(&json!(client.as_str()))
        });
        let page = his.take(limit).map(|(number, document)| stored(*number, document)).collect();
        Box::pin(async { Ok(page) })
    }

    fn again<'a>(
        &'a self,
        _: &'a CollectionName,
        keys: Vec<DocumentKey>,
    ) -> BoxFuture<'a, StoreResult<Vec<StoredDocument>>> {
        let mut documents = self.documents.lock().unwrap();
        let question = {
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            *asked
        };
        let change = self.script.lock().unwrap().remove(&question);
        let happened = change.map_or(Ok(()), |change| change(&mut documents));
        let numbers = keys.iter().map(|key| key.0.parse::<u32>().unwrap());
        let found = numbers.filter_map(|number| Some(stored(number, documents.get(&number)?))).collect();
        Box::pin(async { happened.map(|()| found) })
    }
}

impl SourceProgress for Shop {
    fn ends(&self) -> BoxFuture<'_, StoreResult<SourcePlaces>> {
        let places = [(("mongo.wnx-shop.orders".into(), 0), 7)];
        Box::pin(async { Ok(SourcePlaces(places.into())) })
    }

    fn passes<'a>(&'a self, _: &'a SourcePlaces, _: Duration) -> BoxFuture<'a, StoreResult<bool>> {
        let mut behind = self.behind.lock().unwrap();
        let passed = *behind == 0;
        *behind = behind.saturating_sub(1);
        Box::pin(async move { Ok(passed) })
    }
}

struct Heavy {
    embedded: Arc<Embedded>,
    queues: OpenQueues<Queue>,
    blocked: Arc<Blocked>,
    desk: HeavyDesk,
    status: Arc<Mutex<Status>>,
    worker: Arc<HeavyWorker>,
    kit: WorkerKit,
    transfers: Arc<dyn TransferConsumer>,
    told: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Heavy {
    async fn new(shop: Arc<Shop>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let embedded = Arc::new(open_in(folder.path()).await);
        let queues = OpenQueues::<Queue>::new(&*embedded.queues());
        let (blocked, status) = (Arc::new(Blocked::default()), Arc::new(Mutex::new(Status::Active)));
        let (known, metrics) = (status.clone(), Metrics::new());
        let told = Arc::<Mutex<Vec<String>>>::default();
        let tell: dispatcher::workers::heavy::Tell = {
            let told = told.clone();
            Arc::new(move |event| told.lock().unwrap().push(event.details["state"].as_str().unwrap().into()))
        };
        let desk = HeavyDesk {
            rows: embedded.heavy_jobs(),
            queues: queues.clone(),
            blocked: blocked.clone(),
            clock: Arc::new(SystemClock),
            tell: tell.clone(),
        };
        let source = ResyncSource {
            documents: shop.clone(),
            progress: shop,
            routes: DocumentRoutes {
                names: SourceNames { prefix: "mongo".into(), signal_collections: Vec::new() },
                mongo_prefix: "wnx".into(),
                revoke: true,
                blocked: WhenBlocked::Skip,
                client: Arc::new(move |client| {
                    let value = r#"{"webhook": "http://a.test"}"#;
                    let config = read_value(client, *known.lock().unwrap(), false, 1, 0, None, value);
                    Some(Decided::default().judge(&Arc::new(config)))
                }),
            },
            settle: Duration::ZERO,
            page: 2,
            per_second: 1_000_000,
        };
        let worker = HeavyWorker {
            rows: embedded.heavy_jobs(),
            stash: embedded.stash(),
            log: embedded.log(),
            states: embedded.states(),
            source: Some(source),
            client_rows: 1_000,
            exclusive: Exclusive {
                locks: embedded.locks(),
                clock: Arc::new(SystemClock),
                metrics: metrics.clone(),
            },
            clock: Arc::new(SystemClock),
            tell,
        };
        let limits = BatchLimits { records: 1_000, bytes: 1 << 20 };
        let transfers = embedded.log().transfers("test", limits).await.unwrap();
        let kit = WorkerKit { metrics, blocked: blocked.clone(), paused: Arc::new(Pauses::default()) };
        Self {
            embedded,
            queues,
            blocked,
            desk,
            status,
            worker: Arc::new(worker),
            kit,
            transfers,
            told,
            _folder: folder,
        }
    }

    async fn ended(&self, work: impl Into<HeavyWork>) -> HeavyJob {
        let work = work.into();
        let worker = self.kit.start(&self.queues, self.worker.clone(), None);
        let id = self.desk.start(work, false).await.unwrap().id;
        let queue = self.queues.get(Queue::Heavy);
        let job = eventually(async || {
            // What waits for a store need not wait in a test.
            queue.promote(id.as_str()).await.unwrap();
            let job = self.desk.rows.get(&id).await.unwrap().unwrap();
            (job.state != HeavyState::Open).then_some(job)
        })
        .await;
        soon(worker.stop(Duration::from_secs(5))).await;
        job
    }

    /// What stands in the log, in its order: `<op><version>` by document, and the kind.
    async fn logged(&self, count: usize) -> Vec<Arc<Transfer>> {
        let mut logged = Vec::new();
        while logged.len() < count {
            match soon(self.transfers.next()).await.unwrap() {
                TransferEvent::Batch { transfers, .. } => logged.extend(transfers),
                TransferEvent::Assigned(_) => {}
                other => panic!("{other:?}"),
            }
        }
        let more = tokio::time::timeout(Duration::from_millis(100), self.transfers.next()).await;
        assert!(more.is_err(), "more than {count}: {more:?}");
        logged
    }

    /// `<id>:<op><version>` of each, in the order of the log.
    async fn sent(&self, count: usize) -> Vec<String> {
        let logged = self.logged(count).await;
        let text = |transfer: &Arc<Transfer>| {
            assert_eq!((transfer.kind, transfer.client.as_str()), (TransferKind::Resync, CLIENT));
            let body: Value = serde_json::from_slice(&transfer.body).unwrap();
            let version = body["after"]["version"].as_u64().map_or_else(String::new, |it| it.to_string());
            format!("{}:{}{version}", body["id"].as_str().unwrap(), body["op"].as_str().unwrap())
        };
        logged.iter().map(text).collect()
    }
}

fn resync() -> Resync {
    Resync { client: ClientId::new(CLIENT), collections: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_document_of_the_client_is_sent_once() {
    let other = json!({ "clients": ["other"], "version": 1 });
    let documents = [(1, order(1)), (2, other), (3, order(3)), (4, order(4)), (5, order(5)), (6, order(6))];
    let shop = Shop::of(documents);
    *shop.behind.lock().unwrap() = 3;
    let heavy = Heavy::new(shop).await;
    let job = heavy.ended(resync()).await;
    assert_eq!((job.state, &job.progress), (HeavyState::Done, &json!({ "sent": 5 })), "{job:?}");
    assert_eq!(heavy.sent(5).await, ["1:r1", "3:r3", "4:r4", "5:r5", "6:r6"]);
    assert_eq!(*heavy.told.lock().unwrap(), ["done"]);
    // The id dedups: nothing is done again.
    let same = heavy.desk.start(resync().into(), false).await.unwrap();
    assert_eq!(same.state, HeavyState::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changed_while_it_was_waited_is_left_to_its_live_change() {
    let shop = Shop::of([(1, order(1)), (2, order(2)), (3, order(3))]);
    shop.before(1, |documents| {
        documents.insert(1, order(10));
        documents.remove(&2);
        Ok(())
    });
    let heavy = Heavy::new(shop).await;
    let job = heavy.ended(resync()).await;
    assert_eq!(job.progress, json!({ "changed_meanwhile": 2, "sent": 1 }));
    assert_eq!(heavy.sent(1).await, ["3:r3"]);
}

/// Between the second read and the append: the live change may stand before ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_been_overtaken_is_sent_as_it_is_then() {
    let shop = Shop::of([(1, order(1)), (2, order(2)), (3, order(3))]);
    shop.before(2, |documents| {
        documents.insert(1, order(10));
        documents.remove(&2);
        Ok(())
    });
    let heavy = Heavy::new(shop).await;
    let job = heavy.ended(resync()).await;
    assert_eq!(job.progress, json!({ "deleted": 1, "sent": 4 }), "{job:?}");
    assert_eq!(heavy.sent(5).await, ["1:r1", "2:r2", "1:r10", "2:d", "3:r3"]);
}

/// It changed once more, after ours was in the log: that change stands behind it, and needs no help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_on_changing_is_left_to_its_live_changes() {
    let shop = Shop::of([(1, order(1)), (2, order(2))]);
    for (question, version) in [(2, 10), (3, 20)] {
        shop.before(question, move |documents| {
            documents.insert(1, order(version));
            Ok(())
        });
    }
    let heavy = Heavy::new(shop).await;
    let job = heavy.ended(resync()).await;
    assert_eq!(job.progress, json!({ "changed_meanwhile": 1, "sent": 2 }));
    assert_eq!(heavy.sent(2).await, ["1:r1", "2:r2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lost_a_document_meanwhile_is_told() {
    let shop = Shop::of([(1, order(1))]);
    shop.before(2, |documents| {
        documents.insert(1, json!({ "clients": ["other"], "version": 2 }));
        Ok(())
    });
    let heavy = Heavy::new(shop).await;
    heavy.ended(resync()).await;
    assert_eq!(heavy.sent(2).await, ["1:r1", "1:d"]);
}

/// The process ends between the append and the look after it, and the document goes away meanwhile: no page shows it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_in_hand_is_looked_at_again() {
    let shop = Shop::of([(1, order(1)), (2, order(2))]);
    shop.before(2, |documents| {
        documents.remove(&1);
        Err(StoreError::Unavailable("gone in the middle".into()))
    });
    let heavy = Heavy::new(shop).await;
    let job = heavy.ended(resync()).await;
    assert_eq!(job.state, HeavyState::Done, "{job:?}");
    let logged = heavy.logged(4).await;
    let bodies: Vec<Value> = logged.iter().map(|one| serde_json::from_slice(&one.body).unwrap()).collect();
    let ops: Vec<String> = bodies.iter().map(|body| format!("{}{}", body["id"], body["op"])).collect();
    assert_eq!(ops, [r#""1""r""#, r#""2""r""#, r#""1""d""#, r#""2""r""#]);
    let repeated = (&logged[1], &logged[3]);
    assert_eq!((&repeated.0.event_id, &repeated.0.body), (&repeated.1.event_id, &repeated.1.body));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_of_no_use_says_why() {
    let heavy = Heavy::new(Shop::of([(1, order(1))])).await;
    *heavy.status.lock().unwrap() = Status::Inactive;
    let job = heavy.ended(resync()).await;
    assert_eq!(job.state, HeavyState::Failed);
    assert!(job.reason.as_deref().unwrap().contains("inactive"), "{job:?}");
    let named = Resync { collections: Some(["shop.nothing".to_owned()].into()), ..resync() };
    let job = heavy.ended(named).await;
    assert!(job.reason.as_deref().unwrap().contains("no collection \"shop.nothing\""), "{job:?}");
    // One that Debezium does not capture is sent by its name alone.
    *heavy.status.lock().unwrap() = Status::Active;
    let named = Resync { collections: Some(["shop.uncaptured".to_owned()].into()), ..resync() };
    assert_eq!(heavy.ended(named).await.state, HeavyState::Done);
    assert_eq!(heavy.sent(1).await, ["1:r1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_lost_a_job_has_it_again() {
    let heavy = Heavy::new(Shop::of([(1, order(1))])).await;
    let id = heavy.desk.start(resync().into(), false).await.unwrap().id;
    let queue = heavy.queues.get(Queue::Heavy);
    queue.remove(id.as_str()).await.unwrap();
    heavy.desk.put_back().await.unwrap();
    assert_eq!(queue.job(id.as_str()).await.unwrap().unwrap().state, JobState::Waiting);
    let job = heavy.ended(resync()).await;
    assert_eq!((job.id, job.state), (id.clone(), HeavyState::Done));
    // The queue remembers the run longer than the store: the next one runs all the same.
    assert!(heavy.desk.forget(&ClientId::new(CLIENT), &id).await.unwrap());
    assert_eq!(heavy.ended(resync()).await.state, HeavyState::Done);
    assert_eq!(heavy.sent(2).await, ["1:r1", "1:r1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_of_a_blocked_owner_ends() {
    let heavy = Heavy::new(Shop::of([(1, order(1))])).await;
    heavy.blocked.clients.lock().unwrap().insert(CLIENT.to_owned());
    let worker = heavy.kit.start(&heavy.queues, heavy.worker.clone(), None);
    let id = heavy.desk.start(resync().into(), false).await.unwrap().id;
    let job = eventually(async || {
        heavy.desk.put_back().await.unwrap();
        let job = heavy.desk.rows.get(&id).await.unwrap().unwrap();
        (job.state != HeavyState::Open).then_some(job)
    })
    .await;
    assert_eq!((job.state, job.reason.as_deref()), (HeavyState::Cancelled, Some("owner_blocked")));
    soon(worker.stop(Duration::from_secs(5))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_job_is_not_done() {
    let heavy = Heavy::new(Shop::of([(1, order(1))])).await;
    let id = heavy.desk.start(resync().into(), false).await.unwrap().id;
    let client = ClientId::new(CLIENT);
    assert_eq!(heavy.desk.cancel(&ClientId::new("other"), &id).await, Ok(None));
    let job = heavy.desk.cancel(&client, &id).await.unwrap().unwrap();
    assert_eq!(job.state, HeavyState::Cancelled);
    assert_eq!(heavy.queues.get(Queue::Heavy).job(id.as_str()).await, Ok(None));
    assert_eq!(heavy.ended(resync()).await.state, HeavyState::Cancelled);
    assert_eq!(*heavy.told.lock().unwrap(), ["cancelled"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_dropped_for_a_client_is_made_good_by_a_whole_resync() {
    let heavy = Heavy::new(Shop::of([(1, order(1))])).await;
    let (states, client) = (heavy.embedded.states(), ClientId::new(CLIENT));
    let state = ClientState { dropped: 7, ..ClientState::new(0) };
    states.put(&client, state.clone()).await.unwrap();
    let some = Resync { collections: Some(["shop.orders".to_owned()].into()), ..resync() };
    heavy.ended(some).await;
    assert_eq!(states.get(&client).await.unwrap().unwrap().missing(), 7, "others may be missing");
    heavy.ended(resync()).await;
    // Its delivery actor does not know it yet, and takes nothing back.
    states.put(&client, ClientState { dropped: 9, ..state }).await.unwrap();
    assert_eq!(states.get(&client).await.unwrap().unwrap().missing(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_dead_of_a_client_is_replayed_page_by_page() {
    const ROWS: i64 = 150;
    let heavy = Heavy::new(Shop::of([])).await;
    let (stash, incarnation) = (heavy.embedded.stash(), heavy.embedded.log().incarnation());
    let ownership = stash.take_ownership(incarnation, 0, 0).await.unwrap();
    for at in 0..ROWS {
        let row = NewRow { transfer: dead(incarnation, at), failure: None, claim: None };
        let event_id = row.transfer.event_id.clone();
        let failure = RowFailure {
            class: FailureClass::Payload,
            reason: "status_422".into(),
            status: Some(422),
            next_attempt_at_ms: 0,
        };
        let writes = vec![StashWrite::Insert(row), StashWrite::Dead { event_id, failure }];
        let batch = StashBatch { client: ClientId::new(CLIENT), ownership, lease: None, writes };
        stash.apply(vec![batch]).await.unwrap().pop().unwrap().unwrap();
    }
    let later_ms = SystemClock.now_ms() + 2;
    eventually(async || (SystemClock.now_ms() > later_ms).then_some(())).await;
    let job =
        heavy.ended(Replay { client: ClientId::new(CLIENT), from_ms: None, to_ms: None, force: true }).await;
    assert_eq!((job.state, &job.progress), (HeavyState::Done, &json!({ "replayed": ROWS })));
    let logged = heavy.logged(ROWS as usize).await;
    assert!(logged.iter().all(|transfer| transfer.kind == TransferKind::ForcedReplay));
    let order: Vec<i64> = logged.iter().map(|transfer| transfer.source.offset).collect();
    assert!(order.is_sorted() && order.len() == ROWS as usize);
}

fn dead(incarnation: u32, at: i64) -> Arc<Transfer> {
    let source = SourcePosition { topic: "mongo.wnx-shop.orders".into(), partition: 0, offset: at };
    let client = ClientId::new(CLIENT);
    let content = NewTransfer {
        event_id: EventId::derive(&source, at, &client),
        client,
        document: format!("wnx-shop.orders:{at}").into(),
        document_hash: DocumentHash::of("wnx-shop", "orders", &at.to_string()),
        kind: TransferKind::Live,
        source,
        traceparent: None,
        ts_ms: at,
        body: "{}".into(),
    };
    Arc::new(Transfer { sequence: Sequence { incarnation, partition: 0, offset: at }, content })
}
