//! The receivers of the webhooks: one a client, each with its manners, and a book of every request.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use dispatcher::domain::delivery::{Answer, NoAnswer, WebhookRequest};
use dispatcher::ports::LocalBoxFuture;
use dispatcher::ports::webhook_sender::{MayStart, SendError, WebhookSender, WebhookSenders};
use fastrand::Rng;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::time::{SimClock, T0_MS};

/// The longest that a request takes to its receiver, where several processes send.
const ON_ITS_WAY: Duration = Duration::from_millis(300);

/// Whether a process may start a request for this client now; what is wrong with it otherwise.
pub(crate) type MaySend = dyn Fn(&str) -> Option<String> + Send + Sync;

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Act {
    /// Worked on, and answered with 200.
    Ok,
    /// Not worked on.
    Status(u16),
    /// Not worked on: `Retry-After` so many seconds.
    Wait(u16, u32),
    /// Worked on, and answered with an error all the same.
    DoneBut(u16),
    /// Closed without an answer; worked on or not.
    Closed { done: bool },
    /// No answer within the time-out; worked on or not.
    Hang { done: bool },
    /// The sender itself breaks.
    Panic,
    /// The sender itself never comes to an end, whatever its time-out.
    Endless,
}

/// How a receiver behaves.
#[derive(Debug, Clone)]
pub(crate) struct Manner {
    /// From request to answer, milliseconds.
    pub(crate) latency_ms: (u64, u64),
    /// Before the request: to the connection, milliseconds.
    pub(crate) connects_ms: u64,
    /// Each with its weight.
    pub(crate) acts: Vec<(u32, Act)>,
    /// What becomes of the changes of a document, whatever the others get.
    pub(crate) documents: HashMap<String, Act>,
}

impl Manner {
    pub(crate) fn always(act: Act) -> Self {
        Self::mixed(vec![(1, act)])
    }

    pub(crate) fn mixed(acts: Vec<(u32, Act)>) -> Self {
        Self { latency_ms: (1, 20), connects_ms: 0, acts, documents: HashMap::new() }
    }

    pub(crate) fn slow(mut self, from: u64, to: u64) -> Self {
        self.latency_ms = (from, to);
        self
    }

    pub(crate) fn connects_in(mut self, ms: u64) -> Self {
        self.connects_ms = ms;
        self
    }

    pub(crate) fn but(mut self, document: &str, act: Act) -> Self {
        self.documents.insert(document.to_owned(), act);
        self
    }
}

/// A request as the receiver saw it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) life: u32,
    pub(crate) client: String,
    pub(crate) document: String,
    pub(crate) event: String,
    pub(crate) offset: i64,
    pub(crate) body: Bytes,
    pub(crate) started_ms: i64,
    pub(crate) ended_ms: Option<i64>,
    /// Answered with 2xx.
    pub(crate) acknowledged: bool,
    /// What the answer said, if there was one.
    pub(crate) status: Option<u16>,
    /// Where it went.
    pub(crate) webhook: Option<url::Url>,
    /// It said that it is a replay.
    pub(crate) replayed: bool,
}

#[derive(Default)]
pub(crate) struct Book {
    pub(crate) requests: Vec<Request>,
    /// What was worked on, in that order: indexes of `requests`.
    pub(crate) arrivals: Vec<usize>,
    /// What must never be.
    pub(crate) violations: Vec<String>,
    manners: HashMap<String, Manner>,
    /// Requests that have no connection yet, by client.
    connecting: HashMap<String, usize>,
    /// When requests were given up that never had one, with their clients.
    pub(crate) unconnected: Vec<(String, i64)>,
    rng: Rng,
    lives: u32,
    /// The next sender that is opened panics.
    pub(crate) panic_at_open: bool,
}

pub(crate) struct Receiver {
    clock: Arc<SimClock>,
    book: Mutex<Book>,
}

impl Receiver {
    pub(crate) fn new(clock: Arc<SimClock>, seed: u64) -> Arc<Self> {
        let book = Book { rng: Rng::with_seed(seed), ..Book::default() };
        Arc::new(Self { clock, book: Mutex::new(book) })
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    pub(crate) fn behave(&self, client: &str, manner: Manner) {
        self.book().manners.insert(client.to_owned(), manner);
    }

    pub(crate) fn heal(&self) {
        let mut book = self.book();
        book.manners.clear();
        book.panic_at_open = false;
    }

    /// The senders of a new process.
    pub(crate) fn new_life(self: &Arc<Self>) -> SimSenders {
        let mut book = self.book();
        book.lives += 1;
        SimSenders { receiver: self.clone(), life: book.lives, server: None, may_send: None }
    }
}

impl Book {
    /// The requests that are on the wire.
    pub(crate) fn open(&self, client: &str) -> usize {
        self.of(client).filter(|request| request.ended_ms.is_none()).count()
    }

    pub(crate) fn of<'a>(&'a self, client: &'a str) -> impl DoubleEndedIterator<Item = &'a Request> {
        self.requests.iter().filter(move |request| request.client == client)
    }

