//! Which partitions the reader of the source stream has, and where it goes on in each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::super::places::is_of;
use super::Running;
use crate::backends::kafka::gaps::Stream;
use crate::backends::kafka::member::{self, Rebalance};
use crate::backends::kafka::offsets::{self, Begin, Partition, list_of, partitions_of};
use crate::backends::kafka::options::REQUEST_TIMEOUT;
use crate::ports::{StoreError, StoreResult};

impl Running {
    pub(super) fn rewind(&mut self) -> StoreResult<()> {
        let gone_back = self.go_back();
        match gone_back {
            Ok(()) => self.beginning.worked(),
            Err(_) => self.is_over = self.beginning.failed(&self.consumer),
        }
        gone_back
    }

    fn go_back(&mut self) -> StoreResult<()> {
        self.astray = true;
        self.filling.clear();
        self.transactions.end_last()?;
        let ours = {
            let mut state = self.shared.lock();
            state.places.forget_batch();
            state.places.all()
        };
        let partitions: Vec<Partition> = ours.into_keys().collect();
        let begins = offsets::begins(&self.consumer, &partitions, REQUEST_TIMEOUT)?;
        self.seek(&begins)?;
        self.began(&begins);
        self.astray = false;
        Ok(())
    }

    /// Reads these partitions, which are ours, from there on.
    fn seek(&self, begins: &BTreeMap<Partition, Begin>) -> StoreResult<()> {
        if begins.is_empty() {
            return Ok(());
        }
        let sought = self.consumer.seek_partitions(starts(begins)?, REQUEST_TIMEOUT)?;
        let failed = sought.elements().into_iter().filter(|element| element.error().is_err());
        let failed: BTreeSet<Partition> =
            failed.map(|element| (Arc::from(element.topic()), element.partition())).collect();
        let mut given_up = begins.clone();
        given_up.retain(|partition, _| failed.contains(partition));
        self.read_again(&given_up)
    }

    /// Reads these partitions from there on, although librdkafka has given them up where they were: then they cannot be sought.
    pub(super) fn read_again(&self, begins: &BTreeMap<Partition, Begin>) -> StoreResult<()> {
        // Not while the group waits for an answer: it would take this for one.
        if begins.is_empty() {
            return Ok(());
        }
        if self.assigning.is_some() {
            return Err(StoreError::Unavailable("the group waits for an answer".to_owned()));
        }
        Ok(member::take_again(&self.consumer, &starts(begins)?)?)
    }

    fn began(&mut self, begins: &BTreeMap<Partition, Begin>) {
        let mut state = self.shared.lock();
        for (partition, begin) in begins {
            self.gaps.say(Stream::Source, partition, *begin);
            self.filling.retain(|record| !is_of(record, partition));
            state.places.begin(partition.clone(), begin.from);
        }
    }

    /// Answers the group.
    pub(super) fn rebalance(&mut self) {
        if let Some(list) = self.assigning.take() {
            self.assign(list);
        }
        while self.assigning.is_none() {
            match self.member.wanted() {
                Some(Rebalance::Assign(list)) => self.assign(list),
                Some(Rebalance::Revoke(list)) => self.revoke(&list),
                None => return,
            }
        }
    }

    fn assign(&mut self, list: TopicPartitionList) {
        if Instant::now() < self.ask_again {
            self.assigning = Some(list);
            return;
        }
        match self.take(&list) {
            Ok(begins) => {
                self.beginning.worked();
                self.began(&begins);
            }
            Err(err) => {
                log::warn!("source partitions are not read yet err={err}");
                self.is_over = self.beginning.failed(&self.consumer);
                self.wait_before_asking();
                self.assigning = Some(list);
            }
        }
    }

    /// Reads these partitions from their committed offsets on.
    fn take(&mut self, list: &TopicPartitionList) -> StoreResult<BTreeMap<Partition, Begin>> {
        self.transactions.end_last()?;
        let begins = offsets::begins(&self.consumer, &partitions_of(list), REQUEST_TIMEOUT)?;
        member::take(&self.consumer, &starts(&begins)?)?;
        Ok(begins)
    }

    fn revoke(&mut self, list: &TopicPartitionList) {
        {
            let mut state = self.shared.lock();
            for partition in partitions_of(list) {
                self.filling.retain(|record| !is_of(record, &partition));
                state.places.end(&partition);
            }
        }
        if let Err(err) = member::let_go(&self.consumer, list) {
            log::warn!("source partitions were not let go err={err}");
        }
    }

    /// Goes on where librdkafka has given up: behind what is gone, or at the same place when it can be read after all.
    pub(super) fn mend(&mut self) {
        if self.given_up.is_empty() || self.assigning.is_some() || Instant::now() < self.ask_again {
            return;
        }
        let mut next = self.positions();
        next.retain(|partition, _| self.given_up.contains(partition));
        self.given_up.retain(|partition| next.contains_key(partition));
        let partitions: Vec<Partition> = next.keys().cloned().collect();
        let begins = offsets::resume(&self.consumer, &partitions, &next, REQUEST_TIMEOUT);
        match begins.and_then(|begins| self.read_again(&begins).map(|()| begins)) {
            Ok(begins) => {
                // What was read before is still good.
                begins.iter().for_each(|(partition, begin)| self.gaps.say(Stream::Source, partition, *begin));
                self.given_up.retain(|partition| !begins.contains_key(partition));
            }
            Err(err) => log::warn!("source partitions are not read on yet err={err}"),
        }
        if !self.given_up.is_empty() {
            self.wait_before_asking();
        }
    }

    fn wait_before_asking(&mut self) {
        self.ask_again = Instant::now() + Duration::from_secs(1);
    }

    /// The next offset to read of each partition.
    pub(super) fn positions(&self) -> BTreeMap<Partition, i64> {
        let mut positions = self.shared.lock().places.all();
        offsets::advance(&self.consumer, &mut positions);
        positions
    }
}

/// Partitions with the offsets to begin with.
fn starts(begins: &BTreeMap<Partition, Begin>) -> StoreResult<TopicPartitionList> {
    Ok(list_of(begins.iter().map(|(partition, begin)| (partition, Offset::Offset(begin.from))))?)
}
