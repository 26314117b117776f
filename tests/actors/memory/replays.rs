//! Replays: rows of the stash that were given up, and wait again.

use dispatcher::domain::dead_row::{OwnRow, may_come_back};
use dispatcher::domain::stash::RowState;
use dispatcher::domain::transfer::{Transfer, TransferKind};

use super::stash::{Row, StashData};

impl StashData {
    /// What is known of a row to who wants to replay it.
    pub(crate) fn own_row(&self, row: &Row) -> OwnRow {
        let newer_waits = self.rows_of(&row.transfer.client).any(|other| {
            other.state == RowState::Pending
                && other.transfer.document_hash == row.transfer.document_hash
                && other.transfer.sequence > row.transfer.sequence
        });
        OwnRow { state: row.state, newer_waits }
    }

    /// A replay came from the log.
    pub(crate) fn replay(&mut self, replay: &Transfer) {
        let forced = replay.kind == TransferKind::ForcedReplay;
        let found = self.rows_of(&replay.client).find(|row| row.transfer.event_id == replay.event_id);
        let known = found.map(|row| self.own_row(row));
        let Some(mut row) = found.cloned().filter(|_| may_come_back(known, forced).is_ok()) else { return };
        self.remove(&row.transfer.client, &row.transfer.event_id);
        let mut transfer = Transfer::clone(&row.transfer);
        transfer.content.kind = replay.kind;
        if forced {
            transfer.sequence = replay.sequence;
        }
        row.transfer = transfer.into();
        (row.state, row.claim, row.next_attempt_at_ms) = (RowState::Pending, None, 0);
        self.put(row);
    }
}