    /// What arrived of a document, in that order, by the changes' numbers in their bodies.
    pub(crate) fn arrived(&self, client: &str, document: &str) -> Vec<u64> {
        let arrivals = self.arrivals.iter().map(|index| &self.requests[*index]);
        let mine = arrivals.filter(|request| request.client == client && request.document == document);
        mine.map(|request| version(&request.body)).collect()
    }

    /// For people: every request, and when it was worked on.
    pub(crate) fn tell(&self) -> String {
        let mut text = String::new();
        for (index, request) in self.requests.iter().enumerate() {
            let place = self.arrivals.iter().position(|arrival| *arrival == index);
            let Request { life, client, document, offset, started_ms, ended_ms, acknowledged, .. } = request;
            let (from, to) = (started_ms - T0_MS, ended_ms.map(|ended| ended - T0_MS));
            text += &format!(
                "life {life} {client}/{document} {offset}: {from}..{to:?} arrival {place:?} ok {acknowledged}\n"
            );
        }
        text
    }

    /// Requests of a client that have no connection yet: they may begin when it is there.
    pub(crate) fn connecting(&self, client: &str) -> usize {
        self.connecting.get(client).copied().unwrap_or(0)
    }

    /// How long it takes to connect to a client's receiver.
    fn connects_in(&self, client: &str) -> Duration {
        Duration::from_millis(self.manners.get(client).map_or(0, |manner| manner.connects_ms))
    }

    fn begin(&mut self, life: u32, request: &WebhookRequest, now_ms: i64) -> (usize, Act, u64) {
        let header = |name: &str| {
            let found = request.headers.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let client = request.url.path().trim_start_matches('/').to_owned();
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        let document = body["id"].as_str().unwrap().to_owned();
        let sequence = header("webhook-sequence");
        let offset: i64 = sequence.rsplit('-').next().unwrap().parse().unwrap();
        let overlaps = self.requests.iter().rev().take(2_000).find(|other| {
            other.ended_ms.is_none()
                && other.life == life
                && other.client == client
                && other.document == document
        });
        if let Some(other) = overlaps {
            let text = format!(
                "{client}/{document}: {offset} started at {now_ms} while {} is unanswered",
                other.offset
            );
            self.violations.push(text);
        }
        self.requests.push(Request {
            life,
            client: client.clone(),
            document: document.clone(),
            event: header("webhook-id"),
            offset,
            body: request.body.clone(),
            started_ms: now_ms,
            ended_ms: None,
            acknowledged: false,
            status: None,
            webhook: Some(request.url.clone()),
            replayed: header("webhook-replay") == "true",
        });
        let polite = Manner::always(Act::Ok);
        let manner = self.manners.get(&client).unwrap_or(&polite);
        let total: u32 = manner.acts.iter().map(|(weight, _)| weight).sum();
        let mut pick = self.rng.u32(0..total);
        let drawn = manner.acts.iter().find(|(weight, _)| {
            let hit = pick < *weight;
            pick = pick.saturating_sub(*weight);
            hit
        });
        let act = manner.documents.get(&document).copied().unwrap_or(drawn.unwrap().1);
        let latency_ms = self.rng.u64(manner.latency_ms.0..=manner.latency_ms.1);
        (self.requests.len() - 1, act, latency_ms)
    }
}

/// The number of a change, as its body says.
pub(crate) fn version(body: &[u8]) -> u64 {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap();
    let image = |name: &str| body[name]["v"].as_u64();
    body["v"].as_u64().or(image("after")).or(image("before")).unwrap()
}

/// A request on the wire. The receiver and the sender each hold an end of it.
struct Wire {
    receiver: Arc<Receiver>,
    index: usize,
    state: Mutex<WireState>,
}

#[derive(Default)]
struct WireState {
    arrived: bool,
    done: bool,
}

impl Wire {
    /// The receiver works on it, unless the connection is gone.
    fn arrive(&self) {
        let mut state = self.state.lock().unwrap();
        if !state.done && !state.arrived {
            state.arrived = true;
            self.receiver.book().arrivals.push(self.index);
        }
    }

