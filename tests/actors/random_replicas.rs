//! Random histories of several replicas: they crash, stand still for a while, are cut off from the coordinator, come and go,
//! while everything else happens that may happen. Then the world heals, and the oracle judges. Besides, each request is looked at
//! as it starts: only whom the group gives the partition sends, and only with a fresh proof.
//!
//! `SEED=17`, `SEEDS=1000..5000`, `TIMES=20` and `WITHOUT=crash,stop` as with `random`.

use std::time::Duration;

use dispatcher::domain::config::Status;
use fastrand::Rng;

use crate::cluster::{Cluster, Replica};
use crate::random::{
    ANSWERED_WITHIN, JOB_WITHIN, JOBS_GONE_WITHIN, KINDS, Wanted, some_choices, some_clients, some_config,
    some_manner, some_weather,
};
use crate::receiver::{Act, Manner};
use crate::world::{Choices, World};

/// Histories that every run of the tests tries.
const USUAL_SEEDS: std::ops::Range<u64> = 0..60;

/// A rule that is left out is missed by one of so many histories.
const MISSED_WITHIN: u64 = 400;

const CLIENTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const DOCUMENTS: [&str; 3] = ["1", "2", "3"];

/// More replicas than this do not run at once.
const REPLICAS: usize = 4;

#[test]
fn no_history_of_several_replicas_breaks_a_guarantee() {
    let wanted = Wanted::new(USUAL_SEEDS);
    wanted.each(|seed, told| run(seed, &wanted.without, told, |_| {}));
}

/// What the histories are good for: in a world without one of the rules some of them break.
#[test]
fn a_rule_that_is_left_out_is_missed() {
    let with = |change: fn(&mut Choices)| change;
    let worlds = [
        ("permission", with(|choices| choices.asks_permission = false)),
        ("epoch", with(|choices| choices.rules.fence = false)),
        ("committed offset", with(|choices| choices.rules.below_commit = false)),
        ("order of the log", with(|choices| choices.rules.log_order = false)),
        ("rows win", with(|choices| choices.rules.rows_win = false)),
        ("right to the source", with(|choices| choices.ingest_rules.fence = false)),
        ("one transaction", with(|choices| choices.ingest_rules.atomic = false)),
    ];
    for (rule, leave_out) in worlds {
        let breaks = |seed| {
            let history = || run(seed, "", false, leave_out);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(history)).is_err()
        };
        let seed = (0..MISSED_WITHIN).find(|seed| breaks(*seed));
        eprintln!("without {rule}: {seed:?}");
        assert!(seed.is_some(), "no history misses the rule: {rule}");
    }
}

struct History<'w> {
    seed: u64,
    rng: Rng,
    world: &'w World,
    cluster: Cluster<'w>,
    clients: usize,
    documents: usize,
    without: &'w str,
    told: bool,
}

fn run(seed: u64, without: &str, told: bool, change: impl FnOnce(&mut Choices)) {
    let mut rng = Rng::with_seed(seed);
    let mut choices = Choices { partitions: 4, ..some_choices(&mut rng) };
    change(&mut choices);
    let world = World::with(seed, choices);
    let turn = Duration::from_millis([2, 10, 30][rng.usize(0..3)]);
    let cluster = Cluster::new(&world, turn, seed ^ 6);
    let (clients, documents) = (rng.usize(1..=CLIENTS.len()), rng.usize(1..=DOCUMENTS.len()));
    History { seed, rng, world: &world, cluster, clients, documents, without, told }.run();
}

