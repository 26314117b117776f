use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::ready;

use super::*;
use crate::domain::delivery::{Answer, WebhookRequest};
use crate::domain::operational_event::{Happening, OperationalEvent, OperatorWebhook};
use crate::ports::BoxFuture;
use crate::ports::clock::SystemClock;
use crate::ports::locks::{Lease, Locks};
use crate::ports::operational_events::EventTopic;
use crate::ports::webhook_sender::{MayStart, SendError, WebhookSender, WebhookSenders};
use crate::runtime::{Kit, RestartPolicy, Supervised as Child, supervise};

use super::super::targets::{ToTopic, ToWebhook};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Events, readers and leases, in memory.
#[derive(Default)]
struct Store(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    events: i64,
    readers: HashMap<String, i64>,
    leases: HashMap<String, Lease>,
}

impl Store {
    fn happens(&self, count: i64) {
        lock(&self.0).events += count;
    }

    fn has_read(&self, name: &str) -> i64 {
        lock(&self.0).readers[name]
    }
}

impl OperationalEvents for Store {
    fn append(&self, events: Vec<OperationalEvent>) -> BoxFuture<'_, StoreResult<()>> {
        self.happens(events.len() as i64);
        ready(Ok(())).boxed()
    }

    fn list(&self, page: EventPage) -> BoxFuture<'_, StoreResult<Vec<NumberedEvent>>> {
        let first = page.after.unwrap_or(0) + 1;
        let last = lock(&self.0).events.min(first + page.limit as i64 - 1);
        let event = |id| NumberedEvent { id, event: OperationalEvent::new(Happening::Degraded, id) };
        ready(Ok((first..=last).map(event).collect())).boxed()
    }

    fn purge(&self, _: i64, _: u64) -> BoxFuture<'_, StoreResult<u64>> {
        ready(Ok(0)).boxed()
    }

    fn reader<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<i64>> {
        let mut kept = lock(&self.0);
        let newest = kept.events;
        ready(Ok(*kept.readers.entry(name.to_owned()).or_insert(newest))).boxed()
    }

    fn has_read<'a>(&'a self, name: &'a str, id: i64) -> BoxFuture<'a, StoreResult<()>> {
        lock(&self.0).readers.insert(name.to_owned(), id);
        ready(Ok(())).boxed()
    }
}

impl Locks for Store {
    fn acquire<'a>(&'a self, key: &'a str, _: i64) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let mut kept = lock(&self.0);
        let lease = Lease { key: key.to_owned(), token: 1 };
        let is_free = !kept.leases.contains_key(key);
        if is_free {
            kept.leases.insert(key.to_owned(), lease.clone());
        }
        ready(Ok(is_free.then_some(lease))).boxed()
    }

    fn renew<'a>(&'a self, _: &'a Lease, _: i64) -> BoxFuture<'a, StoreResult<bool>> {
        ready(Ok(true)).boxed()
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, StoreResult<()>> {
        lock(&self.0).leases.remove(&lease.key);
        ready(Ok(())).boxed()
    }
}

/// The numbers of the events that came.
#[derive(Default)]
struct Book {
    came: Mutex<Vec<i64>>,
    /// It takes nothing so often.
    refuses: Mutex<u32>,
}

impl EventTopic for Book {
    fn append(&self, events: Vec<NumberedEvent>) -> BoxFuture<'_, StoreResult<()>> {
        let mut refuses = lock(&self.refuses);
        if *refuses > 0 {
            *refuses -= 1;
            return ready(Err(StoreError::Unavailable("away".to_owned()))).boxed();
        }
        lock(&self.came).extend(events.iter().map(|event| event.id));
        ready(Ok(())).boxed()
    }
}

struct World {
    store: Arc<Store>,
    recorder: EventRecorder,
    metrics: Metrics,
}

impl World {
    fn new() -> Self {
        tokio::time::pause();
        let metrics = Metrics::new();
        Self { store: Arc::default(), recorder: EventRecorder::new(&metrics), metrics }
    }

