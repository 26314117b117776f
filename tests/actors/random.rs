//! Random histories: everything that may happen to the service happens, in any order; then the world heals, the service
//! comes to rest, and the oracle judges.
//!
//! `SEED=17` runs one history, with its story on standard error; `SEEDS=1000..5000` many; `WITHOUT=crash,ingest` leaves
//! kinds of trouble out, to find the one that matters. (Hash maps and `select!` draw from elsewhere: a seed that failed
//! may need a few runs to fail again; `TIMES=20` does them, `TELL=1` with their stories.)

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

use dispatcher::domain::config::Status;
use dispatcher::domain::retry::{CanarySchedule, Pacing, RetrySchedule};
use fastrand::Rng;

use crate::receiver::{Act, Manner};
use crate::world::{Choices, Life, World};

/// Histories that every run of the tests tries.
const USUAL_SEEDS: std::ops::Range<u64> = 0..400;

/// When nothing waits any more there are no jobs after so long at most: one whose look failed may have the longest back-off of its queue.
pub(crate) const JOBS_GONE_WITHIN: Duration = Duration::from_secs(20 * 60);

/// No answer is waited for any longer.
pub(crate) const ANSWERED_WITHIN: Duration = Duration::from_secs(65);

/// While rows wait their job is seen after so long at most.
pub(crate) const JOB_WITHIN: Duration = Duration::from_secs(75);

const CLIENTS: [&str; 3] = ["a", "d", "b"];
const DOCUMENTS: [&str; 4] = ["1", "2", "3", "4"];
pub(crate) const STORES: [&str; 7] = ["stash", "log", "configs", "states", "decisions", "jobs", "locks"];
pub(crate) const KINDS: [&str; 7] =
    ["delivery", "ingest-transfer", "stash", "fleet", "config-cache", "ingest-source", "promoter"];

/// What a client's config may say.
const SETTINGS: [&str; 9] = [
    "",
    ",\"concurrency\":\"many\"",
    ",\"concurrency\":1",
    ",\"concurrency\":3,\"timeout_ms\":1000",
    ",\"rate_limit\":{\"max\":3,\"per_ms\":1000}",
    ",\"timeout_ms\":60000",
    ",\"ordering\":\"client\"",
    ",\"coalesce\":true",
    ",\"ordering\":\"client\",\"coalesce\":true,\"concurrency\":4",
];

#[test]
fn no_history_breaks_a_guarantee() {
    let wanted = Wanted::new(USUAL_SEEDS);
    wanted.each(|seed, told| History::new(seed, &wanted.without, told).run());
}

/// Which histories are wanted, by the environment.
pub(crate) struct Wanted {
    seeds: std::ops::Range<u64>,
    times: u64,
    /// One seed alone tells its story.
    told: bool,
    /// Kinds of trouble that are left out.
    pub(crate) without: String,
}

impl Wanted {
    pub(crate) fn new(usual: std::ops::Range<u64>) -> Self {
        let env = |name: &str| std::env::var(name).ok();
        let number = |text: &str| text.parse::<u64>().unwrap();
        let seeds = match (env("SEED"), env("SEEDS")) {
            (Some(seed), _) => number(&seed)..number(&seed) + 1,
            (None, Some(seeds)) => {
                let (from, to) = seeds.split_once("..").unwrap();
                number(from)..number(to)
            }
            (None, None) => usual,
        };
        let times = env("TIMES").map_or(1, |times| number(&times));
        let told = env("TELL").is_some() || (env("SEED").is_some() && times == 1);
        Self { seeds, times, told, without: env("WITHOUT").unwrap_or_default() }
    }

    /// Runs a history for each seed, and tells which failed.
    pub(crate) fn each(&self, run: impl Fn(u64, bool)) {
        let mut failed = Vec::new();
        for seed in self.seeds.clone() {
            for _ in 0..self.times {
                if std::panic::catch_unwind(AssertUnwindSafe(|| run(seed, self.told))).is_err() {
                    eprintln!("SEED={seed} failed");
                    failed.push(seed);
                }
            }
        }
        assert!(failed.is_empty(), "{} histories failed: {failed:?}", failed.len());
    }
}

