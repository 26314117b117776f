//! What the other replicas have told.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::client::Elsewhere;
use super::overview::Point;
use super::part::{Base, ClientPart, NoPart, Now, Sums};
use super::replicas::{ActorReport, ReplicaView};
use crate::actors::meters::{Counts, RANGES};
use crate::domain::config::ClientId;
use crate::domain::replica::ReplicaName;

/// For how long a part counts after its replica was heard of for the last time.
pub(super) const PART_LIVES: Duration = Duration::from_secs(10);

type Clients = HashMap<ClientId, Arc<ClientPart>>;

/// All that they have told.
#[derive(Clone)]
pub struct Others {
    replicas: BTreeMap<ReplicaName, Replica>,
    /// Those that tell what cannot be read here.
    unread: BTreeMap<ReplicaName, (NoPart, Instant)>,
    /// Why they are not seen.
    unseen: Option<String>,
    /// Of each client what the one says that serves it.
    clients: HashMap<ClientId, Elsewhere>,
    /// What was counted since they were first heard of, those included that are gone.
    delivered: u64,
    failed: u64,
    answers: Counts,
    ages: Counts,
    hour: Option<Vec<Point>>,
}

impl Default for Others {
    fn default() -> Self {
        Self {
            replicas: BTreeMap::new(),
            unread: BTreeMap::new(),
            unseen: None,
            clients: HashMap::new(),
            delivered: 0,
            failed: 0,
            answers: [0; RANGES],
            ages: [0; RANGES],
            hour: None,
        }
    }
}

#[derive(Clone)]
struct Replica {
    /// When it was last heard of.
    at: Instant,
    number: u64,
    sums: Sums,
    base: u64,
    of_base: Clients,
    /// What differs from the base now; `None`: the client is gone.
    since: HashMap<ClientId, Option<Arc<ClientPart>>>,
}

impl Replica {
    fn clients(&self) -> impl Iterator<Item = &Arc<ClientPart>> {
        let unchanged = self.of_base.iter().filter(|(client, _)| !self.since.contains_key(*client));
        unchanged.map(|(_, part)| part).chain(self.since.values().flatten())
    }
}

impl Others {
    /// Whether there is nothing new in a text that was told before: only then its base need not be known.
    pub(super) fn needs_base(&self, replica: &ReplicaName, now: &Now<ClientPart>) -> bool {
        self.replicas.get(replica).is_none_or(|known| known.base != now.base)
    }

    /// A replica tells this. Without the base that it goes on from its clients are as they were.
    pub(super) fn tell(
        &mut self,
        replica: ReplicaName,
        now: Now<ClientPart>,
        base: Option<Base<ClientPart>>,
        at: Instant,
    ) {
        self.unread.remove(&replica);
        let Now { number, base: goes_on_from, sums, changed, gone, .. } = now;
        let known = self.replicas.entry(replica).or_insert_with(|| Replica {
            at,
            number: 0,
            // What it has counted so far is no news.
            sums: sums.clone(),
            base: 0,
            of_base: HashMap::new(),
            since: HashMap::new(),
        });
        if known.number == number {
            return;
        }
        (known.at, known.number) = (at, number);
        if let Some(base) = base.filter(|base| base.number == goes_on_from) {
            known.of_base =
                base.clients.into_iter().map(|part| (part.client.clone(), Arc::new(part))).collect();
            known.base = goes_on_from;
            if self.hour.as_ref().is_none_or(|hour| hour.len() < base.hour.len()) {
                self.hour = Some(base.hour);
            }
        }
        if known.base == goes_on_from {
            let gone = gone.into_iter().map(|client| (client, None));
            let changed = changed.into_iter().map(|part| (part.client.clone(), Some(Arc::new(part))));
            known.since = gone.chain(changed).collect();
        }
        let before = std::mem::replace(&mut known.sums, sums);
        self.delivered = self.delivered.saturating_add(known.sums.delivered.saturating_sub(before.delivered));
        self.failed = self.failed.saturating_add(known.sums.failed.saturating_sub(before.failed));
        let add = |counts: &mut Counts, now: &[u32], before: &[u32]| {
            let (now, before) = (Sums::counts(now), Sums::counts(before));
            for (range, count) in counts.iter_mut().enumerate() {
                *count = count.wrapping_add(now[range].saturating_sub(before[range]));
            }
        };
        add(&mut self.answers, &known.sums.answers, &before.answers);
        add(&mut self.ages, &known.sums.ages, &before.ages);
    }