    async fn start<T: Target>(
        &self,
        stop: &CancellationToken,
        target: impl FnOnce() -> T + Send + 'static,
    ) -> Child<ForwarderActor<T>> {
        let exclusive = Exclusive {
            locks: self.store.clone(),
            clock: Arc::new(SystemClock),
            metrics: self.metrics.clone(),
        };
        let forwarding = Forwarding {
            store: self.store.clone(),
            recorder: self.recorder.clone(),
            exclusive,
            retry: RetrySchedule::default(),
            metrics: self.metrics.clone(),
            stop: stop.clone(),
        };
        forwarding.introduce::<T>().await.unwrap();
        let kit = Kit::new(Arc::new(|_| {}), RestartPolicy::default());
        supervise(&kit, &Arbiter::current(), "event-forwarder", T::NAME, move |cell| {
            ForwarderActor::new(cell, forwarding, target())
        })
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..72_000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("not within two hours: {what}");
}

#[actix_rt::test]
async fn events_go_on_in_order_from_where_the_last_process_had_come_to() {
    let (world, book) = (World::new(), Arc::new(Book::default()));
    world.store.happens(3);
    for (_, more) in [(0, 250), (1, 2)] {
        let (stop, topic) = (CancellationToken::new(), book.clone());
        let forwarder = world.start(&stop, move || ToTopic(topic)).await;
        world.store.happens(more);
        let expected = lock(&world.store.0).events;
        until("all have come", || lock(&book.came).last() == Some(&expected)).await;
        stop.cancel();
        forwarder.cell.ended().await;
        assert_eq!(world.store.has_read("topic"), expected);
    }
    // What was there before the target was known is nobody's.
    assert_eq!(*lock(&book.came), (4..=255).collect::<Vec<i64>>());
    assert_eq!(world.metrics.operational_events_forwarded.with_label_values(&["topic"]).get(), 252);
}

#[actix_rt::test]
async fn a_target_that_is_away_is_tried_again_and_nothing_is_left_out() {
    let (world, book, stop) = (World::new(), Arc::new(Book::default()), CancellationToken::new());
    *lock(&book.refuses) = 4;
    let topic = book.clone();
    let _forwarder = world.start(&stop, move || ToTopic(topic)).await;
    world.store.happens(2);
    let began = tokio::time::Instant::now();
    until("all have come", || *lock(&book.came) == [1, 2]).await;
    // 5, 10, 20 and 40 s, moved by a fifth at most.
    assert!(began.elapsed() > Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(world.metrics.operational_event_failures.with_label_values(&["topic"]).get(), 4);
}

#[actix_rt::test]
async fn one_process_at_a_time_hands_on_and_the_next_takes_over() {
    let (world, book) = (World::new(), Arc::new(Book::default()));
    let stops = [CancellationToken::new(), CancellationToken::new()];
    let mut forwarders = Vec::new();
    for stop in &stops {
        let topic = book.clone();
        forwarders.push(world.start(stop, move || ToTopic(topic)).await);
    }
    world.store.happens(5);
    until("all have come", || lock(&book.came).len() == 5).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(*lock(&book.came), [1, 2, 3, 4, 5]);
    stops[0].cancel();
    forwarders[0].cell.ended().await;
    world.store.happens(1);
    until("the other takes over", || lock(&book.came).last() == Some(&6)).await;
    assert_eq!(lock(&book.came).len(), 6);
}

/// Answers by a list of statuses; then 200.
#[derive(Default)]
struct Operator {
    statuses: Mutex<Vec<u16>>,
    ids: Mutex<Vec<String>>,
}

struct Line(Arc<Operator>);

impl WebhookSenders for Line {
    fn open(&self) -> Rc<dyn WebhookSender> {
        Rc::new(Line(self.0.clone()))
    }
}

impl WebhookSender for Line {
    fn send(
        &self,
        request: WebhookRequest,
        _: MayStart,
    ) -> LocalBoxFuture<'static, Option<Result<Answer, SendError>>> {
        let id = request.headers.iter().find(|(name, _)| name == "webhook-id").unwrap().1.clone();
        lock(&self.0.ids).push(id);
        let status = lock(&self.0.statuses).pop().unwrap_or(200);
        let answer = Answer { status, retry_after: None, excerpt: Default::default() };
        Box::pin(ready(Some(Ok(answer))))
    }
}

#[actix_rt::test]
async fn the_operators_webhook_gets_each_under_one_id_and_one_that_it_refuses_holds_up_no_other_for_ever() {
    let (world, operator) = (World::new(), Arc::new(Operator::default()));
    // Popped from the end: 503, 410, ten times 422 for the second event, then 200.
    *lock(&operator.statuses) = [&[422; 10][..], &[200, 410, 503]].concat();
    let (stop, line) = (CancellationToken::new(), Line(operator.clone()));
    let webhook = OperatorWebhook {
        url: "https://ops.test/".parse().unwrap(),
        key: None,
        timeout: Duration::from_secs(15),
    };
    let _forwarder = world.start(&stop, move || ToWebhook::new(webhook, &line, Arc::new(SystemClock))).await;
    world.store.happens(3);
    until("the third has come", || lock(&operator.ids).last().is_some_and(|id| id == "op_3")).await;
    let expected: Vec<String> =
        [1; 3].into_iter().chain([2; 10]).chain([3]).map(|number| format!("op_{number}")).collect();
    assert_eq!(*lock(&operator.ids), expected);
}

/// Breaks with the first event that it sees.
struct Fragile(RefCell<bool>, Arc<Book>);

impl Target for Fragile {
    const NAME: &'static str = "fragile";

    fn take(&self, events: Vec<NumberedEvent>) -> LocalBoxFuture<'_, Result<usize, Refusal>> {
        assert!(self.0.replace(true), "a target that breaks");
        lock(&self.1.came).extend(events.iter().map(|event| event.id));
        Box::pin(ready(Ok(events.len())))
    }
}

#[actix_rt::test]
async fn a_forwarder_that_breaks_goes_on_with_what_it_had() {
    let (world, book, stop) = (World::new(), Arc::new(Book::default()), CancellationToken::new());
    let came = book.clone();
    let forwarder = world.start(&stop, move || Fragile(RefCell::new(false), came)).await;
    world.store.happens(2);
    until("it broke", || forwarder.cell.generation() == 1).await;
    // Its lease was not given back: this store never lets one expire.
    lock(&world.store.0).leases.clear();
    until("all have come", || *lock(&book.came) == [1, 2]).await;
}
