//! Which records of a partition are settled, and up to where the partition may be committed.

use std::collections::VecDeque;

/// The records of one partition that were received and are not committed, in the order received.
/// "Contiguous" is by that order, not by number: offsets have gaps.
#[derive(Debug, Default)]
pub struct CommitWindow {
    records: VecDeque<(i64, bool)>,
    unsettled: usize,
}

impl CommitWindow {
    /// Adds a record. Offsets rise.
    pub fn received(&mut self, offset: i64) {
        debug_assert!(self.records.back().is_none_or(|(last, _)| *last < offset));
        self.records.push_back((offset, false));
        self.unsettled += 1;
    }

    /// Marks a record as settled: delivered, or durable elsewhere. Settling twice, or a record that is
    /// not here, changes nothing.
    pub fn settle(&mut self, offset: i64) {
        if let Ok(index) = self.records.binary_search_by_key(&offset, |(offset, _)| *offset) {
            let (_, settled) = &mut self.records[index];
            if !*settled {
                *settled = true;
                self.unsettled -= 1;
            }
        }
    }

    /// Takes the settled records from the front. Returns the offset to commit: the one after the last
    /// record taken. `None` when the first record is not settled.
    pub fn advance(&mut self) -> Option<i64> {
        let mut next = None;
        while let Some((offset, true)) = self.records.front() {
            next = Some(offset + 1);
            self.records.pop_front();
        }
        next
    }

    /// How many records are not settled. Records that are settled behind a gap do not count.
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_the_longest_settled_prefix_by_order_received() {
        let mut window = CommitWindow::default();
        for offset in [5, 6, 9, 12] {
            window.received(offset);
        }
        window.settle(6);
        window.settle(12);
        assert_eq!(window.advance(), None);
        assert_eq!(window.unsettled(), 2);
        window.settle(5);
        assert_eq!(window.advance(), Some(7));
        window.settle(9);
        window.settle(9);
        window.settle(100);
        assert_eq!(window.advance(), Some(13));
        assert_eq!(window.unsettled(), 0);
        assert_eq!(window.advance(), None);
    }
}
