//! Snapshots of a small world.

mod replicas;

use std::collections::HashMap;
use std::time::Instant as Wall;

use super::*;
use crate::actors::config_cache::{ConfigSnapshot, ConfigTableWriter, config_table};
use crate::actors::delivery_fleet::DELIVERY_KIND;
use crate::domain::client_state::{ClientState, Phase};
use crate::domain::config::{ClientId, Status, read_value};
use crate::domain::decision::{Decision, Subject};
use crate::domain::guard::{Decided, DecisionList};
use crate::domain::stash::Backlog;
use crate::ports::client_configs::StoredConfig;

const NOW: i64 = 1_764_435_600_000;
const GIVE_UP: Duration = Duration::from_secs(3 * 86_400);

fn replica(name: &str) -> ReplicaName {
    ReplicaName::parse(name).unwrap()
}

/// What a dashboard looks at.
struct World {
    here: ReplicaName,
    now_ms: i64,
    writer: ConfigTableWriter,
    configs: ConfigTable,
    meters: Meters,
    registry: Registry,
    gathered: Gathered,
    others: Others,
    memory: Memory,
    shown: Vec<Arc<ClientView>>,
    /// Those that were others in the last look than in the one before, and those that were gone.
    changed: Vec<Arc<ClientView>>,
    gone: Vec<ClientId>,
    took: Duration,
}

impl World {
    fn of(clients: &[(&str, Status, &str)]) -> Self {
        let (writer, configs) = config_table();
        let stored = clients.iter().map(|(client, status, value)| {
            let config =
                read_value(&ClientId::new(client), *status, false, 1, 0, Some("ann".to_owned()), value);
            StoredConfig { config: Arc::new(config), value: (*value).to_owned() }
        });
        writer.put(None, stored.collect(), 0);
        let (meters, registry) = (Meters::default(), Registry::default());
        let (gathered, others, memory) = (Gathered::default(), Others::default(), Memory::default());
        Self {
            here: replica("here"),
            now_ms: NOW,
            writer,
            configs,
            meters,
            registry,
            gathered,
            others,
            memory,
            shown: Vec::new(),
            changed: Vec::new(),
            gone: Vec::new(),
            took: Duration::ZERO,
        }
    }

    /// The actor of a client starts.
    fn serve(&self, client: &str) -> Cell {
        let cell = Cell::new(DELIVERY_KIND, client);
        self.registry.insert(cell.clone());
        self.meters.of(&ClientId::new(client)).state_is(&ClientState::new(NOW));
        cell
    }

    fn deliver(&self, client: &str, ms: u64) {
        let meter = self.meters.of(&ClientId::new(client));
        self.meters.delivered(&meter, Duration::from_millis(ms), Duration::from_millis(ms * 3), NOW);
    }

    fn look(&mut self) -> Snapshot {
        let configs: ConfigSnapshot = self.configs.snapshot();
        let started = Wall::now();
        let snapshot = self.memory.look(&Inputs {
            here: &self.here,
            about: About::default(),
            others: &self.others,
            now_ms: self.now_ms,
            seconds: 1.0,
            configs: &configs,
            meters: &self.meters,
            registry: &self.registry,
            gathered: &self.gathered,
            give_up: GIVE_UP,
        });
        self.took = started.elapsed();
        let before = std::mem::replace(&mut self.shown, snapshot.clients.clone());
        let is_known = |client: &&Arc<ClientView>| {
            before
                .binary_search_by(|known| known.client.cmp(&client.client))
                .is_ok_and(|place| Arc::ptr_eq(&before[place], client))
        };
        self.changed = snapshot.clients.iter().filter(|client| !is_known(client)).cloned().collect();
        let is_gone = |client: &&Arc<ClientView>| snapshot.client(client.client.as_str()).is_none();
        self.gone = before.iter().filter(is_gone).map(|client| client.client.clone()).collect();
        snapshot
    }
}

const HOOK: &str = r#"{"webhook": "https://hooks.test:8443/secret?token=1"}"#;

fn client<'a>(snapshot: &'a Snapshot, id: &str) -> &'a ClientView {
    snapshot.clients.iter().find(|view| view.client.as_str() == id).unwrap()
}

fn ids<T: AsRef<ClientView>>(views: &[T]) -> Vec<&str> {
    views.iter().map(|view| view.as_ref().client.as_str()).collect()
}