impl History<'_> {
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

    fn run(mut self) {
        for client in &CLIENTS[..self.clients] {
            self.world.configure(client, Status::Active, "");
        }
        for _ in 0..self.rng.usize(1..=3) {
            self.cluster.start();
        }
        for _ in 0..self.rng.usize(5..60) {
            self.step();
        }
        self.heal();
    }

    /// Something happens, and time passes.
    fn step(&mut self) {
        match self.rng.u8(0..32) {
            0..8 => self.changes(),
            8..11 => self.manners(),
            11 | 12 if self.with("stores") => {
                let weather = some_weather(&mut self.rng, self.world);
                self.tell(|| weather);
            }
            13 if self.with("restart") => self.restart(),
            14 if self.with("panic") => self.panic(),
            15 | 31 if self.with("config") => self.config(),
            16..26 => self.fault(),
            26 | 27 if self.with("replay") => self.replay(),
            28 if self.with("wipe") => {
                self.tell(|| "all jobs are lost".to_owned());
                self.world.jobs.data().wipe();
            }
            29 if self.with("block") => self.block(),
            30 if self.with("thread") => self.lose_thread(),
            _ => {}
        }
        let ms = match self.rng.u8(0..10) {
            0..3 => 0,
            3..6 => self.rng.u64(0..20),
            6..9 => self.rng.u64(0..3_000),
            _ if self.rng.u8(0..5) == 0 => self.rng.u64(0..60_000),
            _ => self.rng.u64(0..15_000),
        };
        self.cluster.pass(Duration::from_millis(ms));
    }

    fn changes(&mut self) {
        let most = if self.rng.u8(0..4) == 0 { 40 } else { 6 };
        let count = self.rng.usize(1..=most);
        self.tell(|| format!("{count} changes"));
        for _ in 0..count {
            let document = DOCUMENTS[self.rng.usize(0..self.documents)];
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
        let manner = some_manner(&mut self.rng, self.without, &DOCUMENTS[..self.documents]);
        self.tell(|| format!("{client} behaves {manner:?}"));
        self.world.receiver.behave(client, manner);
    }

    fn restart(&mut self) {
        let Some(index) = self.some_replica() else { return };
        let kind = KINDS[self.rng.usize(0..KINDS.len())];
        let id = if kind == "delivery" { self.client() } else { "" };
        let replica = &self.cluster.replicas[index];
        self.tell(|| format!("restart of {kind} {id} of replica {}", replica.number));
        replica.life().restart(kind, id);
    }

    fn lose_thread(&mut self) {
        let Some(index) = self.some_replica() else { return };
        let replica = &self.cluster.replicas[index];
        self.tell(|| format!("the thread of the delivery actors of replica {} is lost", replica.number));
        replica.life().lose_thread();
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

    fn config(&mut self) {
        let client = self.client();
        let config = some_config(&mut self.rng, self.world, client);
        self.tell(|| config);
        if self.with("gone") && self.rng.u8(0..10) == 0 {
            self.tell(|| format!("{client} is gone"));
            self.world.delete_config(client);
            self.cluster.tell(client);
            let ms = self.rng.u64(0..3_000);
            self.cluster.pass(Duration::from_millis(ms));
            if self.rng.bool() {
                self.tell(|| format!("{client} is back"));
                self.world.configure(client, Status::Active, "");
            }
        }
        match self.rng.u8(0..4) {
            0 => {}
            1 => self.cluster.tell_missed(),
            2 => self.world.happens(|upstream, log, now_ms| upstream.config(log, client, now_ms)),
            _ => self.cluster.tell(client),
        }
    }

    fn block(&mut self) {
        let (client, blocked) = (self.client(), self.rng.u8(0..3) > 0);
        self.tell(|| format!("owner of {client}: blocked {blocked}"));
        match self.rng.u8(0..4) {
            0 => self.world.block(client, blocked),
            _ => self.cluster.block(client, blocked),
        }
    }

    fn some_replica(&mut self) -> Option<usize> {
        let count = self.cluster.replicas.len();
        (count > 0).then(|| self.rng.usize(0..count))
    }

    /// Something happens to a replica.
    fn fault(&mut self) {
        let (index, what) = (self.some_replica(), self.rng.u8(0..10));
        let Some(index) = index else { return self.start() };
        let replica = &self.cluster.replicas[index];
        let (number, stands, is_cut) = (replica.number, replica.stands(), replica.is_cut());
        match what {
            0 if self.with("crash") => {
                self.tell(|| format!("replica {number} crashes"));
                self.cluster.crash(index);
            }
            1 | 2 if self.cluster.replicas.len() < REPLICAS => self.start(),
            3 if self.with("order") && !stands => {
                self.tell(|| format!("replica {number} is stopped in order"));
                self.cluster.stop_in_order(index);
            }
            4..7 if self.with("stop") => {
                self.tell(|| format!("replica {number} {}", if stands { "goes on" } else { "stands still" }));
                match stands {
                    true => self.cluster.go_on(index),
                    false => self.cluster.stop(index),
                }
            }
            _ if self.with("cut") => {
                self.tell(|| format!("replica {number} is cut off: {}", !is_cut));
                self.cluster.cut(index, !is_cut);
            }
            _ => {}
        }
    }

    fn start(&mut self) {
        let index = self.cluster.start();
        self.tell(|| format!("replica {} starts", self.cluster.replicas[index].number));
    }

    /// Everything is well from now on: the service comes to rest, and nothing was lost or out of order.
    fn heal(&mut self) {
        self.tell(|| "the world heals".to_owned());
        self.world.heal();
        for index in 0..self.cluster.replicas.len() {
            self.cluster.go_on(index);
            self.cluster.cut(index, false);
        }
        if !self.cluster.replicas.iter().any(Replica::is_well) {
            self.start();
        }
        // One that is gone may have said so just before: that counts.
        let healed_ms = self.world.clock.now_ms();
        self.cluster.within(ANSWERED_WITHIN, "answers", |world| world.is_answered(healed_ms));
        self.cluster.pass(Duration::from_secs(1));
        for client in &CLIENTS[..self.clients] {
            self.world.configure(client, Status::Active, "");
            self.cluster.tell(client);
            self.cluster.block(client, false);
        }
        self.rest();
        if let Some(within) = self.world.switched_off_within().filter(|_| self.rng.bool()) {
            self.dies(within);
            self.rest();
        }
    }

    fn rest(&mut self) {
        self.cluster.until(&format!("rest of SEED={}", self.seed), World::is_at_rest);
        // What is sent after it looks like rest would be wrong, too.
        self.cluster.pass(Duration::from_secs(200));
        self.tell(|| "rest".to_owned());
        let wrong = self.world.judge();
        if !wrong.is_empty() {
            self.tell(|| self.world.receiver.book().tell());
        }
        assert!(self.world.is_at_rest() && wrong.is_empty(), "SEED={}: {wrong:#?}", self.seed);
        self.cluster.within(JOBS_GONE_WITHIN, "no jobs any more", |world| world.jobs.data().is_empty());
    }

    /// One webhook dies for good, in a world that is well: that is seen, it is switched off, silent, and on again.
    fn dies(&mut self, within: Duration) {
        let (client, world) = (self.client(), self.world);
        self.tell(|| format!("{client} dies"));
        world.receiver.behave(client, Manner::always(Act::Status(503)));
        let job = format!("retry-{client}");
        let is_seen = |world: &World| world.is_off(client) || world.jobs.data().has(&job);
        // Twice: of a deletion it may get nothing.
        for document in DOCUMENTS[..self.documents].iter().chain(&DOCUMENTS[..self.documents]) {
            let rng = &mut self.rng;
            world.happens(|upstream, log, now_ms| {
                upstream.change(log, document, vec![client.to_owned()], rng, now_ms);
            });
        }
        self.cluster.within(JOB_WITHIN, "the job is seen", is_seen);
        if self.rng.bool() {
            world.jobs.data().wipe();
            self.cluster.within(JOB_WITHIN, "the job is seen again", is_seen);
        }
        self.cluster.within(within, "it is switched off", |world| world.is_off(client));
        self.tell(|| format!("{client} is off"));
        self.cluster.pass(Duration::from_secs(1));
        let sent = world.receiver.book().of(client).count();
        self.cluster.pass(Duration::from_secs(100));
        assert_eq!(world.receiver.book().of(client).count(), sent, "SEED={}: sent although off", self.seed);
        world.receiver.heal();
        world.configure(client, Status::Active, "");
        self.cluster.tell(client);
    }
}
