//! The rule by which a resync never lets a copy go back.
//!
//! The transfer log is the order of everything that is sent. What a resync appends there must stand behind every change that it knows of already,
//! and before every change that it does not know. A document that is read has no place among the changes of the source, so its place is made:
//!
//! 1. Documents are **read**.
//! 2. `settle` passes, in which Debezium writes what happened before the read into Kafka; then the source group **passes the ends** that the
//!    topics have now. So the transfers of all changes from before the read are in the transfer log.
//! 3. They are **read again**. One that changed, or went away, is dropped: its live change is, or comes, behind anything that we appended.
//! 4. What is the same still is **appended**.
//! 5. They are **read once more**. One that is the same still is done: a change after this comes after ours. One that is another may have
//!    changed between 3 and 4, with a live change so quick that it stands before ours: that one goes through the round again, with what it
//!    is now, or that it is gone. In that round 3 drops it if it changed after 4, for then its live change stands behind ours.
//!
//! The last step is what makes the copy right in the end, however slow Debezium is; the second is what keeps it from going back meanwhile, as
//! long as Debezium is not further behind than `settle`.
//!
//! Before 4 the documents are written down as in hand. After a crash between 4 and 5 somebody finds them there, and takes them through the
//! round again: also those that are gone by now, and that no page would show him.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::HeavyWorker;
use super::document::{Sight, Unsent};
use super::resync::{Place, ResyncSource};
use super::run::{HeavyRun, Stop};
use crate::domain::routing::SkipReason;
use crate::domain::transfer::NewTransfer;
use crate::ports::documents::{CollectionName, DocumentKey, StoredDocument};
use crate::ports::{StoreError, StoreResult};

/// The source group has this long to pass what stood in the topics; then the round begins anew, with what is there by then.
const PASSES_WITHIN: Duration = Duration::from_secs(60);
/// One question.
const ASK_FOR: Duration = Duration::from_secs(5);

/// A document that is, or may be, in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InHand {
    key: DocumentKey,
    /// As it stands in the key of a record.
    id: String,
}

/// Documents as the client may see them: by key the id, and the text; `None`: it is gone, or not his any more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen(BTreeMap<DocumentKey, (String, Option<String>)>);

impl Seen {
    /// Documents of a page.
    pub fn new(page: Vec<StoredDocument>) -> Self {
        let readable = page.into_iter().filter(|document| document.text.is_some());
        Self(readable.map(|document| (document.key, (document.id, document.text))).collect())
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn in_hand(&self) -> Vec<InHand> {
        self.0.iter().map(|(key, (id, _))| InHand { key: key.clone(), id: id.clone() }).collect()
    }

    /// Keeps those that were the same in `earlier`.
    fn keep_same(&mut self, earlier: &Self) {
        self.0.retain(|key, seen| earlier.0.get(key) == Some(seen));
    }

    /// Keeps those that were something else in `earlier`.
    fn keep_changed(&mut self, earlier: &Self) {
        self.0.retain(|key, seen| earlier.0.get(key) != Some(seen));
    }
}

/// Whether a page is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// Everything is sent, or need not be.
    Done,
    /// The change events are read too slowly: to be tried again.
    SourceIsBehind,
}

impl HeavyWorker {
    /// Takes documents through the rounds. `seen` is what was read just now.
    pub(super) async fn rounds(
        &self,
        source: &ResyncSource,
        run: &mut HeavyRun,
        place: &mut Place,
        collection: &CollectionName,
        mut seen: Seen,
    ) -> Result<Rounds, Stop> {
        while !seen.is_empty() {
            if !settles(source).await? {
                return Ok(Rounds::SourceIsBehind);
            }
            let mut same = look(source, run, place, collection, seen.in_hand()).await?;
            same.keep_same(&seen);
            run.count("changed_meanwhile", seen.len() - same.len());
            let transfers = transfers(source, run, place, collection, &mut same)?;
            place.hand = same.in_hand();
            run.save(place).await?;
            self.append(run, transfers).await?;
            seen = look(source, run, place, collection, same.in_hand()).await?;
            seen.keep_changed(&same);
        }
        Ok(Rounds::Done)
    }

