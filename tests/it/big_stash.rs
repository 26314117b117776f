//! A client for which very much waits: memory stays as it was with an empty stash, questions are answered at once, others are not hurt, and
//! the drain is as fast at its end as at its beginning.

mod scene;

use std::time::Duration;

use self::scene::{Figures, Scene};
use crate::kit::service::Service;

/// Of a run with few rows: what is not the backlog's weighs more then.
const FEW: usize = 200_000;

fn settings(builder: crate::kit::service::Builder) -> crate::kit::service::Builder {
    // As the image has it: memory that one thread gave back is there for all.
    builder.env("DISPATCHER_CANARY_INTERVAL", "500ms").env("MALLOC_ARENA_MAX", "2")
}

#[actix_web::test]
async fn a_client_for_which_very_much_waits_hurts_nobody() {
    let service = settings(Service::alone()).start().await;
    let figures = Scene::new(&service, <[_]>::to_vec).await.run().await;
    println!("embedded: {}", figures.tell());
    judge(&figures);
}

#[cfg(feature = "cluster")]
#[actix_web::test]
async fn a_client_for_which_very_much_waits_in_postgresql_hurts_nobody() {
    let cluster = crate::kit::cluster::Cluster::shared("big");
    let turn = crate::kit::turn::Turn::alone();
    let service = settings(cluster.replica_in(&turn)).start().await;
    let figures = Scene::new(&service, |records| cluster.records(records)).await.run().await;
    println!("cluster: {}", figures.tell());
    judge(&figures);
}

fn judge(figures: &Figures) {
    let Figures { rows, empty, full, drained, tenths, slowest, .. } = figures;
    let slack = if *rows < FEW { 16 << 10 } else { 0 };
    let most = empty.kib * 6 / 5 + slack;
    assert!(full.kib.max(drained.kib) <= most, "memory: {empty:?} empty, {full:?} full, {drained:?} drained");
    assert!(
        tenths[9] <= tenths[1].mul_f64(1.5) + Duration::from_secs(1),
        "the drain grows slower: {tenths:?}"
    );
    assert!(slowest.0 < Duration::from_millis(50), "{} took {:?}", slowest.1, slowest.0);
    // An idle machine shows less; beside other work a latency doubles from one minute to the next.
    for (when, moment) in [("while it waits", full), ("while it is drained", &figures.draining)] {
        let most = empty.half * 2 + Duration::from_millis(50);
        assert!(moment.half < most, "another client is hurt {when}: {empty:?}, {moment:?}");
    }
}
