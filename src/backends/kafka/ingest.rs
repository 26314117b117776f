//! The work of ingest as records of one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rdkafka::admin::AdminClient;

use super::options::MAX_RECORD_BYTES;
use super::producer::Outgoing;
use super::watch::Watch;
use super::{dead, record, topics};
use crate::domain::transfer::NewTransfer;
use crate::ports::event_log::{DeadLetter, IngestWork};
use crate::ports::{StoreError, StoreResult};

/// What the headers of a transfer and the frame of a record may take.
const FRAME_BYTES: usize = 4 * 1024;

/// Where transfers and dead letters go.
#[derive(Clone)]
pub(super) struct Destinations {
    pub(super) transfers: Arc<str>,
    pub(super) partitions: u32,
    pub(super) dead: Arc<str>,
    pub(super) limits: Arc<Limits>,
}

/// The largest records that our topics take, as far as it is known: operators change it at run time.
pub(super) struct Limits {
    transfers: AtomicUsize,
    dead: AtomicUsize,
}

impl Limits {
    pub(super) fn new(transfers: usize, dead: usize) -> Self {
        Self { transfers: AtomicUsize::new(transfers), dead: AtomicUsize::new(dead) }
    }

    fn transfers(&self) -> usize {
        self.transfers.load(Ordering::Relaxed)
    }

    fn dead(&self) -> usize {
        self.dead.load(Ordering::Relaxed)
    }
}

impl Destinations {
    /// A batch of records that both topics take.
    pub(super) fn batch_bytes(&self) -> usize {
        self.limits.transfers().min(self.limits.dead())
    }

    /// Whether one of these transfers is larger than what the topic took when it was asked last. It may take more by now.
    pub(super) fn is_too_small_for(&self, transfers: &[NewTransfer]) -> bool {
        let most = self.limits.transfers();
        transfers.iter().map(size).any(|size| size > most && size <= MAX_RECORD_BYTES)
    }

    /// Asks the brokers what the topics take.
    pub(super) async fn read_limits(&self, admin: &AdminClient<Watch>) -> StoreResult<()> {
        for (topic, limit) in [(&self.transfers, &self.limits.transfers), (&self.dead, &self.limits.dead)] {
            let Some(most) = topics::largest_record(admin, topic).await? else { continue };
            if limit.swap(most, Ordering::Relaxed) != most {
                log::warn!("topic takes other records than before topic={topic} max.message.bytes={most}");
            }
        }
        Ok(())
    }

    /// The records of `work`, in order. A transfer that the topic will never take is a dead letter among them.
    pub(super) fn records(&self, work: &IngestWork) -> StoreResult<Vec<Outgoing>> {
        let mut records = Vec::with_capacity(work.transfers.len() + work.dead_letters.len());
        let most = self.limits.transfers();
        for transfer in &work.transfers {
            if size(transfer) <= most {
                records.push(record::encode(transfer, &self.transfers, self.partitions));
            } else {
                let letter = too_large(transfer);
                log::error!(
                    "transfer is too large, kept as dead letter client={} source={} bytes={}",
                    transfer.client,
                    transfer.source,
                    transfer.body.len()
                );
                records.push(self.letter(&letter)?);
            }
        }
        for letter in &work.dead_letters {
            records.push(self.letter(letter)?);
        }
        Ok(records)
    }

    /// The records of transfers, in order. Refused when the topic will never take one of them.
    pub(super) fn transfers(&self, transfers: &[NewTransfer]) -> StoreResult<Vec<Outgoing>> {
        let most = self.limits.transfers();
        let record = |transfer: &NewTransfer| {
            if size(transfer) <= most {
                return Ok(record::encode(transfer, &self.transfers, self.partitions));
            }
            let (event, bytes) = (&transfer.event_id, transfer.body.len());
            Err(StoreError::Refused(format!("{event} has {bytes} bytes: more than the transfer topic takes")))
        };
        transfers.iter().map(record).collect()
    }

    /// The record of a dead letter.
    pub(super) fn letter(&self, letter: &DeadLetter) -> StoreResult<Outgoing> {
        dead::encode(letter, &self.dead, self.limits.dead())
    }
}

fn size(transfer: &NewTransfer) -> usize {
    // The client stands in the key and in a header.
    FRAME_BYTES + transfer.body.len() + transfer.document.len() + 2 * transfer.client.as_str().len()
}

fn too_large(transfer: &NewTransfer) -> DeadLetter {
    DeadLetter {
        position: transfer.source.clone(),
        timestamp_ms: transfer.ts_ms,
        reason: format!(
            "the change for client {} has {} bytes: more than the transfer topic takes",
            transfer.client,
            transfer.body.len()
        ),
        record: None,
    }
}