    /// Appends all of them, but those that the log will never take. Not when the lease is over: the log has threads of its own, and what one of
    /// them writes late would stand behind what the next holder wrote.
    async fn append(&self, run: &mut HeavyRun, transfers: Vec<NewTransfer>) -> StoreResult<()> {
        if transfers.is_empty() {
            return Ok(());
        }
        match self.log.append_transfers_while(transfers.clone(), run.held.clone()).await {
            Err(StoreError::Refused(_)) => {}
            answer => return answer,
        }
        for transfer in transfers {
            let document = transfer.document_hash;
            match self.log.append_transfers_while(vec![transfer], run.held.clone()).await {
                Err(StoreError::Refused(why)) => {
                    run.count("refused", 1);
                    log::error!(
                        "document is not sent again err={why} document={document:?} job_id={}",
                        run.row.id
                    );
                }
                answer => answer?,
            }
        }
        Ok(())
    }
}

/// Waits until everything that happened before now is in the transfer log. `false`: it takes too long.
async fn settles(source: &ResyncSource) -> StoreResult<bool> {
    sleep(source.settle).await;
    let ends = source.progress.ends().await?;
    let until = Instant::now() + PASSES_WITHIN;
    while !source.progress.passes(&ends, ASK_FOR).await? {
        if Instant::now() >= until {
            return Ok(false);
        }
    }
    Ok(true)
}

/// These documents as they are now.
pub(super) async fn look(
    source: &ResyncSource,
    run: &HeavyRun,
    place: &Place,
    collection: &CollectionName,
    documents: Vec<InHand>,
) -> StoreResult<Seen> {
    let keys = documents.iter().map(|document| document.key.clone()).collect();
    let found = source.documents.again(collection, keys).await?;
    let mut texts: BTreeMap<DocumentKey, Option<String>> =
        found.into_iter().map(|document| (document.key, document.text)).collect();
    let client = &run.row.client;
    let seen = documents.into_iter().map(|InHand { key, id }| {
        let text = texts.remove(&key).flatten().filter(|text| {
            let sight = Sight { collection, id: &id, text: Some(text), ts_ms: place.ts_ms };
            source.routes.is_of(client, sight)
        });
        (key, (id, text))
    });
    Ok(Seen(seen.collect()))
}

/// What the client gets of these. Those of which it gets nothing are taken out.
fn transfers(
    source: &ResyncSource,
    run: &mut HeavyRun,
    place: &Place,
    collection: &CollectionName,
    seen: &mut Seen,
) -> Result<Vec<NewTransfer>, Stop> {
    let (name, client) = (run.name(), run.row.client.clone());
    let mut transfers = Vec::with_capacity(seen.len());
    let (mut unsent, mut stop) = (Vec::new(), None);
    seen.0.retain(|_, (id, text)| {
        let sight = Sight { collection, id, text: text.as_deref(), ts_ms: place.ts_ms };
        match source.routes.transfer(&name, &client, sight) {
            Ok(transfer) => {
                transfers.push((transfer, text.is_some()));
                true
            }
            Err(Unsent::Skip(
                reason @ (SkipReason::Filtered | SkipReason::Revoked | SkipReason::ClientConfig),
            )) => {
                unsent.push(reason.as_str());
                false
            }
            Err(Unsent::Unreadable) => {
                unsent.push("unreadable");
                false
            }
            Err(Unsent::Skip(reason)) => {
                stop.get_or_insert(reason);
                false
            }
        }
    });
    if let Some(reason) = stop {
        return Err(Stop::Never(format!("nothing is sent to the client: {}", reason.as_str())));
    }
    unsent.into_iter().for_each(|reason| run.count(reason, 1));
    let sent = transfers.iter().filter(|(_, is_there)| *is_there).count();
    run.count("sent", sent);
    run.count("deleted", transfers.len() - sent);
    Ok(transfers.into_iter().map(|(transfer, _)| transfer).collect())
}
