//! The transfer log as one of several processes sees it: a member of the group, with a link to the coordinator that can be cut.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dispatcher::domain::config::ClientId;
use dispatcher::domain::transfer::partition_of;
use dispatcher::domain::transfer::{NewTransfer, SourcePosition};
use dispatcher::ports::clock::Clock;
use dispatcher::ports::event_log::{
    BatchLimits, DeadLetter, EventLog, Lag, Left, NewRecord, SendPermission, SourceConsumer,
    TransferConsumer, TransferEvent,
};
use dispatcher::ports::{BoxFuture, StoreError, StoreResult};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Medium;
use super::group::{SESSION_MS, Says};
use super::log::{INCARNATION, LogData, MemoryLog, nobody_asks};
use super::source::SourceReader;
use crate::receiver::MaySend;
use crate::time::SimClock;

/// How long before the end of its session a member stops sending.
const SEND_MARGIN_MS: i64 = 1_000;

const HEARTBEAT: Duration = Duration::from_secs(1);

/// Unchanged offsets are committed this often: each commit is a proof.
const IDLE_COMMIT: Duration = Duration::from_secs(2);

/// What lies between a process and the coordinator of the group.
#[derive(Default)]
pub(crate) struct Link {
    pub(crate) cut: AtomicBool,
    /// The process was killed: it says no good-bye.
    pub(crate) crashed: AtomicBool,
    member: AtomicU64,
    /// When the last commit was sent that was answered.
    proved_ms: AtomicI64,
}

impl Link {
    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Looks at each request as it starts: only whom the group gives the partition sends, and only with a fresh proof.
    pub(crate) fn watch(self: &Arc<Self>, log: Arc<MemoryLog>, clock: Arc<dyn Clock>) -> Arc<MaySend> {
        let link = self.clone();
        Arc::new(move |client| {
            let partition = partition_of(&ClientId::new(client), log.partitions());
            let owner = log.medium.data().group.owner(partition);
            let since_ms = clock.boot_ms() - link.proved_ms.load(Ordering::Relaxed);
            if since_ms >= SESSION_MS {
                return Some(format!("{client}: a request started {since_ms} ms after the last proof"));
            }
            let member = link.member.load(Ordering::Relaxed);
            (owner != Some(member))
                .then(|| format!("{client}: member {member} sends, and partition {partition} is {owner:?}'s"))
        })
    }
}

/// The log of one process.
pub(crate) struct MemberLog {
    pub(crate) log: Arc<MemoryLog>,
    pub(crate) link: Arc<Link>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sim: Arc<SimClock>,
    /// Without it requests go out whoever has the partition.
    pub(crate) asks_permission: bool,
}

impl EventLog for MemberLog {
    fn append(&self, _: Vec<NewRecord>) -> BoxFuture<'_, StoreResult<Vec<SourcePosition>>> {
        Box::pin(async { nobody_asks() })
    }

    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn incarnation(&self) -> u32 {
        INCARNATION
    }

    fn source(&self, _: &str, limits: BatchLimits) -> BoxFuture<'_, StoreResult<Arc<dyn SourceConsumer>>> {
        let reader: Arc<dyn SourceConsumer> =
            Arc::new(SourceReader::new(&self.log, self.link.clone(), limits));
        Box::pin(async { Ok(reader) })
    }

    fn transfers(
        &self,
        _: &str,
        limits: BatchLimits,
    ) -> BoxFuture<'_, StoreResult<Arc<dyn TransferConsumer>>> {
        let shared = Arc::new(Shared {
            medium: self.log.medium.clone(),
            grown: self.log.grown.clone(),
            link: self.link.clone(),
            clock: self.clock.clone(),
            sim: self.sim.clone(),
            permission: SendPermission::none(),
            asks_permission: self.asks_permission,
            local: Mutex::default(),
            happened: Notify::new(),
            hurry: Notify::new(),
        });
        let heart = actix_rt::spawn(beat(shared.clone()));
        let consumer: Arc<dyn TransferConsumer> = Arc::new(Consumer { shared, limits, heart });
        Box::pin(async { Ok(consumer) })
    }

    fn append_transfers(&self, transfers: Vec<NewTransfer>) -> BoxFuture<'_, StoreResult<()>> {
        self.log.append_transfers(transfers)
    }

    fn keep_dead(&self, letters: Vec<DeadLetter>) -> BoxFuture<'_, StoreResult<()>> {
        self.log.keep_dead(letters)
    }

    fn dead_letters(&self, _: i64, _: usize) -> BoxFuture<'_, StoreResult<Vec<(i64, DeadLetter)>>> {
        Box::pin(async { nobody_asks() })
    }
}