    fn end(&self, status: Option<u16>) {
        let mut state = self.state.lock().unwrap();
        if !state.done {
            state.done = true;
            let now_ms = self.receiver.clock.now_ms();
            let mut book = self.receiver.book();
            book.requests[self.index].ended_ms = Some(now_ms);
            book.requests[self.index].status = status;
            book.requests[self.index].acknowledged = status == Some(200);
        }
    }
}

/// A request that has no connection yet.
struct Connecting {
    receiver: Arc<Receiver>,
    client: String,
}

impl Connecting {
    fn new(receiver: &Arc<Receiver>, client: String) -> Self {
        *receiver.book().connecting.entry(client.clone()).or_default() += 1;
        Self { receiver: receiver.clone(), client }
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        *self.receiver.book().connecting.entry(self.client.clone()).or_default() -= 1;
    }
}

/// The sender's end: dropped with the connection.
struct SendersEnd(Arc<Wire>);

impl Drop for SendersEnd {
    fn drop(&mut self) {
        // The receiver may have got it just then.
        if self.0.receiver.book().rng.bool() {
            self.0.arrive();
        }
        self.0.end(None);
    }
}

/// The senders of one process.
pub(crate) struct SimSenders {
    receiver: Arc<Receiver>,
    life: u32,
    /// Where the receivers run, when that is not where the process does.
    server: Option<Handle>,
    may_send: Option<Arc<MaySend>>,
}

impl SimSenders {
    /// The receivers run elsewhere, and it is looked whether each request may start.
    pub(crate) fn watched(self, server: Handle, may_send: Arc<MaySend>) -> Self {
        Self { server: Some(server), may_send: Some(may_send), ..self }
    }
}

impl WebhookSenders for SimSenders {
    fn open(&self) -> Rc<dyn WebhookSender> {
        let panics = std::mem::take(&mut self.receiver.book().panic_at_open);
        assert!(!panics, "a panic of the simulation");
        Rc::new(SimSender {
            receiver: self.receiver.clone(),
            life: self.life,
            server: self.server.clone(),
            may_send: self.may_send.clone(),
        })
    }
}

struct SimSender {
    receiver: Arc<Receiver>,
    life: u32,
    server: Option<Handle>,
    may_send: Option<Arc<MaySend>>,
}

impl SimSender {
    /// The receiver's end.
    async fn work(
        wire: Arc<Wire>,
        act: Act,
        arrives: Duration,
        answers: Duration,
        answer: oneshot::Sender<()>,
    ) {
        let start = Instant::now();
        tokio::time::sleep_until(start + arrives).await;
        if matches!(act, Act::Ok | Act::DoneBut(_) | Act::Closed { done: true } | Act::Hang { done: true }) {
            wire.arrive();
        }
        if matches!(act, Act::Hang { .. }) {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(start + answers).await;
        let _ = answer.send(());
    }
}

impl WebhookSender for SimSender {
    fn send(
        &self,
        request: WebhookRequest,
        may_start: MayStart,
    ) -> LocalBoxFuture<'static, Option<Result<Answer, SendError>>> {
        let (receiver, life) = (self.receiver.clone(), self.life);
        let elsewhere = self.server.is_some();
        let server = self.server.clone();
        let may_send = self.may_send.clone();
        Box::pin(async move {
            let client = request.url.path().trim_start_matches('/').to_owned();
            let connects_in = receiver.book().connects_in(&client);
            if !connects_in.is_zero() {
                let _connecting = Connecting::new(&receiver, client.clone());
                tokio::time::sleep(connects_in.min(request.timeout)).await;
            }
            if connects_in >= request.timeout {
                let ended_ms = receiver.clock.now_ms();
                receiver.book().unconnected.push((client, ended_ms));
                return Some(Err(no_answer(NoAnswer::Timeout)));
            }
            if !may_start() {
                return None;
            }
            if let Some(may_send) = may_send
                && let Some(wrong) = may_send(request.url.path().trim_start_matches('/'))
            {
                receiver.book().violations.push(format!("life {life}: {wrong}"));
            }
            let now_ms = receiver.clock.now_ms();
            let (index, act, latency_ms) = receiver.book().begin(life, &request, now_ms);
            if act == Act::Endless {
                receiver.book().requests[index].ended_ms = Some(now_ms); // nothing is on the wire
                return std::future::pending().await;
            }
            let wire = Arc::new(Wire { receiver, index, state: Mutex::default() });
            let end = SendersEnd(wire.clone());
            let latency = Duration::from_millis(latency_ms);
            // A request that is long on its way may come after what another process sends: that is out of any sender's reach.
            let arrives = if elsewhere { (latency / 2).min(ON_ITS_WAY) } else { latency / 2 };
            let (answer, answered) = oneshot::channel();
            let work = Self::work(wire.clone(), act, arrives, latency, answer);
            let working = server.unwrap_or_else(Handle::current).spawn(work);
            let in_time = tokio::time::timeout(request.timeout - connects_in, answered).await;
            working.abort();
            if in_time.is_err() {
                wire.end(None);
                return Some(Err(no_answer(NoAnswer::Timeout)));
            }
            let answer = |status, retry_after| Ok(Answer { status, retry_after, excerpt: Bytes::new() });
            let result = match act {
                Act::Ok => answer(200, None),
                Act::Status(status) | Act::DoneBut(status) => answer(status, None),
                Act::Wait(status, seconds) => answer(status, Some(seconds.to_string())),
                Act::Closed { .. } => Err(no_answer(NoAnswer::Closed)),
                Act::Hang { .. } => Err(no_answer(NoAnswer::Closed)),
                Act::Panic => panic!("a panic of the simulation"),
                Act::Endless => unreachable!("it has not begun"),
            };
            wire.end(result.as_ref().ok().map(|answer: &Answer| answer.status));
            drop(end);
            Some(result)
        })
    }
}

fn no_answer(reason: NoAnswer) -> SendError {
    SendError { reason, detail: "as told".to_owned() }
}
