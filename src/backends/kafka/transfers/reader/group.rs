//! What the group gives to the reader of the transfer log, and takes from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{Queue, Running};
use crate::backends::kafka::filling::Filling;
use crate::backends::kafka::gaps::Stream;
use crate::backends::kafka::member::{self, Rebalance};
use crate::backends::kafka::offsets::{self, Begin, Partition, list_of, partitions_of};
use crate::backends::kafka::options::REQUEST_TIMEOUT;
use crate::ports::event_log::{Left, TransferEvent};
use crate::ports::{StoreError, StoreResult};

/// A revoked partition is waited for this long: a request may take a minute.
const LEAVING: Duration = Duration::from_secs(65);

/// Partitions that go to another member when they were left.
pub(super) struct Leaving {
    list: TopicPartitionList,
    partitions: BTreeSet<u32>,
    left: Arc<AtomicBool>,
    until: Instant,
}

/// Held by whoever still uses revoked partitions.
struct Using {
    left: Arc<AtomicBool>,
    reader: Thread,
}

impl Drop for Using {
    fn drop(&mut self) {
        self.left.store(true, Ordering::Release);
        self.reader.unpark();
    }
}

impl Running {
    /// Answers the group, one thing after the other.
    pub(super) fn rebalance(&mut self) {
        loop {
            if self.leaving.is_some() && !self.left() {
                return;
            }
            let wanted = self.assigning.take().map(Rebalance::Assign).or_else(|| self.member.wanted());
            match wanted {
                Some(Rebalance::Assign(list)) if Instant::now() < self.ask_again => {
                    self.assigning = Some(list);
                    return;
                }
                Some(Rebalance::Assign(list)) => self.assign(list),
                Some(Rebalance::Revoke(list)) => self.revoke(list),
                None => return,
            }
            if self.is_over {
                return;
            }
        }
    }

    fn assign(&mut self, list: TopicPartitionList) {
        match self.take(&list) {
            Ok(begins) => {
                self.beginning.worked();
                let committed =
                    begins.iter().map(|(partition, begin)| (number(partition), begin.from)).collect();
                self.shared.lock().places.assign(committed);
                self.shared.changed.notify_waiters();
                self.committer.prove();
            }
            Err(err) => {
                log::warn!("transfer partitions are not read yet err={err}");
                self.is_over = self.beginning.failed(&self.consumer);
                self.ask_again = Instant::now() + Duration::from_secs(1);
                self.assigning = Some(list);
            }
        }
    }

    /// Reads these partitions from their committed offsets on.
    fn take(&mut self, list: &TopicPartitionList) -> StoreResult<BTreeMap<Partition, Begin>> {
        let partitions = partitions_of(list);
        let begins = offsets::begins(&self.consumer, &partitions, REQUEST_TIMEOUT)?;
        for partition in &partitions {
            self.open(partition)?;
        }
        let from = begins.iter().map(|(partition, begin)| (partition, Offset::Offset(begin.from)));
        member::take(&self.consumer, &list_of(from)?)?;
        for (partition, begin) in &begins {
            self.gaps.say(Stream::Transfer, partition, *begin);
        }
        Ok(begins)
    }

    /// Gives a partition a queue of its own, before anything of it comes.
    fn open(&mut self, partition: &Partition) -> StoreResult<()> {
        let queue = self.consumer.split_partition_queue(&partition.0, partition.1);
        let mut records =
            queue.ok_or_else(|| StoreError::Unavailable("a partition is not known yet".to_owned()))?;
        let reader = thread::current();
        records.set_nonempty_callback(move || reader.unpark());
        let queue = Queue { records, filling: Filling::new(self.limits), stuck: false };
        self.queues.insert(number(partition), queue);
        Ok(())
    }

    fn revoke(&mut self, list: TopicPartitionList) {
        if self.consumer.assignment_lost() {
            self.lose();
        }
        let all = self.shared.lock().places.all();
        let partitions: BTreeSet<u32> =
            partitions_of(&list).iter().map(number).filter(|partition| all.contains_key(partition)).collect();
        let left = Arc::new(AtomicBool::new(false));
        let leaving = Leaving { list, partitions, left: Arc::clone(&left), until: Instant::now() + LEAVING };
        if leaving.partitions.is_empty() {
            return self.let_go(&leaving);
        }
        self.close_queues(&leaving.partitions);
        let using = Using { left, reader: thread::current() };
        let event = TransferEvent::Revoked { partitions: leaving.partitions.clone(), left: Left::new(using) };
        self.shared.lock().places.leave(&leaving.partitions, event);
        self.shared.changed.notify_waiters();
        self.leaving = Some(leaving);
    }