struct Shared {
    medium: Arc<Medium<LogData>>,
    grown: Arc<Notify>,
    link: Arc<Link>,
    clock: Arc<dyn Clock>,
    sim: Arc<SimClock>,
    permission: SendPermission,
    asks_permission: bool,
    local: Mutex<Local>,
    happened: Notify,
    hurry: Notify,
}

#[derive(Default)]
struct Local {
    member: Option<u64>,
    /// The next to hand out, by partition.
    positions: BTreeMap<u32, i64>,
    /// Revoked, and not let go of yet.
    leaving: BTreeSet<u32>,
    released: BTreeSet<u32>,
    paused: HashSet<u32>,
    /// The partitions whose present assignment was handed out.
    told: BTreeSet<u32>,
    events: VecDeque<TransferEvent>,
    turn: u32,
}

impl Shared {
    fn away() -> StoreError {
        StoreError::Unavailable("the coordinator is away".to_owned())
    }

    /// A call to the coordinator.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LogData, i64) -> T + Send + 'static,
    ) -> StoreResult<T> {
        let sim = self.sim.clone();
        if self.link.is_cut() {
            tokio::time::sleep(Duration::from_millis(500)).await;
            return Err(Self::away());
        }
        let done = self.medium.write(move |log| work(log, sim.now_ms())).await?;
        // Of a call whose answer is lost nobody knows whether it was made.
        if self.link.is_cut() { Err(Self::away()) } else { Ok(done) }
    }

    /// All is another's.
    fn lose_all(&self) {
        let mut local = self.local.lock().unwrap();
        self.permission.withdraw();
        let lost = local.positions.keys().copied().collect();
        let mut now = Local { turn: local.turn, ..Local::default() };
        now.events.push_back(TransferEvent::Lost(lost));
        let before = std::mem::replace(&mut *local, now);
        drop(local);
        // Not under the lock: what was not told yet may have to be released.
        drop(before);
        self.happened.notify_one();
    }

    async fn commit(&self, offsets: BTreeMap<u32, i64>) -> StoreResult<()> {
        let sent_ms = self.clock.boot_ms();
        let member = {
            let local = self.local.lock().unwrap();
            // What was lost and came again must not be committed by who does not know it yet.
            if !offsets.keys().all(|partition| local.told.contains(partition)) {
                return Err(StoreError::Fenced("the partition is another's, or begins anew".to_owned()));
            }
            local.member
        };
        let gone = || StoreError::Fenced("it is no member".to_owned());
        let member = member.ok_or_else(gone)?;
        let commit = move |log: &mut LogData, now_ms| {
            let known = log.group.hear(member, now_ms);
            if known {
                log.commit(&offsets);
            }
            known
        };
        if !self.call(commit).await? {
            if self.local.lock().unwrap().member == Some(member) {
                self.lose_all();
            }
            return Err(gone());
        }
        if self.local.lock().unwrap().member == Some(member) {
            self.link.proved_ms.fetch_max(sent_ms, Ordering::Relaxed);
            self.permission.extend(sent_ms + SESSION_MS - SEND_MARGIN_MS);
        }
        Ok(())
    }

    async fn join(&self) {
        if let Ok(member) = self.call(|log, now_ms| log.group.join(now_ms)).await {
            self.local.lock().unwrap().member = Some(member);
            self.link.member.store(member, Ordering::Relaxed);
            self.hurry.notify_one();
        }
    }

    /// Says that it lives; false: nobody heard it.
    async fn heartbeat(self: &Arc<Self>, member: u64) -> bool {
        let says = {
            let mut local = self.local.lock().unwrap();
            Says {
                has: local.positions.keys().copied().collect(),
                leaving: local.leaving.clone(),
                released: std::mem::take(&mut local.released),
            }
        };
        let released = says.released.clone();
        let beat = move |log: &mut LogData, now_ms| {
            let told = log.group.heartbeat(member, &says, now_ms)?;
            let granted: BTreeMap<_, _> =
                told.granted.iter().map(|partition| (*partition, log.committed(*partition))).collect();
            Some((granted, told.revoked))
        };
        match self.call(beat).await {
            Err(_) => {
                self.local.lock().unwrap().released.extend(released);
                false
            }
            Ok(None) => {
                self.lose_all();
                true
            }
            Ok(Some((granted, revoked))) => {
                self.told(granted, revoked);
                true
            }
        }
    }

    fn told(self: &Arc<Self>, granted: BTreeMap<u32, i64>, revoked: BTreeSet<u32>) {
        let mut local = self.local.lock().unwrap();
        if !revoked.is_empty() {
            local.positions.retain(|partition, _| !revoked.contains(partition));
            local.leaving.extend(&revoked);
            let left = Left::new(Release { shared: self.clone(), partitions: revoked.clone() });
            local.events.push_back(TransferEvent::Revoked { partitions: revoked, left });
        }
        if !granted.is_empty() {
            local.paused.retain(|partition| !granted.contains_key(partition));
            local.told.retain(|partition| !granted.contains_key(partition));
            local.positions.extend(&granted);
            local.events.push_back(TransferEvent::Assigned(granted));
        }
        drop(local);
        self.happened.notify_one();
    }
}

