//! The source stage: when a changed config counts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::System;
use dispatcher::actors::config_cache::{ConfigCacheActor, Reload, config_table};
use dispatcher::actors::delivery_fleet::ConfigChanged;
use dispatcher::actors::ingest::source::SourceStage;
use dispatcher::actors::ingest::{LagProbe, Stage};
use dispatcher::domain::change_event::{SourceNames, SourceRecord};
use dispatcher::domain::config::{ClientConfig, ClientId, Status, read_value};
use dispatcher::domain::decision::{Decision, DecisionKind, Subject};
use dispatcher::domain::guard::WhenBlocked;
use dispatcher::domain::transfer::{NewTransfer, SourcePosition};
use dispatcher::metrics::Metrics;
use dispatcher::ports::client_configs::{ClientConfigs, ConfigHint, Put, StoredConfig};
use dispatcher::ports::clock::SystemClock;
use dispatcher::ports::decisions::Decisions;
use dispatcher::ports::event_log::{
    BatchLimits, DeadLetter, EventLog, IngestWork, Lag, NewRecord, SourceConsumer, TransferConsumer,
};
use dispatcher::ports::{BoxFuture, StoreError, StoreResult};
use dispatcher::runtime::{Arbiters, Cell, Kit, RestartPolicy, supervise};
use tokio_util::sync::CancellationToken;

/// Later than the table was read, whatever the time is.
const RECORDED_MS: i64 = 1 << 60;

/// The stores as the stage sees them: they write down what is asked of them.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    steps: Vec<String>,
    committed: usize,
    position: usize,
    /// The next change of a config is refused.
    refuse: bool,
    /// The next so many questions for newer configs are not answered.
    away: u32,
    /// What is in the store, and not in the table yet.
    newer: Option<StoredConfig>,
    /// What the table begins with.
    stored: Option<StoredConfig>,
    blocked: Vec<Decision>,
    routed: usize,
    /// The consumer that is open ends in the middle of its work.
    ends: bool,
    has_ended: bool,
    opened: u32,
    /// More records than this are not written in time.
    most: Option<usize>,
    /// What is made of this record is refused, unless it is a dead letter.
    refused: Option<i64>,
    dead: Vec<DeadLetter>,
}

impl Book {
    fn write(&self, step: impl Into<String>) {
        self.0.lock().unwrap().steps.push(step.into());
    }

    fn steps(&self) -> Vec<String> {
        self.0.lock().unwrap().steps.clone()
    }
}

fn records() -> Vec<SourceRecord> {
    let collections = ["wnx-identity.users", "wnx-context.configs", "wnx-identity.users"];
    let record = |(offset, names): (i64, &str)| {
        let (db, collection) = names.split_once('.').unwrap();
        let after = r#"{\"_id\":\"1\",\"key\":\"CQRS\",\"eid\":\"a\",\"clients\":[\"a\"]}"#;
        let value = format!(
            r#"{{"op":"c","ts_ms":1,"after":"{after}","source":{{"db":"{db}","collection":"{collection}"}}}}"#
        );
        SourceRecord {
            position: SourcePosition { topic: format!("mongo.{names}").into(), partition: 0, offset },
            timestamp_ms: RECORDED_MS,
            key: None,
            value: Some(value.into()),
            headers: Vec::new(),
        }
    };
    (0..).zip(collections).map(record).collect()
}

fn ended() -> StoreError {
    StoreError::Fenced("the consumer has ended".to_owned())
}

