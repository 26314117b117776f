//! The contract of heavy jobs.

use dispatcher::domain::heavy_job::{HeavyJob, HeavyState, HeavyStep};
use dispatcher::domain::job::JobId;
use dispatcher::ports::StoreError;
use serde_json::{Value, json};

use crate::fixture::{Backend, client};

fn job(name: &str, of: &str, created_ms: i64) -> HeavyJob {
    let parameters = json!({ "client": of, "collections": ["a.b"] });
    HeavyJob::new(JobId::of("resync", name), client(of), "resync", parameters, created_ms)
}

fn step(state: HeavyState, position: Value, now_ms: i64) -> HeavyStep {
    HeavyStep { state, position, progress: json!({ "sent": now_ms }), reason: None, now_ms }
}

fn is_fenced<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Fenced(_)))
}

pub(crate) async fn an_id_that_is_kept_is_the_same_job(backend: &impl Backend) {
    let jobs = backend.open().await.heavy_jobs;
    let first = job("1", "a", 1);
    assert_eq!(jobs.get(&first.id).await, Ok(None));
    assert_eq!(jobs.put(first.clone()).await, Ok(first.clone()));
    let other = HeavyJob { parameters: json!({}), ..job("1", "b", 9) };
    assert_eq!(jobs.put(other).await, Ok(first.clone()));
    assert_eq!(jobs.get(&first.id).await, Ok(Some(first)));
}

pub(crate) async fn a_job_comes_back_as_it_was_written(backend: &impl Backend) {
    let jobs = backend.open().await.heavy_jobs;
    let made = jobs.put(job("1", "a\u{0}é", 1)).await.unwrap();
    let position =
        json!({ "after": "\u{0}\u{1f980}", "hand": [["k", "id"]], "large": 9_007_199_254_740_993_i64 });
    let step = HeavyStep {
        state: HeavyState::Failed,
        position: position.clone(),
        progress: json!({ "sent": 3 }),
        reason: Some("no\u{0} such".to_owned()),
        now_ms: 7,
    };
    assert_eq!(jobs.step(&made.id, 1, step).await, Ok(()));
    let expected = HeavyJob {
        state: HeavyState::Failed,
        position,
        progress: json!({ "sent": 3 }),
        reason: Some("no\u{0} such".to_owned()),
        updated_ms: 7,
        ..made.clone()
    };
    assert_eq!(jobs.get(&made.id).await, Ok(Some(expected)));
}

pub(crate) async fn an_older_holder_writes_over_nobody(backend: &impl Backend) {
    let jobs = backend.open().await.heavy_jobs;
    let id = jobs.put(job("1", "a", 1)).await.unwrap().id;
    jobs.step(&id, 5, step(HeavyState::Open, json!(1), 1)).await.unwrap();
    assert!(is_fenced(&jobs.step(&id, 4, step(HeavyState::Done, json!(0), 2)).await));
    jobs.step(&id, 5, step(HeavyState::Open, json!(2), 3)).await.unwrap();
    jobs.step(&id, 6, step(HeavyState::Open, json!(3), 4)).await.unwrap();
    assert!(is_fenced(&jobs.step(&id, 5, step(HeavyState::Open, json!(0), 5)).await));
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().position, json!(3));
    assert!(is_fenced(
        &jobs.step(&JobId::of("resync", "none"), 9, step(HeavyState::Open, json!(1), 1)).await
    ));
}

pub(crate) async fn what_has_ended_is_not_written(backend: &impl Backend) {
    let jobs = backend.open().await.heavy_jobs;
    let id = jobs.put(job("1", "a", 1)).await.unwrap().id;
    assert_eq!(jobs.turn(&id, HeavyState::Open, HeavyState::Cancelled, Some("enough"), 2).await, Ok(true));
    assert!(is_fenced(&jobs.step(&id, 9, step(HeavyState::Open, json!(1), 3)).await));
    let job = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!(
        (job.state, job.reason.as_deref(), job.updated_ms),
        (HeavyState::Cancelled, Some("enough"), 2)
    );
}

