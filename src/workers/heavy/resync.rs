//! Sends again what a client may see, as MongoDB has it now: collection by collection, page by page. Each page goes through the
//! [rounds](super::rounds).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::HeavyWorker;
use super::document::DocumentRoutes;
use super::rounds::{InHand, Rounds, Seen, look};
use super::run::{HeavyRun, Stop, Turn};
use crate::ports::documents::{CollectionName, DocumentKey, Documents};
use crate::ports::source_progress::SourceProgress;
use crate::workers::queues::Resync;

/// Bytes of documents in one page, beyond which it ends.
const PAGE_BYTES: usize = 8 << 20;
/// While too much waits for the client already.
const WAIT: Duration = Duration::from_secs(10);
/// While the change events are read too slowly.
const BEHIND: Duration = Duration::from_secs(5);

/// Why there is no resync in embedded mode.
pub const NO_SOURCE: &str = "embedded mode has no MongoDB to read: send the documents to /v1/events again";

/// What a resync reads, and how fast.
pub struct ResyncSource {
    /// Where documents are.
    pub documents: Arc<dyn Documents>,
    /// How far the change events are read.
    pub progress: Arc<dyn SourceProgress>,
    /// What a client gets of a document.
    pub routes: DocumentRoutes,
    /// How far Debezium may be behind without a copy that goes back for a moment.
    pub settle: Duration,
    /// Documents of one page.
    pub page: usize,
    /// Documents in a second, at most.
    pub per_second: u32,
}

/// Where the job goes on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Place {
    /// What is left to do, the current one first; `None`: nobody has looked yet.
    collections: Option<VecDeque<CollectionName>>,
    /// In that: behind this document.
    after: Option<DocumentKey>,
    /// The time of what is sent of the page, milliseconds since 1970: the same when the page is sent again, so that the bodies are.
    pub(super) ts_ms: i64,
    /// Of the page: what is, or may be, in the log.
    pub(super) hand: Vec<InHand>,
    /// The end of the page.
    next: Option<DocumentKey>,
    /// Changes that were dropped for the client before it began.
    dropped: u64,
}

impl HeavyWorker {
    /// One page.
    pub(super) async fn resync(
        &self,
        job: &Resync,
        run: &mut HeavyRun,
        until: Instant,
    ) -> Result<Turn, Stop> {
        let source = self.source.as_ref().ok_or_else(|| Stop::Never(NO_SOURCE.to_owned()))?;
        let mut place: Place = run.position()?;
        if self.is_behind(&run.row).await? {
            return Ok(Turn::Wait(WAIT));
        }
        if place.collections.is_none() {
            let state = self.states.get(&job.client).await?;
            place.dropped = state.map_or(0, |state| state.dropped);
            place.collections = Some(source.collections(job).await?);
            run.save(&place).await?;
        }
        let Some(collection) = place.collections.iter().flatten().next().cloned() else {
            // Of some collections it may have been others that were dropped.
            if job.collections.is_none() && place.dropped > 0 {
                self.states.resynced(&job.client, place.dropped).await?;
            }
            return Ok(Turn::Done);
        };
        let began = Instant::now();
        let seen = if place.hand.is_empty() {
            place.ts_ms = run.now_ms();
            let (after, page) = (place.after.as_ref(), source.page);
            let page = source.documents.page(&collection, &job.client, after, page, PAGE_BYTES).await?;
            let Some(last) = page.last() else {
                place.collection_is_done();
                run.save(&place).await?;
                return Ok(Turn::More);
            };
            place.next = Some(last.key.clone());
            let found = page.len();
            let seen = Seen::new(page);
            run.count("unreadable", found - seen.len());
            seen
        } else {
            let hand = std::mem::take(&mut place.hand);
            look(source, run, &place, &collection, hand).await?
        };
        let documents = seen.len();
        if self.rounds(source, run, &mut place, &collection, seen).await? == Rounds::SourceIsBehind {
            return Ok(Turn::Wait(BEHIND));
        }
        place.page_is_done();
        run.save(&place).await?;
        source.slow_down(documents, began, until).await;
        Ok(Turn::More)
    }
}

impl Place {
    fn page_is_done(&mut self) {
        self.after = self.next.take();
        self.hand.clear();
    }

    fn collection_is_done(&mut self) {
        self.collections.iter_mut().for_each(|collections| _ = collections.pop_front());
        self.after = None;
    }
}

impl ResyncSource {
    /// The collections of a job: those that it names, or those that change events come from; of these the ones that the client's filter admits.
    async fn collections(&self, job: &Resync) -> Result<VecDeque<CollectionName>, Stop> {
        let all = self.documents.collections().await?;
        let mut chosen = match &job.collections {
            Some(names) => self.named(names, &all)?,
            None => {
                // A collection that Debezium does not capture is not for clients, whatever its documents say.
                let topics = self.progress.ends().await?;
                let captured = |collection: &CollectionName| topics.has_topic(&self.routes.topic(collection));
                all.into_iter().filter(captured).collect()
            }
        };
        let mut refused = None;
        chosen.retain(|collection| match self.routes.admits(&job.client, collection) {
            Ok(admitted) => admitted,
            Err(reason) => {
                refused = Some(reason);
                false
            }
        });
        match refused {
            Some(reason) => Err(Stop::Never(format!("nothing is sent to the client: {}", reason.as_str()))),
            None if chosen.is_empty() => Err(Stop::Never(
                "there is no collection for the client: its filter admits none that is captured, or not the operation r"
                    .to_owned(),
            )),
            None => Ok(chosen),
        }
    }

    /// The collections of these names, with or without the platform's prefix.
    fn named(
        &self,
        names: &BTreeSet<String>,
        all: &[CollectionName],
    ) -> Result<VecDeque<CollectionName>, Stop> {
        let prefix = format!("{}-", self.routes.mongo_prefix);
        let find = |name: &String| {
            let is_it = |collection: &&CollectionName| {
                let whole = collection.to_string();
                whole == *name || whole.strip_prefix(&prefix) == Some(name)
            };
            let found = all.iter().find(is_it).cloned();
            found.ok_or_else(|| Stop::Never(format!("there is no collection {name:?}")))
        };
        names.iter().map(find).collect()
    }

    /// Takes its time, so that others have theirs; not beyond the turn.
    async fn slow_down(&self, documents: usize, began: Instant, until: Instant) {
        let due = began + Duration::from_secs_f64(documents as f64 / f64::from(self.per_second.max(1)));
        let pause = due.min(until).saturating_duration_since(Instant::now());
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
}