fn some_act(rng: &mut Rng, without: &str) -> Act {
    let done = rng.bool();
    let with = |trouble: &str| !without.split(',').any(|without| without == trouble);
    match rng.u8(0..17) {
        0..5 => Act::Ok,
        5 | 6 => Act::Status(500),
        7 => Act::Status(422),
        8 => Act::Status(401),
        9 => Act::Wait(429, rng.u32(0..30)),
        10 | 11 => Act::DoneBut(503),
        12 => Act::Closed { done },
        13 if with("hang") => Act::Hang { done },
        14 if with("panic") => Act::Panic,
        15 if with("gone") => Act::Status(410),
        _ => Act::Ok,
    }
}

/// How a receiver might behave.
pub(crate) fn some_manner(rng: &mut Rng, without: &str, documents: &[&str]) -> Manner {
    let mut manner = match rng.u8(0..4) {
        0 => Manner::always(Act::Ok),
        1 => Manner::always(some_act(rng, without)),
        _ => Manner::mixed(vec![(6, Act::Ok), (2, some_act(rng, without)), (1, some_act(rng, without))]),
    };
    manner.latency_ms = match rng.u8(0..4) {
        0 => (0, 0),
        1 => (1, 20),
        2 => (100, 3_000),
        _ => (1_000, 20_000),
    };
    if rng.u8(0..8) == 0 && !without.split(',').any(|without| without == "connect") {
        // So long that a permission may end meanwhile.
        manner.connects_ms = rng.u64(0..40_000);
    }
    if rng.u8(0..4) == 0 {
        let document = documents[rng.usize(0..documents.len())];
        manner = manner.but(document, some_act(rng, without));
    }
    manner
}

/// The bounds of the service, drawn so that they are met.
pub(crate) fn some_choices(rng: &mut Rng) -> Choices {
    let mut choices = Choices { whole: true, ..Choices::default() };
    choices.limits.retry = RetrySchedule {
        base: Duration::from_secs(1),
        cap: Duration::from_secs(30),
        ..RetrySchedule::default()
    };
    choices.limits.payload_attempts = rng.u32(2..=10);
    if rng.bool() {
        choices.limits.client_records = rng.usize(1..=20);
    }
    if rng.bool() {
        // Rows come back a few at a time: a pass of the drain has many parts.
        choices.limits.client_bytes = rng.usize(1..=3_000);
    }
    if rng.bool() {
        choices.unsettled_per_partition = rng.usize(1..=50);
    }
    if rng.u8(0..4) == 0 {
        choices.memory_bytes = rng.usize(300..=5_000);
    }
    choices.batch = rng.usize(1..=40);
    choices.limits.insurance_after = Duration::from_millis([200, 2_000][rng.usize(0..2)]);
    choices.limits.idle_after = Duration::from_secs([1, 5, 30][rng.usize(0..3)]);
    if rng.bool() {
        // Webhooks are given up within the history.
        choices.limits.pacing = Pacing {
            canary: CanarySchedule {
                first: Duration::from_secs(1),
                every: Duration::from_secs(5),
                cap: Duration::from_secs(20),
                jitter: 0.2,
            },
            give_up: Duration::from_secs(rng.u64(60..=200)),
        };
    }
    choices
}

/// Clients that a document is for from now on. Nobody has a config for one of them.
pub(crate) fn some_clients(rng: &mut Rng, known: &[&str]) -> Vec<String> {
    let mut clients: Vec<_> =
        known.iter().filter(|_| rng.u8(0..3) == 0).map(|one| (*one).to_owned()).collect();
    if rng.u8(0..3) > 0 {
        clients.push(known[rng.usize(0..known.len())].to_owned());
    }
    if rng.u8(0..8) == 0 {
        clients.push("nobody".to_owned());
    }
    rng.shuffle(&mut clients);
    clients
}