pub(crate) async fn an_ended_job_goes_on_when_it_is_turned(backend: &impl Backend) {
    let jobs = backend.open().await.heavy_jobs;
    let id = jobs.put(job("1", "a", 1)).await.unwrap().id;
    jobs.step(&id, 1, step(HeavyState::Failed, json!("there"), 2)).await.unwrap();
    let turn = |from, to| jobs.turn(&id, from, to, None, 3);
    assert_eq!(turn(HeavyState::Open, HeavyState::Cancelled).await, Ok(false));
    assert_eq!(turn(HeavyState::Failed, HeavyState::Open).await, Ok(true));
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().position, json!("there"), "it goes on where it was");
    jobs.step(&id, 2, step(HeavyState::Done, json!("end"), 4)).await.unwrap();
}

pub(crate) async fn only_what_has_ended_is_forgotten(backend: &impl Backend) {
    let jobs = backend.open().await.heavy_jobs;
    let id = jobs.put(job("1", "a", 1)).await.unwrap().id;
    assert_eq!(jobs.forget(&id).await, Ok(false));
    jobs.step(&id, 1, step(HeavyState::Done, json!(1), 2)).await.unwrap();
    assert_eq!(jobs.forget(&id).await, Ok(true));
    assert_eq!(jobs.forget(&id).await, Ok(false));
    // Asked for anew it begins anew, under any lease.
    let again = jobs.put(job("1", "a", 5)).await.unwrap();
    assert_eq!((again.state, again.created_ms), (HeavyState::Open, 5));
    jobs.step(&id, 1, step(HeavyState::Open, json!(1), 6)).await.unwrap();
}

pub(crate) async fn jobs_are_listed_newest_first(backend: &impl Backend) {
    let jobs = backend.open().await.heavy_jobs;
    for (name, of, created_ms) in [("1", "a", 1), ("2", "b", 2), ("3", "a", 3)] {
        jobs.put(job(name, of, created_ms)).await.unwrap();
    }
    jobs.step(&JobId::of("resync", "3"), 1, step(HeavyState::Done, json!(1), 9)).await.unwrap();
    let names = |listed: Vec<HeavyJob>| listed.into_iter().map(|job| job.created_ms).collect::<Vec<_>>();
    assert_eq!(names(jobs.list(None).await.unwrap()), [3, 2, 1]);
    assert_eq!(names(jobs.list(Some(client("a"))).await.unwrap()), [3, 1]);
    assert_eq!(names(jobs.list(Some(client("c"))).await.unwrap()), [0_i64; 0]);
    assert_eq!(names(jobs.open().await.unwrap()), [1, 2]);
}

pub(crate) async fn old_jobs_go_and_the_last_stay(backend: &impl Backend) {
    let jobs = backend.open().await.heavy_jobs;
    for (name, ended_ms) in [("1", 10), ("2", 20), ("3", 30), ("4", 40)] {
        let id = jobs.put(job(name, "a", ended_ms)).await.unwrap().id;
        jobs.step(&id, 1, step(HeavyState::Done, json!(1), ended_ms)).await.unwrap();
    }
    jobs.put(job("open", "a", 0)).await.unwrap();
    assert_eq!(jobs.purge(20, 10).await, Ok(1), "by age");
    assert_eq!(jobs.purge(0, 2).await, Ok(1), "by count");
    let left: Vec<i64> = jobs.list(None).await.unwrap().iter().map(|job| job.created_ms).collect();
    assert_eq!(left, [40, 30, 0], "what is open stays, however old");
}

pub(crate) async fn heavy_jobs_outlive_a_restart(backend: &impl Backend) {
    let stores = backend.open().await;
    let made = stores.heavy_jobs.put(job("1", "a", i64::MAX)).await.unwrap();
    stores.close().await;
    assert_eq!(backend.open().await.heavy_jobs.get(&made.id).await, Ok(Some(made)));
}
