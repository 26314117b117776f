//! Where partitions begin and end, and how far a group has come. All of it blocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::errors::store_error;
use crate::ports::{StoreError, StoreResult};

/// A partition of a topic.
pub(super) type Partition = (Arc<str>, i32);

/// The partitions of a list.
pub(super) fn partitions_of(list: &TopicPartitionList) -> Vec<Partition> {
    let elements = list.elements();
    elements.iter().map(|element| (Arc::from(element.topic()), element.partition())).collect()
}

/// A list of partitions, each with its offset.
pub(super) fn list_of<'a>(
    offsets: impl IntoIterator<Item = (&'a Partition, Offset)>,
) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for ((topic, partition), offset) in offsets {
        list.add_partition_offset(topic, *partition, offset)?;
    }
    Ok(list)
}

/// The offsets that a list holds; partitions without one are left out.
fn offsets_of(list: &TopicPartitionList) -> KafkaResult<BTreeMap<Partition, i64>> {
    let mut offsets = BTreeMap::new();
    for element in list.elements() {
        match element.error() {
            Ok(()) => {}
            // It was deleted just now.
            Err(err) if err.rdkafka_error_code() == Some(Code::UnknownTopicOrPartition) => continue,
            Err(err) => return Err(err),
        }
        if let Offset::Offset(offset) = element.offset() {
            offsets.insert((Arc::from(element.topic()), element.partition()), offset);
        }
    }
    Ok(offsets)
}

/// What the group of this consumer has committed. A transaction that is not ended is waited for. Partitions of which nothing is
/// committed are left out.
pub(super) fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &[Partition],
    timeout: Duration,
) -> StoreResult<BTreeMap<Partition, i64>> {
    if partitions.is_empty() {
        return Ok(BTreeMap::new());
    }
    again_until(Instant::now() + timeout, |left| {
        let list = list_of(partitions.iter().map(|partition| (partition, Offset::Invalid)))?;
        offsets_of(&consumer.committed_offsets(list, left)?)
    })
}

/// Asks again while the answer says that the brokers are finding out who is in charge.
fn again_until<T>(
    deadline: Instant,
    mut ask: impl FnMut(Duration) -> Result<T, KafkaError>,
) -> StoreResult<T> {
    loop {
        match ask(deadline.saturating_duration_since(Instant::now())) {
            Ok(answer) => return Ok(answer),
            Err(err) if err.rdkafka_error_code().is_some_and(passes) && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(100));
            }
            Err(err) => return Err(store_error(err)),
        }
    }
}

fn passes(code: Code) -> bool {
    matches!(
        code,
        Code::NotCoordinator
            | Code::CoordinatorNotAvailable
            | Code::CoordinatorLoadInProgress
            | Code::NotLeaderForPartition
            | Code::LeaderNotAvailable
            | Code::OffsetNotAvailable
    )
}

/// A point of a partition that the brokers know.
#[derive(Debug, Clone, Copy)]
pub(super) enum Point {
    /// The oldest record that is left.
    Low,
    /// Behind the last record that may be read.
    End,
    /// The first record of this time or later.
    At(i64),
}

/// Where this point is. Partitions that have no such record are left out, and those that cannot be asked while others can: a broker
/// that is away must not hold up the partitions of the others. Takes `timeout` twice at most.
pub(super) fn find<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &[Partition],
    point: Point,
    timeout: Duration,
) -> StoreResult<BTreeMap<Partition, i64>> {
    if partitions.is_empty() {
        return Ok(BTreeMap::new());
    }
    // The brokers are asked for a time; two of them have a meaning.
    let time = match point {
        Point::Low => Offset::Beginning,
        Point::End => Offset::End,
        Point::At(ms) => Offset::Offset(ms.max(0)),
    };
    let asked = |partitions: &[Partition], timeout: Duration| {
        again_until(Instant::now() + timeout, |left| {
            let list = list_of(partitions.iter().map(|partition| (partition, time)))?;
            offsets_of(&consumer.offsets_for_times(list, left)?)
        })
    };
    let all = asked(partitions, timeout);
    if all.is_ok() || partitions.len() == 1 {
        return all;
    }
    let until = Instant::now() + timeout;
    let each = |one| match until.saturating_duration_since(Instant::now()).min(ALONE) {
        Duration::ZERO => Err(StoreError::Unavailable("the others took too long".to_owned())),
        left => asked(std::slice::from_ref(one), left),
    };
    let each: Vec<_> = partitions.iter().map(each).collect();
    if each.iter().all(Result::is_err) {
        return all;
    }
    Ok(each.into_iter().flatten().flatten().collect())
}

