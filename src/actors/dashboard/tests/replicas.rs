//! Replicas that tell each other what they know.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::actors::dashboard::exchange::{exchange, rest};
use crate::actors::dashboard::part::{Base, ClientPart, NoPart, Now, Told};
use crate::ports::dashboard_parts::{LONGEST_PART, PartTexts};
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// Where they tell each other, in memory.
#[derive(Default)]
struct Board {
    parts: Mutex<BTreeMap<ReplicaName, PartTexts>>,
    is_away: Mutex<bool>,
}

impl Board {
    fn ask<T>(&self, answer: impl FnOnce(&mut BTreeMap<ReplicaName, PartTexts>) -> T) -> StoreResult<T> {
        if *self.is_away.lock().unwrap() {
            return Err(StoreError::Unavailable("away".to_owned()));
        }
        Ok(answer(&mut self.parts.lock().unwrap()))
    }

    fn text(&self, name: &str) -> PartTexts {
        self.parts.lock().unwrap()[&replica(name)].clone()
    }
}

impl DashboardParts for Board {
    fn publish<'a>(
        &'a self,
        replica: &'a ReplicaName,
        part: PartTexts,
        _: Duration,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(std::future::ready(self.ask(|parts| {
            let before = parts.remove(replica).and_then(|before| before.base);
            let base = part.base.or(before);
            let kept = base.is_some();
            parts.insert(replica.clone(), PartTexts { now: part.now, base });
            kept
        })))
    }

    fn others<'a>(
        &'a self,
        replica: &'a ReplicaName,
    ) -> BoxFuture<'a, StoreResult<Vec<(ReplicaName, String)>>> {
        let others = self.ask(|parts| {
            let others = parts.iter().filter(|(name, _)| *name != replica);
            others.map(|(name, part)| (name.clone(), part.now.clone())).collect()
        });
        Box::pin(std::future::ready(others))
    }

    fn base<'a>(&'a self, replica: &'a ReplicaName) -> BoxFuture<'a, StoreResult<Option<String>>> {
        Box::pin(std::future::ready(self.ask(|parts| parts.get(replica)?.base.clone())))
    }
}

/// A replica: its world, and what it has told.
struct Replica {
    name: ReplicaName,
    world: World,
    teller: Teller,
    snapshot: Snapshot,
}

impl Replica {
    fn of(name: &str, clients: &[(&str, Status, &str)]) -> Self {
        let mut world = World::of(clients);
        world.here = replica(name);
        Self { name: replica(name), world, teller: Teller::new(), snapshot: Snapshot::default() }
    }

    /// Looks, tells, and hears what the others have told before.
    async fn turn(&mut self, board: &Board) {
        self.snapshot = self.world.look();
        let texts = self.teller.write(&self.name, &self.snapshot, Instant::now());
        let exchanged = exchange(board, &self.name, texts, &self.world.others).await;
        let (heard, kept) = match exchanged {
            Ok((heard, kept, _)) => (Ok(heard), kept),
            Err(err) => (Err(err.to_string()), false),
        };
        if !kept {
            self.teller.base_is_lost();
        }
        self.world.others.hear(heard, Instant::now());
    }

    fn client(&self, id: &str) -> &ClientView {
        client(&self.snapshot, id)
    }
}

const CLIENTS: [(&str, Status, &str); 3] =
    [("a", Status::Active, HOOK), ("b", Status::Active, HOOK), ("c", Status::Active, HOOK)];

/// Two that have heard of each other.
async fn two(board: &Board) -> [Replica; 2] {
    let mut both = [Replica::of("one", &CLIENTS), Replica::of("two", &CLIENTS)];
    turns(&mut both, board).await;
    both
}