impl SourceConsumer for Book {
    fn next(&self) -> BoxFuture<'_, StoreResult<Vec<SourceRecord>>> {
        let mut pages = self.0.lock().unwrap();
        let left = records().split_off(pages.position);
        pages.position += left.len();
        Box::pin(async { if left.is_empty() { std::future::pending().await } else { Ok(left) } })
    }

    fn commit(&self, work: IngestWork) -> BoxFuture<'_, StoreResult<()>> {
        let next = work.offsets.values().max().copied().unwrap();
        {
            let mut pages = self.0.lock().unwrap();
            pages.has_ended = std::mem::take(&mut pages.ends);
            if pages.has_ended {
                return Box::pin(async { Err(ended()) });
            }
            let from = pages.committed as i64;
            let count = (next - from) as usize;
            let refused = pages.refused.filter(|offset| (from..next).contains(offset));
            if refused.is_some() && work.dead_letters.is_empty() {
                drop(pages);
                self.write(format!("refused {count}"));
                return Box::pin(async { Err(StoreError::Refused("too large".to_owned())) });
            }
            if pages.most.is_some_and(|most| count > most) {
                drop(pages);
                self.write(format!("late {count}"));
                return Box::pin(async { Err(StoreError::Unavailable("late".to_owned())) });
            }
            pages.dead.extend(work.dead_letters);
            pages.committed = next as usize;
            pages.routed += work.transfers.len();
        }
        self.write(format!("commit {next}"));
        Box::pin(async { Ok(()) })
    }

    fn rewind(&self) -> BoxFuture<'_, StoreResult<()>> {
        let mut pages = self.0.lock().unwrap();
        pages.position = pages.committed;
        let answer = if pages.has_ended { Err(ended()) } else { Ok(()) };
        Box::pin(async { answer })
    }

    fn lag(&self) -> BoxFuture<'_, StoreResult<Lag>> {
        Box::pin(async { Ok(Lag::default()) })
    }
}

impl EventLog for Book {
    fn append(&self, _: Vec<NewRecord>) -> BoxFuture<'_, StoreResult<Vec<SourcePosition>>> {
        panic!("the stage does not ask this")
    }

    fn partitions(&self) -> u32 {
        1
    }

    fn incarnation(&self) -> u32 {
        1
    }

    fn source(&self, _: &str, _: BatchLimits) -> BoxFuture<'_, StoreResult<Arc<dyn SourceConsumer>>> {
        let mut pages = self.0.lock().unwrap();
        pages.opened += 1;
        (pages.has_ended, pages.position) = (false, pages.committed);
        let consumer: Arc<dyn SourceConsumer> = Arc::new(self.clone());
        Box::pin(async { Ok(consumer) })
    }

    fn transfers(&self, _: &str, _: BatchLimits) -> BoxFuture<'_, StoreResult<Arc<dyn TransferConsumer>>> {
        panic!("the stage does not ask this")
    }

    fn append_transfers(&self, transfers: Vec<NewTransfer>) -> BoxFuture<'_, StoreResult<()>> {
        panic!("the stage does not ask this: {transfers:?}")
    }

    fn keep_dead(&self, _: Vec<DeadLetter>) -> BoxFuture<'_, StoreResult<()>> {
        panic!("the stage does not ask this")
    }

    fn dead_letters(&self, _: i64, _: usize) -> BoxFuture<'_, StoreResult<Vec<(i64, DeadLetter)>>> {
        panic!("the stage does not ask this")
    }
}

impl ClientConfigs for Book {
    fn load(&self) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>> {
        let stored = self.0.lock().unwrap().stored.clone();
        Box::pin(async { Ok(stored.into_iter().collect()) })
    }

    fn get<'a>(&'a self, _: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<StoredConfig>>> {
        self.write("read again");
        Box::pin(async { Ok(None) })
    }

    fn put<'a>(&'a self, _: &'a ClientId, _: Status, _: String, _: i64) -> BoxFuture<'a, StoreResult<Put>> {
        panic!("the stage does not ask this")
    }

    fn delete<'a>(&'a self, _: &'a ClientId, _: i64) -> BoxFuture<'a, StoreResult<bool>> {
        panic!("the stage does not ask this")
    }

    fn deactivate<'a>(&'a self, _: &'a ClientConfig, _: i64) -> BoxFuture<'a, StoreResult<bool>> {
        panic!("the stage does not ask this")
    }

