//! How far a group has come, asked by who is not its member.

use std::time::Duration;

use dispatcher::ports::event_log::EventLog as _;
use dispatcher::ports::source_progress::{SourcePlaces, SourceProgress};

use super::{KafkaBackend, LIMITS, append, read, until, work};
use crate::fixture::soon;

/// What it was asked for long enough to be asked more than once.
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(15);

/// The ends, once they lie behind these: a transaction that is committed can be read a moment later.
async fn ends_behind(progress: &dyn SourceProgress, before: &SourcePlaces) -> SourcePlaces {
    let mut ends = SourcePlaces::default();
    until("the ends of the topics rise", async || {
        ends = progress.ends().await.unwrap();
        ends.0.iter().any(|(partition, end)| before.0.get(partition).copied().unwrap_or(0) < *end)
    })
    .await;
    ends
}

/// The end of a transaction is an offset too, and nobody commits it.
#[tokio::test]
async fn a_group_has_passed_what_it_committed() {
    let backend = KafkaBackend::new();
    let log = backend.replica().await.unwrap();
    let (topic, group) = (backend.topic("coll"), backend.group("g"));
    let progress = log.source_progress(&group);
    assert_eq!(soon(progress.ends()).await, Ok(SourcePlaces::default()));
    assert_eq!(soon(progress.passes(&SourcePlaces::default(), SHORT)).await, Ok(true));

    append(&log, &topic, &["1", "2", "3"]).await;
    let ends = ends_behind(&*progress, &SourcePlaces::default()).await;
    assert!(ends.has_topic(&topic) && !ends.has_topic("other"), "{ends:?}");
    let source = log.source(&group, LIMITS).await.unwrap();
    let records = read(&*source, 3).await;
    assert_eq!(soon(progress.passes(&ends, SHORT)).await, Ok(false), "they are read, and not committed");
    source.commit(work(&records[..2])).await.unwrap();
    assert_eq!(soon(progress.passes(&ends, SHORT)).await, Ok(false));
    source.commit(work(&records[2..])).await.unwrap();
    assert_eq!(soon(progress.passes(&ends, LONG)).await, Ok(true));

    append(&log, &topic, &["4"]).await;
    assert_eq!(soon(progress.passes(&ends, LONG)).await, Ok(true), "what came later does not matter");
    let later = ends_behind(&*progress, &ends).await;
    assert_eq!(soon(progress.passes(&later, SHORT)).await, Ok(false));
    let passes = progress.passes(&later, LONG);
    let committed = async { source.commit(work(&read(&*source, 1).await)).await };
    let (passed, committed) = tokio::join!(passes, committed);
    assert_eq!((passed, committed), (Ok(true), Ok(())));
}
