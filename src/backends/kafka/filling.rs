//! A batch that is being filled.

use std::collections::VecDeque;

use crate::ports::event_log::BatchLimits;

/// Collects items up to the limits of a batch; what comes beyond waits for the next.
pub(super) struct Filling<T> {
    limits: BatchLimits,
    items: VecDeque<(usize, T)>,
    bytes: usize,
}

impl<T> Filling<T> {
    pub(super) fn new(limits: BatchLimits) -> Self {
        Self { limits, items: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, weight: usize, item: T) {
        self.bytes += weight;
        self.items.push_back((weight, item));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether a batch is full, or more than full.
    pub(super) fn is_full(&self) -> bool {
        self.items.len() >= self.limits.records || self.bytes >= self.limits.bytes
    }

    /// What waits here, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|(_, item)| item)
    }

    /// The next batch: as much as fits, one item at least.
    pub(super) fn take(&mut self) -> Vec<T> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some((weight, _)) = self.items.front() {
            let fits = batch.len() < self.limits.records && bytes + weight <= self.limits.bytes;
            if !fits && !batch.is_empty() {
                break;
            }
            let Some((weight, item)) = self.items.pop_front() else { break };
            bytes += weight;
            batch.push(item);
        }
        self.bytes -= bytes;
        batch
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.bytes = 0;
    }

    /// Drops the others.
    pub(super) fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) {
        self.items.retain(|(_, item)| wanted(item));
        self.bytes = self.items.iter().map(|(weight, _)| weight).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_keeps_its_limits() {
        let mut filling = Filling::new(BatchLimits { records: 3, bytes: 10 });
        for (weight, item) in
            [(2, 'a'), (7, 'b'), (4, 'c'), (30, 'd'), (1, 'e'), (1, 'f'), (1, 'g'), (1, 'h')]
        {
            filling.push(weight, item);
        }
        assert!(filling.is_full());
        let mut batches = Vec::new();
        while !filling.is_empty() {
            batches.push(filling.take().into_iter().collect::<String>());
        }
        assert_eq!(batches, ["ab", "c", "d", "efg", "h"]);
        assert!(!filling.is_full());
    }
}