    fn recheck(
        &self,
        clients: Vec<ClientId>,
        as_of_ms: i64,
    ) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>> {
        assert_eq!((clients, as_of_ms), (vec![ClientId::new("a")], RECORDED_MS + 5_000));
        let mut pages = self.0.lock().unwrap();
        let away = pages.away > 0;
        pages.away = pages.away.saturating_sub(1);
        let found = pages.newer.clone().into_iter().collect();
        drop(pages);
        self.write(if away { "not looked up" } else { "looked up" });
        let err = StoreError::Unavailable("no answer".to_owned());
        Box::pin(async move { if away { Err(err) } else { Ok(found) } })
    }

    fn changed(&self, _: ConfigHint) -> BoxFuture<'_, StoreResult<Option<ClientId>>> {
        let refuse = std::mem::take(&mut self.0.lock().unwrap().refuse);
        self.write(if refuse { "refused" } else { "applied" });
        let away = || StoreError::Unavailable("no space".to_owned());
        Box::pin(async move { if refuse { Err(away()) } else { Ok(Some(ClientId::new("a"))) } })
    }
}

impl Decisions for Book {
    fn list(&self, _: DecisionKind) -> BoxFuture<'_, StoreResult<Vec<Decision>>> {
        let blocked = self.0.lock().unwrap().blocked.clone();
        Box::pin(async { Ok(blocked) })
    }

    fn put(&self, _: DecisionKind, _: Decision) -> BoxFuture<'_, StoreResult<Decision>> {
        panic!("the stage does not ask this")
    }

    fn remove<'a>(&'a self, _: DecisionKind, _: &'a Subject) -> BoxFuture<'a, StoreResult<bool>> {
        panic!("the stage does not ask this")
    }
}

struct Nobody;

impl actix::Actor for Nobody {
    type Context = actix::Context<Self>;
}

impl actix::Handler<ConfigChanged> for Nobody {
    type Result = ();

    fn handle(&mut self, _: ConfigChanged, _: &mut Self::Context) {}
}

fn run(book: &Book) {
    run_with(book, WhenBlocked::Skip);
}

fn run_with(book: &Book, blocked: WhenBlocked) -> Metrics {
    System::new().block_on(async {
        let kit = Kit::new(Arc::new(|_| {}), RestartPolicy::default());
        let arbiters = Arbiters::current("test");
        let (writer, table) = config_table();
        let (store, metrics) = (Arc::new(book.clone()), Metrics::new());
        let (configs, changes, counters) =
            (store.clone(), actix::Actor::start(Nobody).recipient(), metrics.clone());
        let decisions = store.clone();
        let config_cache = supervise(&kit, arbiters.pick(0), "config-cache", "", move |cell| {
            ConfigCacheActor::new(cell, configs, decisions, writer, changes, Arc::new(SystemClock), counters)
        });
        config_cache.addr.send(Reload).await.unwrap().unwrap();
        let stop = CancellationToken::new();
        let stage = SourceStage {
            log: store.clone(),
            group: "test".to_owned(),
            limits: BatchLimits { records: 10, bytes: 1 << 20 },
            names: SourceNames { prefix: "mongo".into(), signal_collections: Vec::new() },
            mongo_prefix: "wnx".into(),
            revoke: true,
            blocked,
            configs: store,
            table,
            config_cache: config_cache.addr,
            clock: Arc::new(SystemClock),
            metrics: metrics.clone(),
            lag: LagProbe::default(),
            stop: stop.clone(),
        };
        let running = actix_rt::spawn(stage.run(Cell::new("test", "")));
        let all_committed = async {
            while book.0.lock().unwrap().committed < records().len() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), all_committed).await.unwrap();
        stop.cancel();
        running.await.unwrap();
        metrics
    })
}

#[test]
fn a_changed_config_counts_from_its_place_in_the_log_on() {
    let book = Book::default();
    run(&book);
    assert_eq!(book.steps(), ["looked up", "commit 1", "applied", "read again", "commit 3"]);
    assert_eq!(book.0.lock().unwrap().routed, 0);
}

#[test]
fn a_changed_config_that_could_not_be_stored_comes_again() {
    let book = Book::default();
    book.0.lock().unwrap().refuse = true;
    run(&book);
    let steps = ["looked up", "commit 1", "refused", "looked up", "applied", "read again", "commit 3"];
    assert_eq!(book.steps(), steps);
}