/// Sometimes a store is slow, unreliable or away.
pub(crate) fn some_weather(rng: &mut Rng, world: &World) -> String {
    let store = STORES[rng.usize(0..STORES.len())];
    let latency = Duration::from_millis([0, 2, 50, 1_000][rng.usize(0..4)]);
    let flaky = if rng.u8(0..4) == 0 { 0.3 } else { 0.0 };
    let away = if rng.bool() { Duration::from_millis(rng.u64(1..20_000)) } else { Duration::ZERO };
    match store {
        "stash" => world.stash.behaves(latency, flaky, away),
        "log" => world.log.medium.behaves(latency, flaky, away),
        "configs" => world.configs.behaves(latency, flaky, away),
        "states" => world.states.behaves(latency, flaky, away),
        "decisions" => world.decisions.behaves(latency, flaky, away),
        "jobs" => world.jobs.behaves(latency, flaky, away),
        "locks" => world.locks.behaves(latency, flaky, away),
        _ => unreachable!(),
    }
    format!("{store}: latency {latency:?}, flaky {flaky}, away {away:?}")
}

/// A config for a client; nobody is told. Its webhook may move with it.
pub(crate) fn some_config(rng: &mut Rng, world: &World, client: &str) -> String {
    let settings = SETTINGS[rng.usize(0..SETTINGS.len())];
    let status = if rng.u8(0..4) == 0 { Status::Inactive } else { Status::Active };
    let moves = rng.u8(0..4) == 0;
    if moves {
        world.move_webhook(client);
    }
    world.configure(client, status, settings);
    format!("config of {client}: {status:?} {settings}, moves {moves}")
}

struct History {
    seed: u64,
    rng: Rng,
    world: Rc<World>,
    clients: usize,
    documents: usize,
    without: String,
    told: bool,
}

impl History {
    fn new(seed: u64, without: &str, told: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let choices = some_choices(&mut rng);
        Self {
            seed,
            world: Rc::new(World::with(seed, choices)),
            clients: rng.usize(1..=CLIENTS.len()),
            documents: rng.usize(1..=DOCUMENTS.len()),
            without: without.to_owned(),
            rng,
            told,
        }
    }

    #[expect(clippy::print_stderr, reason = "the story of one history, for who asks for it")]
    fn tell(&self, what: impl FnOnce() -> String) {
        if self.told {
            eprintln!("{:>10.3} {}", self.world.clock.elapsed().as_secs_f64(), what());
        }
    }

    fn with(&self, trouble: &str) -> bool {
        !self.without.split(',').any(|without| without == trouble)
    }