#[test]
fn a_client_that_nobody_serves_is_what_its_config_says() {
    let mut world = World::of(&[
        ("faulty", Status::Active, r#"{"webhook": 7}"#),
        ("off", Status::Inactive, HOOK),
        ("paused", Status::Active, HOOK),
        ("rests", Status::Active, HOOK),
    ]);
    let paused = Decision::new(Subject::parse("paused").unwrap(), "ann", "", 0).unwrap();
    world.writer.decide(Decided { paused: DecisionList::new([paused]), ..Decided::default() });
    let snapshot = world.look();
    assert_eq!(ids(&snapshot.clients), ["faulty", "off", "paused", "rests"]);
    let phases: Vec<_> = snapshot.clients.iter().map(|view| (view.phase, view.reason.as_str())).collect();
    assert_eq!(phases[0].0, Phase::Disabled);
    assert!(phases[0].1.contains("webhook"), "{phases:?}");
    assert_eq!(phases[1], (Phase::Disabled, "config is not active"));
    assert_eq!(phases[2], (Phase::Paused, "paused by ann"));
    assert_eq!(phases[3], (Phase::Healthy, ""));
    assert_eq!(snapshot.overview.clients.problems, 1, "one that is off or paused by intent is none");
    let shown = serde_json::to_string(&*snapshot.clients[3]).unwrap();
    assert!(shown.contains("https://hooks.test:8443"), "{shown}");
    assert!(!shown.contains("secret") && !shown.contains("token"), "{shown}");
}

#[test]
fn what_its_actor_says_wins_over_what_is_stored() {
    let mut world = World::of(&[("a", Status::Active, HOOK), ("b", Status::Active, HOOK)]);
    let degraded = ClientState {
        phase: Phase::Degraded,
        since_ms: NOW - 5_000,
        reason: "status_503".to_owned(),
        next_attempt_at_ms: Some(NOW + 3_000),
        failing_since_ms: Some(NOW - 60_000),
        ..ClientState::new(NOW)
    };
    let stored = ["a", "b"].map(|id| (ClientId::new(id), degraded.clone()));
    world.gathered.states = Arc::new(stored.into());
    let cell = world.serve("a");
    world.meters.of(&ClientId::new("a")).holds(3, 9, Some(NOW - 7_000));
    let snapshot = world.look();
    assert_eq!(client(&snapshot, "a").phase, Phase::Healthy);
    assert_eq!((client(&snapshot, "a").in_flight, client(&snapshot, "a").queued), (3, 9));
    assert_eq!(client(&snapshot, "a").oldest_ts_ms, Some(NOW - 7_000), "what waits in memory");
    assert_eq!(snapshot.overview.stash.oldest_ts_ms, None, "is not in the stash");
    world.meters.of(&ClientId::new("a")).holds(3, 9, Some(NOW - 6_000));
    assert_eq!(client(&world.look(), "a").oldest_ts_ms, Some(NOW - 6_000));
    let elsewhere = client(&snapshot, "b");
    assert_eq!((elsewhere.phase, elsewhere.next_attempt_at_ms), (Phase::Degraded, Some(NOW + 3_000)));
    assert_eq!(elsewhere.disable_at_ms, Some(NOW - 60_000 + GIVE_UP.as_millis() as i64));
    assert_eq!(elsewhere.actor, None);

    // Its actor goes, and nothing is on the wire any more.
    cell.stop();
    assert!(world.registry.forget(DELIVERY_KIND, "a"));
    let snapshot = world.look();
    assert_eq!(client(&snapshot, "a").phase, Phase::Degraded);
    assert_eq!((client(&snapshot, "a").in_flight, client(&snapshot, "a").oldest_ts_ms), (0, None));
    assert_eq!(ids(&world.changed), ["a"]);
}

#[test]
fn only_what_changed_is_told_again() {
    let mut world = World::of(&[("a", Status::Active, HOOK), ("b", Status::Active, HOOK)]);
    world.look();
    assert_eq!(ids(&world.changed), ["a", "b"]);
    world.look();
    assert!(world.changed.is_empty());
    world.serve("b");
    world.deliver("b", 20);
    let snapshot = world.look();
    assert_eq!(ids(&world.changed), ["b"]);
    assert!(client(&snapshot, "b").rate > 0.0);
    assert!((15.0..25.0).contains(&client(&snapshot, "b").latency.unwrap().p50));
    assert_eq!(snapshot.overview.success_share, Some(1.0));
    assert!(snapshot.overview.age_ms.unwrap().p50 > snapshot.overview.answer_ms.unwrap().p50);

    world.writer.put(Some(&[ClientId::new("a")]), Vec::new(), 0);
    let snapshot = world.look();
    assert_eq!(world.gone, [ClientId::new("a")]);
    assert_eq!(ids(&snapshot.clients), ["b"]);
    world.look();
    assert!(world.gone.is_empty());
}

#[test]
fn what_nobody_touches_is_seen_to_grow_old() {
    let mut world = World::of(&[("a", Status::Active, HOOK)]);
    world.look();
    let cell = world.serve("a");
    world.deliver("a", 20);
    let minutes = |world: &mut World, looks: usize| {
        (0..looks).for_each(|_| drop(world.look()));
        client(&world.look(), "a").minutes_so_far()
    };
    assert_eq!(minutes(&mut world, 1), [(1, 0)], "the first one runs");
    assert_eq!(minutes(&mut world, 60), [(1, 0), (0, 0)]);
    assert_eq!(minutes(&mut world, 50 * 60).len(), 52);
    assert_eq!(minutes(&mut world, 10 * 60), [], "an hour without anything");

    cell.stop();
    assert!(world.registry.forget(DELIVERY_KIND, "a"));
    assert_eq!(client(&world.look(), "a").actor, None);
    let paused = Decision::new(Subject::parse("a").unwrap(), "ann", "", 0).unwrap();
    world.writer.decide(Decided { paused: DecisionList::new([paused]), ..Decided::default() });
    assert_eq!(client(&world.look(), "a").phase, Phase::Paused);
    world.writer.decide(Decided::default());
    assert_eq!(client(&world.look(), "a").phase, Phase::Healthy);
}

#[test]
fn a_client_without_a_config_is_shown_while_something_waits_for_it() {
    let mut world = World::of(&[]);
    let backlog = Backlog { pending: 0, dead: 7, ..Backlog::default() };
    world.gathered.backlogs = Arc::new(HashMap::from([(ClientId::new("gone"), backlog)]));
    let snapshot = world.look();
    assert_eq!((client(&snapshot, "gone").phase, client(&snapshot, "gone").dead), (Phase::Disabled, 7));
    assert_eq!(snapshot.overview.stash.dead, 7);
    world.gathered.backlogs = Arc::default();
    world.look();
    assert_eq!(world.gone, [ClientId::new("gone")]);
}

#[test]
fn the_hour_has_a_point_each_ten_seconds_and_no_more_than_its_length() {
    let mut world = World::of(&[("a", Status::Active, HOOK)]);
    world.serve("a");
    let mut last = Snapshot::default();
    for _ in 0..(360 * 10 + 25) {
        world.deliver("a", 5);
        last = world.look();
    }
    assert_eq!(last.hour.len(), 360);
    assert!(
        last.hour.iter().all(|point| point.rate == 1.0 && point.failure_rate == 0.0),
        "{:?}",
        last.hour[0]
    );
    assert_eq!(client(&last, "a").minutes.len(), 60);
    assert!(client(&last, "a").minutes.iter().all(|minute| *minute == (60, 0)));
}

#[test]
fn what_needs_to_be_looked_at_comes_first() {
    let mut world = World::of(&[
        ("busy", Status::Active, HOOK),
        ("dead", Status::Active, HOOK),
        ("idle", Status::Active, HOOK),
        ("off", Status::Inactive, HOOK),
    ]);
    let mut failing = ClientState::new(NOW);
    failing.phase = Phase::Degraded;
    failing.reason = "connect".to_owned();
    world.gathered.states = Arc::new(HashMap::from([(ClientId::new("dead"), failing)]));
    world.serve("busy");
    for _ in 0..50 {
        world.deliver("busy", 1);
    }
    let snapshot = world.look();
    let find = |query: ClientQuery| {
        let page = query.find(&snapshot.clients, 10);
        (ids(&page.rows).into_iter().map(str::to_owned).collect::<Vec<_>>(), page.matched)
    };
    let all = ClientQuery::default();
    assert_eq!(find(all.clone()).0, ["dead", "off", "busy", "idle"]);
    let by_rate = ClientQuery { sort: ClientSort::Rate, ..all.clone() };
    assert_eq!(find(by_rate.clone()).0, ["busy", "dead", "idle", "off"]);
    assert_eq!(find(ClientQuery { reverse: true, ..by_rate }).0, ["off", "idle", "dead", "busy"]);
    let problems = ClientQuery { phase: Some(PhaseFilter::Problem), ..all.clone() };
    assert_eq!(find(problems).0, ["dead"]);
    let by_reason = ClientQuery { filter: Some("CONNECT".to_owned()), ..all.clone() };
    assert_eq!(find(by_reason), (vec!["dead".to_owned()], 1));
    let second = ClientQuery { offset: 1, ..all };
    assert_eq!(
        (second.find(&snapshot.clients, 2).rows.len(), second.find(&snapshot.clients, 2).matched),
        (2, 4)
    );
}

#[test]
fn ten_thousand_clients_cost_little() {
    let ids: Vec<String> = (0..10_000).map(|number| format!("64c0a1e0f1a2b3c4d5e{number:05}")).collect();
    let clients: Vec<_> = ids.iter().map(|id| (id.as_str(), Status::Active, HOOK)).collect();
    let mut world = World::of(&clients);
    ids.iter().for_each(|id| drop(world.serve(id)));
    world.look();
    let mut costs = Vec::new();
    for _ in 0..5 {
        ids.iter().for_each(|id| world.deliver(id, 7));
        world.look();
        costs.push(world.took);
        assert_eq!(world.changed.len(), 10_000);
    }
    costs.sort();
    let least = costs[0];
    println!("a snapshot of 10,000 busy clients: {least:?} (unoptimised builds are some ten times slower)");
    // A build with optimisations stays below 20 ms; this bound only catches what grows with the square.
    assert!(least < Duration::from_millis(if cfg!(debug_assertions) { 600 } else { 20 }), "{costs:?}");
}
