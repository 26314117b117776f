//! What the clock starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dispatcher::domain::access::Caller;
use dispatcher::domain::audit::NewAction;
use dispatcher::domain::config::ClientId;
use dispatcher::domain::delivery::FailureClass;
use dispatcher::domain::stash::{NewRow, RowFailure, StashWrite};
use dispatcher::domain::transfer::{
    DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, Transfer, TransferKind,
};
use dispatcher::ports::StoreError;
use dispatcher::ports::audit::AuditPage;
use dispatcher::ports::clock::SystemClock;
use dispatcher::ports::stash::{Stash, StashBatch};
use dispatcher::workers::queues::{PurgeAudit, PurgeStash, Queue, ReconcileConfigs, ScheduleJob};
use dispatcher::workers::upkeep::Upkeep;
use dispatcher::workers::{Exclusive, OpenQueues, Producer};

use crate::world::{World, eventually, open_in, soon};

/// A dead row for each of the changes.
async fn bury(stash: &dyn Stash, changes: i64) {
    let ownership = stash.take_ownership(1, 0, 0).await.unwrap();
    let client = ClientId::new("c");
    let writes = (0..changes).flat_map(|change| {
        let source = SourcePosition { topic: "mongo.db.coll".into(), partition: 0, offset: change };
        let content = NewTransfer {
            document: "db.coll:1".into(),
            document_hash: DocumentHash::of("db", "coll", "1"),
            event_id: EventId::derive(&source, 0, &client),
            client: client.clone(),
            kind: TransferKind::Live,
            source,
            traceparent: None,
            ts_ms: change,
            body: Bytes::from_static(b"{}"),
        };
        let event_id = content.event_id.clone();
        let sequence = Sequence { incarnation: 1, partition: 0, offset: change };
        let transfer = Arc::new(Transfer { sequence, content });
        let failure = RowFailure {
            class: FailureClass::Payload,
            reason: "status_400".into(),
            status: Some(400),
            next_attempt_at_ms: 0,
        };
        let row = NewRow { transfer, failure: None, claim: None };
        [StashWrite::Insert(row), StashWrite::Dead { event_id, failure }]
    });
    let batch = StashBatch { client: client.clone(), ownership, lease: None, writes: writes.collect() };
    assert_eq!(stash.apply(vec![batch]).await.unwrap(), [Ok(())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upkeep_removes_what_is_old_and_reads_configs_again() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = open_in(folder.path()).await;
    bury(&*embedded.stash(), 1_200).await;
    let audit = embedded.audit();
    for number in 0..3 {
        audit
            .begin(NewAction::new(Caller::loopback(), "pause_client".into(), number.to_string()))
            .await
            .unwrap();
    }
    let actions = async || audit.list(AuditPage { limit: 9, ..AuditPage::default() }).await.unwrap().len();
    let queues = OpenQueues::<Queue>::new(&*embedded.queues());
    let kit = World::of(&*embedded.queues(), None).kit;
    let reloads = Arc::new(AtomicU32::new(0));
    let counted = reloads.clone();
    let exclusive =
        Exclusive { locks: embedded.locks(), clock: Arc::new(SystemClock), metrics: kit.metrics.clone() };
    let upkeep = |stash_ttl| {
        let counted = counted.clone();
        Arc::new(Upkeep {
            stash: embedded.stash(),
            stash_ttl,
            audit: embedded.audit(),
            audit_retention: stash_ttl,
            reload_configs: Arc::new(move || {
                // The first time they cannot be read.
                let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
                let away = || StoreError::Unavailable("away".to_owned());
                Box::pin(async move { if first { Err(away()) } else { Ok(()) } })
            }),
            exclusive: exclusive.clone(),
        })
    };
    let ended = |job: &'static str, outcome: &'static str| {
        kit.metrics.jobs.with_label_values(&["dispatcher-schedule", job, outcome]).get()
    };
    let producer = Producer::new(queues.clone());

    let worker = kit.start(&queues, upkeep(Duration::from_secs(3600)), None);
    producer.add::<ScheduleJob>(PurgeStash {}).await.unwrap();
    eventually(async || (ended("purge-stash", "completed") == 1).then_some(())).await;
    assert_eq!(kit.metrics.stash_purged.get(), 0, "nothing is old");
    producer.add::<ScheduleJob>(PurgeAudit {}).await.unwrap();
    eventually(async || (ended("purge-audit", "completed") == 1).then_some(())).await;
    assert_eq!(actions().await, 3);
    soon(worker.stop(Duration::from_secs(20))).await;

    let _worker = kit.start(&queues, upkeep(Duration::ZERO), None);
    producer.add::<ScheduleJob>(PurgeStash {}).await.unwrap();
    eventually(async || (ended("purge-stash", "completed") == 2).then_some(())).await;
    assert_eq!(kit.metrics.stash_purged.get(), 1_200);
    assert_eq!(embedded.stash().backlogs().await.unwrap(), []);
    // Older than nothing: of an earlier millisecond.
    tokio::time::sleep(Duration::from_millis(2)).await;
    producer.add::<ScheduleJob>(PurgeAudit {}).await.unwrap();
    eventually(async || (ended("purge-audit", "completed") == 2).then_some(())).await;
    assert_eq!(actions().await, 0);

    producer.add::<ScheduleJob>(ReconcileConfigs {}).await.unwrap();
    eventually(async || (ended("reconcile-configs", "retried") == 1).then_some(())).await;
    queues.get(Queue::Schedule).promote("reconcile-configs").await.unwrap();
    eventually(async || (ended("reconcile-configs", "completed") == 1).then_some(())).await;
    assert_eq!(reloads.load(Ordering::Relaxed), 2);

    // Another replica is at it.
    let lease = embedded.locks().acquire("purge-stash", i64::MAX).await.unwrap();
    assert!(lease.is_some());
    producer.add::<ScheduleJob>(PurgeStash {}).await.unwrap();
    eventually(async || (ended("purge-stash", "completed") == 3).then_some(())).await;
    assert_eq!(kit.metrics.exclusive_runs.with_label_values(&["purge-stash", "skipped"]).get(), 1);
    embedded.close().await;
}