/// Tried again as it was, it would be too much for ever.
#[test]
fn what_is_too_much_for_one_commit_is_written_in_parts() {
    let book = Book::default();
    book.0.lock().unwrap().most = Some(1);
    run(&book);
    let steps: Vec<String> = book.steps().into_iter().filter(|step| step.contains(' ')).collect();
    let commits: Vec<&str> = steps.iter().map(String::as_str).filter(|step| !step.ends_with("up")).collect();
    assert_eq!(
        commits,
        ["commit 1", "read again", "late 2", "read again", "commit 2", "commit 3"],
        "{steps:?}"
    );
    assert!(book.0.lock().unwrap().dead.is_empty());
}

/// The brokers refuse it for what it is: a limit was lowered, or its fan-out is too large.
#[test]
fn a_record_that_is_refused_alone_becomes_a_dead_letter_and_the_others_go_on() {
    let book = Book::default();
    book.0.lock().unwrap().refused = Some(2);
    run(&book);
    let steps = book.steps();
    for step in ["refused 2", "commit 2", "refused 1", "commit 3"] {
        assert_eq!(steps.iter().filter(|found| *found == step).count(), 1, "{step} of {steps:?}");
    }
    let pages = book.0.lock().unwrap();
    assert_eq!(pages.dead.len(), 1, "{:?}", pages.dead);
    let (letter, record) = (&pages.dead[0], &records()[2]);
    assert_eq!((&letter.position, letter.timestamp_ms), (&record.position, RECORDED_MS));
    assert_eq!(letter.reason, "it cannot be written: too large");
    assert_eq!(letter.record.as_ref().map(|kept| &kept.value), Some(&record.value));
}

#[test]
fn a_consumer_that_has_ended_is_replaced() {
    let book = Book::default();
    book.0.lock().unwrap().ends = true;
    run(&book);
    let pages = book.0.lock().unwrap();
    assert_eq!((pages.opened, pages.committed), (2, 3), "{:?}", pages.steps);
}

/// Its config was made a moment before its first document, and is on its way to the table still.
#[test]
fn a_client_that_the_table_does_not_know_yet_is_looked_up_before_it_is_skipped() {
    let book = Book::default();
    let value = r#"{"webhook":"http://hook.test/a"}"#;
    let config = read_value(&ClientId::new("a"), Status::Active, false, 1, 0, None, value);
    {
        let mut pages = book.0.lock().unwrap();
        pages.newer = Some(StoredConfig { config: Arc::new(config), value: value.to_owned() });
        pages.away = 2;
    }
    run(&book);
    let steps = book.steps();
    assert_eq!(
        steps[..4],
        ["not looked up", "not looked up", "looked up", "commit 1"],
        "nobody is skipped meanwhile"
    );
    assert!(book.0.lock().unwrap().routed >= 1, "{steps:?}");
}

#[test]
fn a_change_for_a_client_of_a_blocked_owner_is_skipped_and_counted_or_routed_to_be_held() {
    for (blocked, skipped) in [(WhenBlocked::Skip, 1), (WhenBlocked::Hold, 0)] {
        let book = Book::default();
        let (value, owner) = (r#"{"webhook":"http://hook.test/a"}"#, Some("bad".to_owned()));
        let config = read_value(&ClientId::new("a"), Status::Active, false, 1, 0, owner, value);
        {
            let mut pages = book.0.lock().unwrap();
            pages.stored = Some(StoredConfig { config: Arc::new(config), value: value.to_owned() });
            pages.blocked = vec![Decision::new(Subject::parse("bad").unwrap(), "ops", "", 0).unwrap()];
        }
        let metrics = run_with(&book, blocked);
        assert_eq!(metrics.skipped.with_label_values(&["owner_blocked"]).get(), skipped, "{blocked:?}");
        assert_eq!(metrics.routed.get(), 1 - skipped, "{blocked:?}");
    }
}