/// A partition that is asked alone must answer within this time.
const ALONE: Duration = Duration::from_millis(500);

/// How many offsets lie between where reading has come to and the ends.
pub(super) fn unread(positions: &BTreeMap<Partition, i64>, ends: &BTreeMap<Partition, i64>) -> u64 {
    let unread = positions.iter().filter_map(|(partition, next)| u64::try_from(ends.get(partition)? - next).ok());
    unread.sum()
}

/// Moves these on to where the consumer has come to: behind the last record that was polled, and the ends of transactions after it.
pub(super) fn advance<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    positions: &mut BTreeMap<Partition, i64>,
) {
    let Ok(list) = consumer.position() else { return };
    for element in list.elements() {
        let partition = (Arc::from(element.topic()), element.partition());
        if let (Offset::Offset(next), Some(position)) = (element.offset(), positions.get_mut(&partition)) {
            *position = next.max(*position);
        }
    }
}

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begin {
    /// The first offset to read.
    pub(super) from: i64,
    /// The committed offset that cannot be read: what was between is gone.
    pub(super) gap: Option<i64>,
}

/// Where reading goes on that has come to `next` (nothing: at the oldest record), in a partition from `low` to `end`.
pub(super) fn begin(next: Option<i64>, low: i64, end: i64) -> Begin {
    match next {
        None => Begin { from: low, gap: None },
        Some(next) if (low..=end).contains(&next) => Begin { from: next, gap: None },
        Some(next) => Begin { from: low, gap: Some(next) },
    }
}

/// Where reading of these partitions begins, by what is committed and what is there.
pub(super) fn begins<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &[Partition],
    timeout: Duration,
) -> StoreResult<BTreeMap<Partition, Begin>> {
    let committed = committed(consumer, partitions, timeout)?;
    let mut begins = resume(consumer, partitions, &committed, timeout)?;
    // What is committed is right mostly. Where it is not, the first fetch tells.
    let as_committed =
        |partition: &Partition| Begin { from: committed.get(partition).copied().unwrap_or(0), gap: None };
    for partition in partitions {
        begins.entry(partition.clone()).or_insert_with(|| as_committed(partition));
    }
    Ok(begins)
}

/// Where reading goes on that has come to `next`. Partitions whose ends cannot be asked are left out.
pub(super) fn resume<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &[Partition],
    next: &BTreeMap<Partition, i64>,
    timeout: Duration,
) -> StoreResult<BTreeMap<Partition, Begin>> {
    let low = find(consumer, partitions, Point::Low, timeout)?;
    let end = find(consumer, partitions, Point::End, timeout)?;
    let place = |partition: &Partition| {
        let (low, end) = (low.get(partition)?, end.get(partition)?);
        Some((partition.clone(), begin(next.get(partition).copied(), *low, *end)))
    };
    Ok(partitions.iter().filter_map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_a_gap() {
        assert_eq!(begin(None, 5, 9), Begin { from: 5, gap: None });
        assert_eq!(begin(Some(5), 5, 9), Begin { from: 5, gap: None });
        assert_eq!(begin(Some(9), 5, 9), Begin { from: 9, gap: None });
        assert_eq!(begin(Some(4), 5, 9), Begin { from: 5, gap: Some(4) });
        // The topic was made again, and is shorter.
        assert_eq!(begin(Some(10), 5, 9), Begin { from: 5, gap: Some(10) });
    }
}
