//! The work of ingest as records of one transaction.

use std::sync::Arc;

use super::producer::Outgoing;
use super::{dead, record};
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
    /// The largest record of the transfer topic.
    pub(super) transfer_bytes: usize,
    pub(super) dead: Arc<str>,
    /// The largest record of the dead topic.
    pub(super) dead_bytes: usize,
}

impl Destinations {
    /// The records of `work`, in order. A transfer that the topic will never take is a dead letter among them.
    pub(super) fn records(&self, work: &IngestWork) -> StoreResult<Vec<Outgoing>> {
        let mut records = Vec::with_capacity(work.transfers.len() + work.dead_letters.len());
        for transfer in &work.transfers {
            if size(transfer) <= self.transfer_bytes {
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
        let record = |transfer: &NewTransfer| {
            if size(transfer) <= self.transfer_bytes {
                return Ok(record::encode(transfer, &self.transfers, self.partitions));
            }
            let (event, bytes) = (&transfer.event_id, transfer.body.len());
            Err(StoreError::Refused(format!("{event} has {bytes} bytes: more than the transfer topic takes")))
        };
        transfers.iter().map(record).collect()
    }

    /// The record of a dead letter.
    pub(super) fn letter(&self, letter: &DeadLetter) -> StoreResult<Outgoing> {
        dead::encode(letter, &self.dead, self.dead_bytes)
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