/// Each takes turns until both have heard what is so now, and show it.
async fn turns(both: &mut [Replica; 2], board: &Board) {
    for _ in 0..3 {
        for replica in both.iter_mut() {
            replica.turn(board).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn any_of_them_shows_the_whole() {
    let board = Board::default();
    let mut both = two(&board).await;
    let cell = both[0].world.serve("a");
    both[1].world.serve("b");
    both[1].world.registry.insert(Cell::new("stash", ""));
    turns(&mut both, &board).await;
    for _ in 0..10 {
        both[0].world.deliver("a", 8);
        both[1].world.deliver("b", 64);
    }
    both[1].world.meters.of(&ClientId::new("b")).failed("status_503", NOW);
    cell.restart("for the test");
    turns(&mut both, &board).await;
    for (replica, other) in [(&both[0], "two"), (&both[1], "one")] {
        let Snapshot { overview, .. } = &replica.snapshot;
        let names: Vec<_> = overview.replicas.iter().map(|one| (one.name.as_str(), one.here)).collect();
        assert_eq!(names, [(replica.name.as_str(), true), (other, false)]);
        assert_eq!((replica.client("a").delivered, replica.client("b").delivered), (10, 10));
        let of = |id| replica.client(id).replica.as_ref().map(ReplicaName::as_str);
        assert_eq!((of("a"), of("b"), of("c")), (Some("one"), Some("two"), None));
        assert_eq!(replica.client("a").actor, Some(crate::runtime::Life::Running));
        assert_eq!(replica.client("b").last_error.as_ref().unwrap().reason, "status_503");
        assert!(overview.rate > 0.0 && overview.failure_rate > 0.0);
        assert!((0.9..0.96).contains(&overview.success_share.unwrap()), "20 of 21");
        let Latency { p50, p95, .. } = overview.answer_ms.unwrap();
        assert!(p50 < 11.0 && p95 > 50.0, "both are in the histogram: {p50} {p95}");
        assert_eq!(
            overview.actors.kinds,
            BTreeMap::from([("delivery".to_owned(), 2), ("stash".to_owned(), 1)])
        );
        assert_eq!(overview.replicas.iter().map(|one| one.clients).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(overview.clients.total, 3);
        assert_eq!(overview.others_unseen, None);
    }
    assert_eq!(both[0].snapshot.other_actors[0].status.kind, "stash");
    // What it learned of the others stands in no text of its own.
    assert!(!board.text("one").now.contains("\"b\""), "{}", board.text("one").now);
}

#[tokio::test(start_paused = true)]
async fn who_serves_a_client_is_right_and_then_who_began_last() {
    let board = Board::default();
    let mut both = two(&board).await;
    let cell = both[0].world.serve("a");
    both[0].world.deliver("a", 8);
    turns(&mut both, &board).await;
    // The other takes it over while the first has not let go yet.
    both[1].world.now_ms = NOW + 5_000;
    both[1].world.serve("a");
    turns(&mut both, &board).await;
    let of = |replica: &Replica| replica.client("a").replica.clone().unwrap();
    assert_eq!((of(&both[0]), of(&both[1])), (replica("two"), replica("two")));
    cell.stop();
    assert!(both[0].world.registry.forget(DELIVERY_KIND, "a"));
    turns(&mut both, &board).await;
    assert_eq!(of(&both[0]), replica("two"));
    // Back again, and then it rests: who had it last tells of it.
    both[0].world.now_ms = NOW + 9_000;
    let cell = both[0].world.serve("a");
    turns(&mut both, &board).await;
    assert_eq!(of(&both[1]), replica("one"));
    both[1].world.registry.get(DELIVERY_KIND, "a").unwrap().stop();
    both[1].world.registry.forget(DELIVERY_KIND, "a");
    cell.stop();
    both[0].world.registry.forget(DELIVERY_KIND, "a");
    turns(&mut both, &board).await;
    for one in &both {
        assert_eq!((of(one), one.client("a").actor, one.client("a").delivered), (replica("one"), None, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_part_of_a_dead_replica_vanishes() {
    let board = Board::default();
    let mut both = two(&board).await;
    both[1].world.serve("b");
    both[1].world.deliver("b", 8);
    turns(&mut both, &board).await;
    both[0].turn(&board).await;
    assert_eq!(both[0].client("b").delivered, 1);
    let delivered = both[0].world.others.totals();
    tokio::time::advance(Duration::from_secs(9)).await;
    both[0].turn(&board).await;
    assert_eq!(both[0].snapshot.overview.replicas[1].age_ms, 9_000);
    // The same text again is no sign of life, and then its time is over there, too.
    board.parts.lock().unwrap().remove(&replica("two"));
    tokio::time::advance(Duration::from_secs(2)).await;
    both[0].turn(&board).await;
    both[0].turn(&board).await;
    assert_eq!(both[0].snapshot.overview.replicas.len(), 1);
    assert_eq!((&both[0].client("b").replica, both[0].client("b").actor), (&None, None));
    assert_eq!(both[0].world.others.totals(), delivered, "what it has counted stays counted");
}

#[tokio::test(start_paused = true)]
async fn while_they_cannot_be_asked_that_is_said() {
    let board = Board::default();
    let mut both = two(&board).await;
    *board.is_away.lock().unwrap() = true;
    turns(&mut both, &board).await;
    let overview = &both[0].snapshot.overview;
    assert_eq!(overview.others_unseen.as_deref(), Some("store unavailable: away"));
    assert_eq!(overview.replicas.len(), 2, "for as long as its part lives");
    tokio::time::advance(Duration::from_secs(11)).await;
    turns(&mut both, &board).await;
    assert_eq!(both[0].snapshot.overview.replicas.len(), 1);
    // It comes back empty.
    board.parts.lock().unwrap().clear();
    *board.is_away.lock().unwrap() = false;
    both[1].world.serve("b");
    turns(&mut both, &board).await;
    assert_eq!(both[0].snapshot.overview.others_unseen, None);
    assert_eq!(both[0].client("b").replica, Some(replica("two")));
}

#[tokio::test(start_paused = true)]
async fn only_what_differs_from_the_base_is_told() {
    let ids: Vec<String> = (0..1_000).map(|number| format!("c{number:04}")).collect();
    let clients: Vec<_> = ids.iter().map(|id| (id.as_str(), Status::Active, HOOK)).collect();
    let board = Board::default();
    let mut both = [Replica::of("one", &clients), Replica::of("two", &clients)];
    let cells: Vec<_> = ids.iter().map(|id| both[0].world.serve(id)).collect();
    turns(&mut both, &board).await;
    let rested = board.text("one").now.len();
    both[0].world.deliver("c0007", 8);
    cells[3].stop();
    both[0].world.registry.forget(DELIVERY_KIND, "c0003");
    let base = board.text("one").base;
    turns(&mut both, &board).await;
    assert_eq!(board.text("one").base, base, "it goes on from the same");
    let now = board.text("one").now;
    assert!(now.contains("c0007") && !now.contains("c0008") && now.len() < rested + 500, "{now}");
    assert_eq!((both[1].client("c0007").delivered, both[1].client("c0003").actor), (1, None));
    assert_eq!(both[1].client("c0008").replica, Some(replica("one")));
    // A minute later there is another base; and when the store has lost it.
    tokio::time::advance(Duration::from_secs(61)).await;
    turns(&mut both, &board).await;
    assert_ne!(board.text("one").base, base);
    board.parts.lock().unwrap().clear();
    turns(&mut both, &board).await;
    assert_eq!(both[1].client("c0008").replica, Some(replica("one")));
}

#[tokio::test(start_paused = true)]
async fn who_starts_takes_the_hour_over() {
    let board = Board::default();
    let mut old = Replica::of("old", &CLIENTS);
    for _ in 0..100 {
        old.world.deliver("a", 8);
        old.world.now_ms += 1_000;
        old.turn(&board).await;
    }
    tokio::time::advance(Duration::from_secs(61)).await;
    old.turn(&board).await;
    let mut young = Replica::of("young", &CLIENTS);
    young.world.now_ms = old.world.now_ms;
    for _ in 0..11 {
        young.world.now_ms += 1_000;
        young.turn(&board).await;
    }
    let times: Vec<_> = young.snapshot.hour.iter().map(|point| (point.at_ms - NOW) / 1_000).collect();
    assert_eq!(times, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110]);
}

#[test]
fn a_text_that_is_no_part_is_refused() {
    let mut world = World::of(&CLIENTS);
    world.serve("a");
    let snapshot = world.look();
    let told = || vec![Told(client(&snapshot, "a"))];
    let now = Now::new(3, 2, snapshot.own.clone(), told(), Vec::new()).text();
    let base = Base::new(2, told(), Vec::new()).text();
    let read = Now::<ClientPart>::read(&now).unwrap();
    assert_eq!((read.number, read.base, &read.sums), (3, 2, &snapshot.own));
    assert_eq!(read.changed[0].client, ClientId::new("a"));
    assert_eq!(Base::<ClientPart>::read(&base).unwrap().clients, read.changed);

    let refused = |now: &str| Now::<ClientPart>::read(now).unwrap_err();
    assert_eq!(refused(&now.replacen("\"format\":3", "\"format\":1", 1)), NoPart::OtherFormat);
    assert_eq!(refused("{\"format\":9,\"else\":[]}"), NoPart::OtherFormat);
    let long = format!("\"{}\"", "x".repeat(3_000));
    for (is, should) in [
        ("[\"a\",", format!("[{long},")),
        ("[\"a\",", "[\"\",".to_owned()),
        ("\"healthy\"", "\"odd\"".to_owned()),
        ("\"healthy\",1764435600000,\"\"", format!("\"healthy\",1764435600000,{long}")),
        ("\"answers\":[0,", "\"answers\":[".to_owned()),
        ("\"ages\":[0,", "\"ages\":[0,0,".to_owned()),
        (
            "\"changed\":[",
            format!("\"changed\":[{},", &base[base.find("[[").unwrap() + 1..=base.find("]]").unwrap()]),
        ),
        ("\"version\":\"\"", format!("\"version\":{long}")),
    ] {
        let hostile = now.replacen(is, &should, 1);
        assert_ne!(hostile, now, "{is} stands in {now}");
        assert_eq!(refused(&hostile), NoPart::Unreadable, "{hostile}");
    }
    for text in ["", "[]", "{}", "null", "{\"format\":3}", "[[[[[["] {
        assert_eq!(refused(text), NoPart::Unreadable, "{text}");
        assert_eq!(Base::<ClientPart>::read(text).unwrap_err(), NoPart::Unreadable, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_read_is_said_and_no_harm() {
    let board = Board::default();
    let mut one = Replica::of("one", &CLIENTS);
    let odd = PartTexts { now: "{\"format\":1}".to_owned(), base: None };
    board.parts.lock().unwrap().insert(replica("odd"), odd);
    one.turn(&board).await;
    one.turn(&board).await;
    let overview = &one.snapshot.overview;
    let unread: Vec<_> =
        overview.unread_replicas.iter().map(|unread| (unread.name.as_str(), &*unread.why)).collect();
    assert_eq!(unread, [("odd", "it is of another version")]);
    assert_eq!((overview.replicas.len(), &overview.others_unseen), (1, &None));
}

/// What two replicas cost each other at 10,000 clients that are all busy: the worst case.
#[tokio::test(start_paused = true)]
async fn ten_thousand_clients_are_told_and_heard_for_little() {
    let ids: Vec<String> = (0..10_000).map(|number| format!("64c0a1e0f1a2b3c4d5e{number:05}")).collect();
    let clients: Vec<_> = ids.iter().map(|id| (id.as_str(), Status::Active, HOOK)).collect();
    let board = Board::default();
    let mut both = [Replica::of("one", &clients), Replica::of("two", &clients)];
    ids.iter().for_each(|id| drop(both[0].world.serve(id)));
    turns(&mut both, &board).await;
    let mut costs = Vec::new();
    for _ in 0..5 {
        ids.iter().for_each(|id| both[0].world.deliver(id, 7));
        both[0].snapshot = both[0].world.look();
        let started = Wall::now();
        let texts = both[0].teller.write(&replica("one"), &both[0].snapshot, Instant::now());
        let told = started.elapsed();
        board.publish(&replica("one"), texts, Duration::ZERO).await.unwrap();
        let started = Wall::now();
        both[1].turn(&board).await;
        costs.push((told, started.elapsed()));
    }
    costs.sort();
    let PartTexts { now, base } = board.text("one");
    let (now, base) = (now.len(), base.unwrap().len());
    println!(
        "10,000 busy clients: {now} + {base} bytes, told in {:?}, looked at and heard in {:?}",
        costs[0].0, costs[0].1
    );
    both[1].turn(&board).await;
    assert_eq!(both[1].client(&ids[77]).delivered, 5);
    assert!(base < LONGEST_PART / 4, "{base}");
    assert_eq!(rest(costs[0].0), rest(costs[0].0).clamp(Duration::from_millis(950), Duration::from_secs(4)));
}