    fn client(&mut self) -> &'static str {
        CLIENTS[self.rng.usize(0..self.clients)]
    }

    fn document(&mut self) -> &'static str {
        DOCUMENTS[self.rng.usize(0..self.documents)]
    }

    fn run(mut self) {
        for client in &CLIENTS[..self.clients] {
            self.world.configure(client, Status::Active, "");
        }
        let world = self.world.clone();
        let lives = if self.with("crash") { self.rng.usize(1..=4) } else { 1 };
        for life in 1..=lives {
            self.tell(|| format!("life {life} begins"));
            world.life(async |process| {
                for _ in 0..self.rng.usize(1..40) {
                    self.step(process).await;
                }
                if life == lives {
                    self.heal(process).await;
                } else if self.rng.u8(0..4) == 0 {
                    self.tell(|| "it is stopped in order".to_owned());
                    let limit = Duration::from_secs(25);
                    let _ = tokio::time::timeout(limit, process.stop_in_order()).await;
                }
            });
        }
    }

    /// Something happens, and time passes.
    async fn step(&mut self, process: &Life<'_>) {
        match self.rng.u8(0..23) {
            0..8 => self.changes(),
            8..12 => self.manners(),
            12 | 13 if self.with("stores") => {
                let weather = some_weather(&mut self.rng, &self.world);
                self.tell(|| weather);
            }
            14 if self.with("restart") => self.restart(process),
            15 if self.with("panic") => self.panic(),
            16 | 17 if self.with("config") => self.config(process).await,
            22 if self.with("move") => self.moves(process).await,
            18 if self.with("block") => self.block(process).await,
            19 if self.with("replay") => self.replay(),
            20 if self.with("wipe") => {
                self.tell(|| "all jobs are lost".to_owned());
                self.world.jobs.data().wipe();
            }
            21 if self.with("thread") => {
                self.tell(|| "the thread of the delivery actors is lost".to_owned());
                process.lose_thread();
            }
            _ => {}
        }
        let ms = match self.rng.u8(0..10) {
            0..3 => 0,
            3..6 => self.rng.u64(0..20),
            6..9 => self.rng.u64(0..3_000),
            _ if self.rng.u8(0..5) == 0 => self.rng.u64(0..100_000),
            _ => self.rng.u64(0..15_000),
        };
        process.pass(Duration::from_millis(ms)).await;
    }

    fn changes(&mut self) {
        let most = if self.rng.u8(0..4) == 0 { 40 } else { 6 };
        let count = self.rng.usize(1..=most);
        self.tell(|| format!("{count} changes"));
        for _ in 0..count {
            let document = self.document();
            let clients = some_clients(&mut self.rng, &CLIENTS[..self.clients]);
            let rng = &mut self.rng;
            self.world.happens(|upstream, log, now_ms| upstream.change(log, document, clients, rng, now_ms));
        }
        if self.rng.u8(0..10) == 0 {
            self.world.happens(|upstream, log, now_ms| upstream.garbage(log, now_ms));
        }
    }

    fn replay(&mut self) {
        for _ in 0..self.rng.usize(1..=3) {
            let forced = self.rng.u8(0..3) == 0;
            let replayed = self.world.replay_any(forced, |count| self.rng.usize(0..count));
            self.tell(|| format!("replay of {replayed:?}, forced {forced}"));
        }
    }

    fn manners(&mut self) {
        let client = self.client();
        let manner = some_manner(&mut self.rng, &self.without, &DOCUMENTS[..self.documents]);
        self.tell(|| format!("{client} behaves {manner:?}"));
        self.world.receiver.behave(client, manner);
    }

    fn restart(&mut self, process: &Life<'_>) {
        let kind = KINDS[self.rng.usize(0..KINDS.len())];
        if !self.with(kind) {
            return;
        }
        let id = if kind == "delivery" { self.client() } else { "" };
        self.tell(|| format!("restart of {kind} {id}"));
        process.restart(kind, id);
    }

    fn panic(&mut self) {
        if self.rng.u8(0..3) == 0 {
            self.tell(|| "a sender will panic as it is opened".to_owned());
            self.world.receiver.book().panic_at_open = true;
        } else {
            let calls = self.rng.u64(0..60);
            self.tell(|| format!("an actor will panic after {calls} looks at the clock"));
            self.world.clock.panic_in(calls);
        }
    }

    async fn config(&mut self, process: &Life<'_>) {
        let client = self.client();
        let gone = self.with("gone") && self.rng.u8(0..10) == 0;
        let config = some_config(&mut self.rng, &self.world, client);
        self.tell(|| format!("{config}, gone {gone}"));
        if gone {
            process.delete_config(client).await;
            if self.rng.bool() {
                // It is back before all that was to be done is done.
                let ms = self.rng.u64(0..3_000);
                process.pass(Duration::from_millis(ms)).await;
                self.tell(|| format!("{client} is back"));
                process.configure(client, Status::Active, "").await;
            }
            return;
        }
        match self.rng.u8(0..4) {
            0 => {}
            1 => self.world.happens(|upstream, log, now_ms| upstream.config(log, client, now_ms)),
            _ => process.refresh(client).await,
        }
    }

    /// A client's webhook is another, or its order, while requests are on the wire; perhaps the old one comes back at once.
    async fn moves(&mut self, process: &Life<'_>) {
        let client = self.client();
        for _ in 0..self.rng.usize(1..=3) {
            self.changes();
            let ms = self.rng.u64(0..2_000);
            process.pass(Duration::from_millis(ms)).await;
            let settings = ["", ",\"ordering\":\"client\""][self.rng.usize(0..2)];
            if self.rng.bool() {
                self.world.move_webhook(client);
            }
            self.tell(|| format!("{client} moves: {settings}"));
            process.configure(client, Status::Active, settings).await;
        }
    }

    /// The owner of a client is blocked, or let go. While the process knows that he is blocked nothing begins to be sent to him.
    async fn block(&mut self, process: &Life<'_>) {
        let (client, blocked) = (self.client(), self.rng.u8(0..3) > 0);
        self.tell(|| format!("owner of {client}: blocked {blocked}"));
        if self.rng.u8(0..4) == 0 {
            self.world.block(client, blocked);
            return;
        }
        process.block(client, blocked).await;
        if blocked {
            let sent = |world: &World| world.receiver.book().of(client).count();
            let (before, connecting) = (sent(&self.world), self.world.receiver.book().connecting(client));
            let ms = self.rng.u64(0..20_000);
            process.pass(Duration::from_millis(ms)).await;
            let since = sent(&self.world) - before;
            assert!(since <= connecting, "SEED={}: sent although blocked", self.seed);
        }
    }

    /// Everything is well from now on: the service comes to rest, and nothing was lost or out of order.
    async fn heal(&mut self, process: &Life<'_>) {
        self.tell(|| "the world heals".to_owned());
        self.world.heal();
        // One that is gone may have said so just before: that counts.
        let healed_ms = self.world.clock.now_ms();
        process.within(ANSWERED_WITHIN, "answers", || self.world.is_answered(healed_ms)).await;
        process.pass(Duration::from_secs(1)).await;
        for client in &CLIENTS[..self.clients] {
            process.configure(client, Status::Active, "").await;
            process.block(client, false).await;
        }
        self.rest(process).await;
        if let Some(within) = self.world.switched_off_within().filter(|_| self.rng.bool()) {
            self.dies(process, within).await;
            self.rest(process).await;
        }
    }

    async fn rest(&self, process: &Life<'_>) {
        process.until(&format!("rest of SEED={}", self.seed), || self.world.is_at_rest()).await;
        // What is sent after it looks like rest would be wrong, too.
        process.pass(Duration::from_secs(200)).await;
        self.tell(|| "rest".to_owned());
        let wrong = self.world.judge();
        if !wrong.is_empty() {
            self.tell(|| self.world.receiver.book().tell());
        }
        assert!(self.world.is_at_rest() && wrong.is_empty(), "SEED={}: {wrong:#?}", self.seed);
        process.within(JOBS_GONE_WITHIN, "no jobs any more", || self.world.jobs.data().is_empty()).await;
    }

    /// One webhook dies for good, in a world that is well: that is seen, it is switched off, silent, and on again.
    async fn dies(&mut self, process: &Life<'_>, within: Duration) {
        let (client, world) = (self.client(), self.world.clone());
        self.tell(|| format!("{client} dies"));
        world.receiver.behave(client, Manner::always(Act::Status(503)));
        let job = format!("retry-{client}");
        let is_seen = || world.is_off(client) || world.jobs.data().has(&job);
        // Twice: of a deletion it may get nothing.
        for document in DOCUMENTS[..self.documents].iter().chain(&DOCUMENTS[..self.documents]) {
            let rng = &mut self.rng;
            world.happens(|upstream, log, now_ms| {
                upstream.change(log, document, vec![client.to_owned()], rng, now_ms);
            });
        }
        process.within(JOB_WITHIN, "the job is seen", is_seen).await;
        if self.rng.bool() {
            world.jobs.data().wipe();
            process.within(JOB_WITHIN, "the job is seen again", is_seen).await;
        }
        process.within(within, "it is switched off", || world.is_off(client)).await;
        self.tell(|| format!("{client} is off"));
        process.pass(Duration::from_secs(1)).await;
        let sent = world.receiver.book().of(client).count();
        process.pass(Duration::from_secs(100)).await;
        assert_eq!(world.receiver.book().of(client).count(), sent, "SEED={}: sent although off", self.seed);
        world.receiver.heal();
        process.configure(client, Status::Active, "").await;
    }
}
