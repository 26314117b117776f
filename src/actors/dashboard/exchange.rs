//! Tells the others what this replica knows, and hears what they know: once a second at most, and not oftener than that costs little.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::client::ClientView;
use super::others::{Others, PART_LIVES};
use super::part::{Base, ClientPart, MOST_CLIENTS, NoPart, Now, Told};
use super::snapshot::Snapshot;
use crate::domain::config::ClientId;
use crate::domain::replica::ReplicaName;
use crate::ports::dashboard_parts::{DashboardParts, PartTexts};
use crate::ports::{StoreError, StoreResult};

/// The least time between two.
const EVERY: Duration = Duration::from_millis(950);
/// The longest.
const LONGEST: Duration = Duration::from_secs(4);
/// So many times as long as the work for one takes there is rest before the next.
const REST: u32 = 20;
/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// So many clients may differ from the base before there is another one, or half of them.
const FEW: usize = 200;
/// There is another base after this time: it has the last hour.
const BASE_LIVES: Duration = Duration::from_secs(60);

/// What another replica was found to say.
pub(super) struct Heard {
    replica: ReplicaName,
    said: Result<(Now<ClientPart>, Option<Base<ClientPart>>), NoPart>,
}

/// Writes what this replica knows.
pub(super) struct Teller {
    number: u64,
    base: Option<Written>,
}

/// The base as it was written.
struct Written {
    number: u64,
    at: Instant,
    clients: HashMap<ClientId, Arc<ClientView>>,
}

impl Teller {
    /// One that has not told anything.
    pub(super) fn new() -> Self {
        Self { number: 0, base: None }
    }

    /// The others may not have the base.
    pub(super) fn base_is_lost(&mut self) {
        self.base = None;
    }

    /// The texts of a snapshot.
    pub(super) fn write(&mut self, here: &ReplicaName, snapshot: &Snapshot, now: Instant) -> PartTexts {
        self.number += 1;
        let own = own_clients(here, &snapshot.clients);
        let base = self.base.take().filter(|base| now.duration_since(base.at) < BASE_LIVES);
        let known = |client: &Arc<ClientView>| {
            let known = base.as_ref().and_then(|base| base.clients.get(&client.client));
            known.is_some_and(|known| Arc::ptr_eq(known, client))
        };
        let changed: Vec<_> = own.iter().copied().filter(|client| !known(client)).collect();
        let is_own = own.iter().map(|client| &client.client).collect::<HashSet<_>>();
        let gone = base.iter().flat_map(|base| base.clients.keys()).filter(|client| !is_own.contains(client));
        let gone: Vec<_> = gone.cloned().collect();
        if let Some(base) = base.filter(|_| changed.len() + gone.len() <= FEW.max(own.len() / 2)) {
            let told = changed.into_iter().map(|client| Told(client)).collect();
            let text = Now::new(self.number, base.number, snapshot.own.clone(), told, gone).text();
            self.base = Some(base);
            return PartTexts { now: text, base: None };
        }
        let told = own.iter().map(|client| Told(client)).collect();
        let base = Base::new(self.number, told, snapshot.hour.to_vec()).text();
        let clients = own.into_iter().map(|client| (client.client.clone(), client.clone())).collect();
        self.base = Some(Written { number: self.number, at: now, clients });
        let text = Now::new(self.number, self.number, snapshot.own.clone(), Vec::new(), Vec::new()).text();
        PartTexts { now: text, base: Some(base) }
    }
}

/// The clients that this replica tells of: when there are too many, those first that are not well.
fn own_clients<'a>(here: &ReplicaName, clients: &'a [Arc<ClientView>]) -> Vec<&'a Arc<ClientView>> {
    let is_own =
        |client: &&Arc<ClientView>| client.replica.as_ref() == Some(here) && ClientPart::may_be_told(client);
    let mut own: Vec<_> = clients.iter().filter(is_own).collect();
    if own.len() > MOST_CLIENTS {
        own.sort_by_key(|client| (std::cmp::Reverse(client.severity()), client.actor.is_none()));
        own.truncate(MOST_CLIENTS);
    }
    own
}

/// How long to rest after so much work.
pub(super) fn rest(work: Duration) -> Duration {
    (work * REST).clamp(EVERY, LONGEST)
}

/// Tells and hears. Returns what was heard, whether the base is there, and how much work it was besides waiting.
pub(super) async fn exchange(
    parts: &dyn DashboardParts,
    here: &ReplicaName,
    texts: PartTexts,
    known: &Others,
) -> StoreResult<(Vec<Heard>, bool, Duration)> {
    let late = |_| StoreError::Unavailable("no answer in time".to_owned());
    let (kept, others) = timeout(PATIENCE, async {
        let kept = parts.publish(here, texts, PART_LIVES).await?;
        StoreResult::Ok((kept, parts.others(here).await?))
    })
    .await
    .map_err(late)??;
    let started = Instant::now();
    let read = |(replica, text): (ReplicaName, String)| (replica, Now::read(&text));
    let read: Vec<_> = others.into_iter().map(read).collect();
    let mut work = started.elapsed();
    let needed = read.iter().filter_map(|(replica, now)| {
        let needs = now.as_ref().is_ok_and(|now| known.needs_base(replica, now));
        needs.then_some(async move { (replica.clone(), parts.base(replica).await) })
    });
    let bases = timeout(PATIENCE, join_all(needed)).await.map_err(late)?;
    let started = Instant::now();
    let mut of = HashMap::new();
    for (replica, base) in bases {
        if let Some(text) = base? {
            of.insert(replica, Base::read(&text));
        }
    }
    let heard = read.into_iter().map(|(replica, now)| {
        let base = of.remove(&replica).transpose();
        Heard { said: now.and_then(|now| Ok((now, base?))), replica }
    });
    let heard = heard.collect();
    work += started.elapsed();
    Ok((heard, kept, work))
}

impl Others {
    /// Takes what was heard, or why nothing was.
    pub(super) fn hear(&mut self, heard: Result<Vec<Heard>, String>, now: Instant) {
        let heard = heard.map(|heard| {
            for Heard { replica, said } in heard {
                match said {
                    Ok((told, base)) => self.tell(replica, told, base, now),
                    Err(why) => self.tells_nothing(replica, why, now),
                }
            }
        });
        self.have_told(heard, now);
    }
}