    /// Whether nobody uses the revoked partitions any more, or nobody may: then they are let go.
    fn left(&mut self) -> bool {
        if self.consumer.assignment_lost() {
            self.lose();
        }
        let done = self.leaving.take_if(|leaving| {
            leaving.left.load(Ordering::Acquire)
                || leaving.until <= Instant::now()
                || self.shared.lock().places.all().keys().all(|ours| !leaving.partitions.contains(ours))
        });
        let Some(leaving) = done else { return false };
        if !leaving.left.load(Ordering::Acquire) {
            log::warn!(
                "revoked partitions are let go although they are in use partitions={:?}",
                leaving.partitions
            );
        }
        self.let_go(&leaving);
        true
    }

    fn let_go(&self, leaving: &Leaving) {
        let _committing = self.shared.committing();
        self.shared.lock().places.end(&leaving.partitions);
        if let Err(err) = member::let_go(&self.consumer, &leaving.list) {
            log::warn!("transfer partitions were not let go err={err}");
        }
    }

    /// Everything is another's already.
    fn lose(&mut self) {
        let lost = {
            let mut state = self.shared.lock();
            if state.places.all().is_empty() {
                return;
            }
            // Before it is told: whoever is told gives the permission back.
            self.shared.permission.withdraw();
            state.places.lose()
        };
        self.shared.changed.notify_waiters();
        self.close_queues(&lost);
    }

    fn close_queues(&mut self, partitions: &BTreeSet<u32>) {
        for partition in partitions {
            self.queues.remove(partition);
            self.out_of_range.remove(partition);
            self.watch.is_free(*partition);
        }
    }

    /// Goes on where librdkafka has given up: behind what is gone, or at the same place when it can be read after all.
    pub(super) fn mend(&mut self) {
        // Not while the group waits for an answer: it would take this for one.
        let busy = self.leaving.is_some() || self.assigning.is_some();
        if self.out_of_range.is_empty() || busy || Instant::now() < self.ask_again {
            return;
        }
        match self.mend_all() {
            Ok(mended) => self.out_of_range.retain(|number| !mended.contains(number)),
            Err(err) => log::warn!("transfer partitions are not read on yet err={err}"),
        }
        if !self.out_of_range.is_empty() {
            self.ask_again = Instant::now() + Duration::from_secs(1);
        }
    }

    /// Returns those that are read on. Not yet those whose broker does not tell where they begin and end.
    fn mend_all(&mut self) -> StoreResult<BTreeSet<u32>> {
        let all = self.shared.lock().places.all();
        self.out_of_range.retain(|number| all.contains_key(number));
        let ours = all.into_iter().filter(|(number, _)| self.out_of_range.contains(number));
        let mut next: BTreeMap<Partition, i64> =
            ours.map(|(number, committed)| (self.partition(number), committed)).collect();
        offsets::advance(&self.consumer, &mut next);
        let partitions: Vec<Partition> = next.keys().cloned().collect();
        let begins = offsets::resume(&self.consumer, &partitions, &next, REQUEST_TIMEOUT)?;
        if begins.is_empty() {
            return Ok(BTreeSet::new());
        }
        for partition in begins.keys() {
            let number = number(partition);
            // What was read before is still good.
            let filling = self.queues.remove(&number).map(|queue| queue.filling);
            self.open(partition)?;
            if let (Some(filling), Some(queue)) = (filling, self.queues.get_mut(&number)) {
                queue.filling = filling;
            }
        }
        let list = list_of(begins.iter().map(|(partition, begin)| (partition, Offset::Offset(begin.from))))?;
        member::take_again(&self.consumer, &list)?;
        begins.iter().for_each(|(partition, begin)| self.gaps.say(Stream::Transfer, partition, *begin));
        Ok(begins.keys().map(number).collect())
    }

    fn partition(&self, number: u32) -> Partition {
        (Arc::clone(&self.topic), i32::try_from(number).unwrap_or(i32::MAX))
    }
}

fn number(partition: &Partition) -> u32 {
    u32::try_from(partition.1).unwrap_or(u32::MAX)
}
