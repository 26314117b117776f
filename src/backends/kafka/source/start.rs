//! Where a group begins that was never seen before: its first offsets are committed before anybody joins it. What appears later
//! begins at its oldest record.

use std::collections::BTreeMap;
use std::time::Instant;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::topic_partition_list::Offset;

use super::super::errors::store_error;
use super::super::member::Member;
use super::super::offsets::{self, Partition, Point, list_of};
use super::super::options::{REQUEST_TIMEOUT, Start};
use crate::ports::{StoreError, StoreResult};

/// Commits where the group begins, not later than `until`: another may do it then. Blocks.
pub(in super::super) fn begin_group(
    config: &ClientConfig,
    member: Member,
    partitions: &[Partition],
    start: Start,
    until: Instant,
) -> StoreResult<()> {
    let consumer: BaseConsumer<Member> = config.create_with_context(member)?;
    let known = offsets::committed(&consumer, partitions, REQUEST_TIMEOUT)?;
    let unknown: Vec<Partition> =
        partitions.iter().filter(|partition| !known.contains_key(*partition)).cloned().collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let first = first_offsets(&consumer, &unknown, start)?;
    let list = list_of(first.iter().map(|(partition, offset)| (partition, Offset::Offset(*offset))))?;
    if Instant::now() >= until {
        return Err(StoreError::Unavailable("the brokers took too long to begin the group".to_owned()));
    }
    match consumer.commit(&list, CommitMode::Sync) {
        Ok(()) => {
            log::info!("source group begins start={start:?} partitions={}", first.len());
            Ok(())
        }
        // Another replica was quicker, and the next look finds the group begun; or somebody who does not ask our registry reads with its name,
        // and must stop first: where he did not commit anything we would begin at the oldest record.
        Err(KafkaError::ConsumerCommit(Code::UnknownMemberId | Code::IllegalGeneration)) => Err(
            StoreError::Unavailable("the source group has members: its start is not set yet".to_owned()),
        ),
        Err(err) => Err(store_error(err)),
    }
}

fn first_offsets(
    consumer: &BaseConsumer<Member>,
    partitions: &[Partition],
    start: Start,
) -> StoreResult<BTreeMap<Partition, i64>> {
    let point = match start {
        Start::Earliest => Point::Low,
        Start::Now => Point::End,
        Start::At(ms) => Point::At(ms),
    };
    let mut first = offsets::find(consumer, partitions, point, REQUEST_TIMEOUT)?;
    // Nothing is as young as that: what comes is.
    let rest: Vec<Partition> =
        partitions.iter().filter(|partition| !first.contains_key(*partition)).cloned().collect();
    first.extend(offsets::find(consumer, &rest, Point::End, REQUEST_TIMEOUT)?);
    Ok(first)
}

/// Says so when nothing is known of where a group goes on that has begun. Blocks.
pub(in super::super) fn look_for_beginning(
    config: &ClientConfig,
    member: Member,
    partitions: &[Partition],
) -> StoreResult<()> {
    if partitions.is_empty() {
        return Ok(());
    }
    let consumer: BaseConsumer<Member> = config.create_with_context(member)?;
    if offsets::committed(&consumer, partitions, REQUEST_TIMEOUT)?.is_empty() {
        log::error!("source group has lost its offsets: it reads everything that is left");
    }
    Ok(())
}