/// The life of a member: it joins, says that it lives, and proves it.
async fn beat(shared: Arc<Shared>) {
    let mut heard = Instant::now();
    let mut proved = Instant::now();
    loop {
        let member = shared.local.lock().unwrap().member;
        let is_heard = match member {
            None => {
                shared.join().await;
                true
            }
            Some(member) => shared.heartbeat(member).await,
        };
        if is_heard {
            heard = Instant::now();
        } else if heard.elapsed().as_millis() as i64 >= SESSION_MS {
            shared.lose_all();
        }
        if proved.elapsed() >= IDLE_COMMIT || member.is_none() {
            proved = Instant::now();
            let _ = shared.commit(BTreeMap::new()).await;
        }
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT) => {}
            () = shared.hurry.notified() => {}
        }
    }
}

/// What is revoked is let go of when this is dropped.
struct Release {
    shared: Arc<Shared>,
    partitions: BTreeSet<u32>,
}

impl Drop for Release {
    fn drop(&mut self) {
        let mut local = self.shared.local.lock().unwrap();
        let released: Vec<_> =
            self.partitions.iter().copied().filter(|partition| local.leaving.remove(partition)).collect();
        local.told.retain(|partition| !released.contains(partition));
        local.released.extend(released);
        drop(local);
        self.shared.hurry.notify_one();
    }
}

struct Consumer {
    shared: Arc<Shared>,
    limits: BatchLimits,
    heart: actix_rt::task::JoinHandle<()>,
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.heart.abort();
        let local = self.shared.local.lock().unwrap();
        let silent = self.shared.link.crashed.load(Ordering::Relaxed) || self.shared.link.is_cut();
        if let Some(member) = local.member.filter(|_| !silent) {
            self.shared.medium.data().group.leave(member);
        }
    }
}

impl Consumer {
    fn find(&self) -> Option<TransferEvent> {
        let mut local = self.shared.local.lock().unwrap();
        if let Some(event) = local.events.pop_front() {
            if let TransferEvent::Assigned(committed) = &event {
                local.told.extend(committed.keys());
            }
            return Some(event);
        }
        let log = self.shared.medium.data();
        let most = self.shared.medium.weather.lock().unwrap().rng.usize(1..=self.limits.records);
        let turn = local.turn;
        let (before, after): (Vec<_>, Vec<_>) =
            local.positions.iter().map(|(id, at)| (*id, *at)).partition(|(id, _)| *id <= turn);
        for (partition, position) in after.into_iter().chain(before) {
            let transfers = log.records(partition, position, most);
            if let Some(last) = transfers.last().filter(|_| !local.paused.contains(&partition)) {
                local.positions.insert(partition, last.sequence.offset + 1);
                local.turn = partition;
                return Some(TransferEvent::Batch { partition, transfers });
            }
        }
        None
    }
}

impl TransferConsumer for Consumer {
    fn next(&self) -> BoxFuture<'_, StoreResult<TransferEvent>> {
        Box::pin(async {
            loop {
                let mut grown = std::pin::pin!(self.shared.grown.notified());
                grown.as_mut().enable();
                self.shared.medium.read(|_| ()).await?;
                if let Some(event) = self.find() {
                    return Ok(event);
                }
                tokio::select! {
                    () = grown => {}
                    () = self.shared.happened.notified() => {}
                }
            }
        })
    }

    fn commit(&self, offsets: BTreeMap<u32, i64>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.shared.commit(offsets))
    }

    fn pause(&self, partition: u32) {
        self.shared.local.lock().unwrap().paused.insert(partition);
    }

    fn resume(&self, partition: u32) {
        self.shared.local.lock().unwrap().paused.remove(&partition);
        self.shared.happened.notify_one();
    }

    fn permission(&self) -> SendPermission {
        if self.shared.asks_permission { self.shared.permission.clone() } else { SendPermission::always() }
    }

    fn lag(&self) -> BoxFuture<'_, StoreResult<Lag>> {
        Box::pin(self.shared.medium.read(|log| Lag { records: log.lag(), oldest_ms: None }))
    }
}