    /// What a replica tells cannot be read.
    pub(super) fn tells_nothing(&mut self, replica: ReplicaName, why: NoPart, at: Instant) {
        if self.unread.insert(replica.clone(), (why.clone(), at)).is_none() {
            log::warn!("what a replica shows is not read err={why} replica={replica}");
        }
    }

    /// All who are there have told, or why they cannot be asked. Whoever has not told for a while is gone.
    pub(super) fn have_told(&mut self, asked: Result<(), String>, now: Instant) {
        match (&self.unseen, &asked) {
            (None, Err(why)) => log::warn!("the dashboard shows this replica only err={why}"),
            (Some(_), Ok(())) => log::info!("the dashboard shows all replicas again"),
            _ => {}
        }
        self.unseen = asked.err();
        self.forget_gone(now);
        self.clients.clear();
        for (name, replica) in &self.replicas {
            for part in replica.clients() {
                let told = Elsewhere { replica: name.clone(), part: part.clone() };
                let known = self.clients.get(&part.client);
                if known.is_none_or(|known| known.rank() < told.rank()) {
                    self.clients.insert(part.client.clone(), told);
                }
            }
        }
    }

    fn forget_gone(&mut self, now: Instant) {
        let lives = |at: &Instant| now.duration_since(*at) < PART_LIVES;
        self.replicas.retain(|_, replica| lives(&replica.at));
        self.unread.retain(|_, (_, at)| lives(at));
    }

    /// All clients of which something is said.
    pub(super) fn clients(&self) -> impl Iterator<Item = (&ClientId, &Elsewhere)> {
        self.clients.iter()
    }

    /// Changes delivered and attempts that failed since they were first heard of.
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.delivered, self.failed)
    }

    /// How long webhooks took since then.
    pub(super) fn answers(&self) -> &Counts {
        &self.answers
    }

    /// How old changes were.
    pub(super) fn ages(&self) -> &Counts {
        &self.ages
    }

    /// Their last hour, once, when it was told for the first time.
    pub(super) fn hour(&self) -> Option<&[Point]> {
        self.hour.as_deref()
    }

    /// Why they are not seen.
    pub(super) fn unseen(&self) -> Option<&str> {
        self.unseen.as_deref()
    }

    /// Those that tell what cannot be read here, and why.
    pub(super) fn unread(&self) -> impl Iterator<Item = (&ReplicaName, &NoPart)> {
        self.unread.iter().map(|(name, (why, _))| (name, why))
    }

    /// Each, with its sums.
    pub(super) fn sums(&self) -> impl Iterator<Item = (&ReplicaName, &Sums)> {
        self.replicas.iter().map(|(name, replica)| (name, &replica.sums))
    }

    /// Each, as it is shown.
    pub(super) fn views(&self, now: Instant) -> Vec<ReplicaView> {
        let view = |(name, replica): (&ReplicaName, &Replica)| {
            let age = now.duration_since(replica.at);
            ReplicaView::elsewhere(name.clone(), &replica.sums, age)
        };
        self.replicas.iter().map(view).collect()
    }

    /// The actors that they show.
    pub(super) fn actors(&self) -> Vec<ActorReport> {
        let of = |(name, replica): (&ReplicaName, &Replica)| {
            let name = name.clone();
            replica.sums.shown.clone().into_iter().map(move |status| ActorReport::new(status, name.clone()))
        };
        self.replicas.iter().flat_map(of).collect()
    }
}
