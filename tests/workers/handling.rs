//! What handlers may do, and what the kit makes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dispatcher::domain::job::JobState;
use dispatcher::workers::{AddError, Handled, JobContext, JobFailure, Producer, When};
use serde_json::json;
use tokio::sync::mpsc;

use crate::world::{
    Ended, FreedJob, KeptJob, TestQueue, World, does, eventually, job, raw, soon, tidy, work,
};

/// Fails as it is told on the first attempt, and is done on the second.
async fn fails_first(context: &JobContext, failure: JobFailure) -> Ended {
    if context.attempt == 1 { Err(failure) } else { Ok(Handled::DONE) }
}

pub(crate) async fn a_panic_is_a_failed_attempt_with_its_text(world: World) {
    let _worker = world.start(does(async |_: KeptJob, context: JobContext| {
        if context.attempt == 1 {
            // A panic that no hook hears of: this one is no failure of the test.
            std::panic::resume_unwind(Box::new("the first\nattempt"));
        }
        Ok(Handled::DONE)
    }));
    world.producer().add::<KeptJob>(work("c")).await.unwrap();
    job(world.kept(), "work-c", |job| job.state == JobState::Completed).await;
    let logs = world.kept().logs("work-c").await.unwrap();
    assert_eq!(logs, ["attempt 1: panic: the first attempt"]);
    assert_eq!(world.counted("kept", "WORK", "retried"), 1);
    assert_eq!(world.counted("kept", "WORK", "completed"), 1);
}

pub(crate) async fn an_attempt_that_takes_too_long_has_failed(world: World) {
    let (dropped, mut seen) = mpsc::unbounded_channel::<()>();
    let _worker = world.start(does(move |_: FreedJob, context: JobContext| {
        let dropped = dropped.clone();
        async move {
            if context.attempt == 1 {
                let _dropped = scopeguard(dropped);
                std::future::pending::<()>().await;
            }
            Ok(Handled::DONE)
        }
    }));
    world.producer().add::<FreedJob>(tidy("t")).await.unwrap();
    soon(seen.recv()).await;
    eventually(async || (world.counted("freed", "TIDY", "completed") == 1).then_some(())).await;
    assert_eq!(world.counted("freed", "TIDY", "retried"), 1);
}

/// Tells when it is dropped.
fn scopeguard(tell: mpsc::UnboundedSender<()>) -> impl Drop {
    struct Guard(mpsc::UnboundedSender<()>);
    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    Guard(tell)
}

pub(crate) async fn a_wait_that_the_receiver_asks_for_is_kept_up_to_the_cap(world: World) {
    let _worker = world.start(does(async |job: KeptJob, context: JobContext| {
        let KeptJob::Tidy(tidy) = job else { return Ok(Handled::DONE) };
        let after = if tidy.room == "long" { Duration::from_secs(3600) } else { Duration::from_millis(400) };
        fails_first(&context, JobFailure::Again { reason: "busy".to_owned(), after: Some(after) }).await
    }));
    for (room, least) in [("long", 500), ("short", 400)] {
        let began = std::time::Instant::now();
        world.producer().add::<KeptJob>(tidy(room)).await.unwrap();
        let done = job(world.kept(), &format!("tidy-{room}"), |job| job.state == JobState::Completed).await;
        assert!(began.elapsed() >= Duration::from_millis(least), "{room}: {:?}", began.elapsed());
        assert_eq!(done.attempts_made, 2);
    }
}

pub(crate) async fn what_is_of_no_use_is_given_up_at_once(world: World) {
    let handler = does(async |_: KeptJob, _| Err(JobFailure::never("gone\u{7}")));
    let _worker = world.start(handler.clone());
    world.producer().add::<KeptJob>(tidy("t")).await.unwrap();
    let failed = job(world.kept(), "tidy-t", |job| job.state == JobState::Failed).await;
    assert_eq!((failed.attempts_made, failed.reason.as_deref()), (1, Some("gone ")));
    eventually(async || (*handler.told.lock().unwrap() == ["tidy-t failed gone "]).then_some(())).await;
}

pub(crate) async fn listeners_hear_of_every_end(world: World) {
    let handler = does(async |_: FreedJob, context: JobContext| {
        fails_first(&context, JobFailure::again("not yet")).await?;
        Ok(Handled::Done(json!(7)))
    });
    let _worker = world.start(handler.clone());
    world.producer().add::<FreedJob>(tidy("t")).await.unwrap();
    let told = ["tidy-t failed not yet", "tidy-t completed 7"];
    eventually(async || (*handler.told.lock().unwrap() == told).then_some(())).await;
}

pub(crate) async fn going_on_later_is_the_same_job_with_no_attempt_more(world: World) {
    let runs = Arc::new(AtomicU32::new(0));
    let seen = runs.clone();
    let _worker = world.start(does(move |_: KeptJob, context: JobContext| {
        let run = seen.fetch_add(1, Ordering::Relaxed);
        async move {
            assert_eq!(context.attempt, 1);
            Ok(if run < 10 { Handled::Later(Duration::from_millis(5)) } else { Handled::DONE })
        }
    }));
    world.producer().add::<KeptJob>(tidy("t")).await.unwrap();
    let done = job(world.kept(), "tidy-t", |job| job.state == JobState::Completed).await;
    assert_eq!((done.attempts_made, runs.load(Ordering::Relaxed)), (1, 11));
}

pub(crate) async fn another_versions_job_is_passed_over_where_ids_are_freed(world: World) {
    let _worker = world.start(does(async |_: FreedJob, _| Ok(Handled::DONE)));
    world.freed().add(raw("new", "NEW", json!({}))).await.unwrap();
    world.freed().add(raw("bad", "WORK", json!({"client": 5}))).await.unwrap();
    eventually(async || (world.counted("freed", "unknown", "unknown") == 1).then_some(())).await;
    eventually(async || (world.counted("freed", "WORK", "unknown") == 1).then_some(())).await;
    eventually(async || world.freed().job("new").await.unwrap().is_none().then_some(())).await;
}

pub(crate) async fn another_versions_job_waits_where_ids_are_kept(world: World) {
    let _worker = world.start(does(async |_: KeptJob, _| Ok(Handled::DONE)));
    world.kept().add(raw("new", "NEW", json!({}))).await.unwrap();
    world.kept().add(raw("bad", "WORK", json!({"client": 5}))).await.unwrap();
    for (id, reason) in [("new", "unknown job name"), ("bad", "unreadable payload")] {
        let waits = job(world.kept(), id, |job| job.state == JobState::Delayed).await;
        assert!(waits.due_ms.unwrap() > waits.created_ms + 500_000, "{waits:?}");
        assert!(waits.reason.unwrap().starts_with(reason));
    }
}

pub(crate) async fn jobs_of_a_blocked_owner_are_done_without_being_done(world: World) {
    world.blocked.clients.lock().unwrap().insert("bad".to_owned());
    let (ran, mut runs) = mpsc::unbounded_channel();
    let _worker = world.start(does(move |job: KeptJob, _| {
        let _ = ran.send(job);
        async { Ok(Handled::DONE) }
    }));
    let producer = world.producer();
    producer.add::<KeptJob>(work("bad")).await.unwrap();
    let done = job(world.kept(), "work-bad", |job| job.state == JobState::Completed).await;
    assert_eq!((done.attempts_made, done.result), (1, Some(json!("blocked"))));
    assert_eq!(world.counted("kept", "WORK", "blocked"), 1);
    // A client whom nobody blocked, and a job of the service itself.
    producer.add::<KeptJob>(work("good")).await.unwrap();
    producer.add::<KeptJob>(tidy("bad")).await.unwrap();
    let mut ran = vec![soon(runs.recv()).await.unwrap(), soon(runs.recv()).await.unwrap()];
    ran.sort_by_key(|job| matches!(job, KeptJob::Tidy(_)));
    assert_eq!(ran, [KeptJob::Work(work("good")), KeptJob::Tidy(tidy("bad"))]);
}

pub(crate) async fn a_queue_that_lost_its_pause_runs_nothing(world: World) {
    let (ran, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let handler = does(move |_: FreedJob, _| {
        let ran = ran.clone();
        async move {
            ran.send(()).unwrap();
            Ok(Handled::DONE)
        }
    });
    world.paused.0.lock().unwrap().insert("freed".to_owned());
    let worker = world.start(handler);
    world.producer().add::<FreedJob>(work("a")).await.unwrap();
    let held = eventually(async || (world.counted("freed", "WORK", "paused") > 0).then_some(())).await;
    assert_eq!((held, runs.try_recv().is_err()), ((), true));
    let job = world.freed().job("work-a").await.unwrap().unwrap();
    assert_eq!(job.attempts_made, 0, "waiting counts no attempt");
    world.paused.0.lock().unwrap().clear();
    soon(runs.recv()).await.unwrap();
    worker.stop(Duration::from_secs(5)).await;
}

pub(crate) async fn a_block_list_that_is_away_holds_the_job(world: World) {
    *world.blocked.away.lock().unwrap() = true;
    let _worker = world.start(does(async |_: KeptJob, _| Ok(Handled::DONE)));
    world.producer().add::<KeptJob>(work("c")).await.unwrap();
    job(world.kept(), "work-c", |job| job.state == JobState::Delayed && job.attempts_made == 0).await;
    *world.blocked.away.lock().unwrap() = false;
    world.kept().promote("work-c").await.unwrap();
    job(world.kept(), "work-c", |job| job.state == JobState::Completed).await;
}

pub(crate) async fn a_job_cannot_add_itself_while_it_runs(world: World) {
    let producer = Arc::new(world.producer());
    let adds = producer.clone();
    let (said, mut answers) = mpsc::unbounded_channel();
    let _worker = world.start(does(move |job: FreedJob, _| {
        let (adds, said) = (adds.clone(), said.clone());
        async move {
            let _ = said.send(adds.add::<FreedJob>(job).await);
            let other = adds.add::<KeptJob>(tidy("t")).await;
            let _ = said.send(other);
            Ok(Handled::DONE)
        }
    }));
    producer.add::<FreedJob>(tidy("t")).await.unwrap();
    let answer = soon(answers.recv()).await.unwrap();
    assert!(matches!(&answer, Err(AddError::OwnId(id)) if id.as_str() == "tidy-t"), "{answer:?}");
    // The same id in another queue is another job.
    soon(answers.recv()).await.unwrap().unwrap();
    assert!(world.kept().job("tidy-t").await.unwrap().is_some());
}

pub(crate) async fn jobs_can_be_delayed_prioritised_and_added_in_bulk(world: World) {
    let producer = world.producer();
    let when = When { delay: Duration::from_secs(60), priority: 3 };
    let id = producer.add_when::<KeptJob>(tidy("t"), when).await.unwrap();
    let record = world.kept().job(id.as_str()).await.unwrap().unwrap();
    assert_eq!((record.state, record.priority), (JobState::Delayed, 3));
    let jobs: Vec<KeptJob> = (0..1200).map(|n| work(&format!("c{n}")).into()).collect();
    let ids = producer.add_bulk(&jobs).await.unwrap();
    assert_eq!((ids.len(), world.kept().counts().await.unwrap().waiting), (1200, 1200));
}

#[tokio::test]
async fn a_producer_without_queues_says_that_it_did() {
    let producer = Producer::<TestQueue>::none();
    assert_eq!(producer.add::<KeptJob>(tidy("t")).await.unwrap().as_str(), "tidy-t");
    assert_eq!(producer.add_bulk::<KeptJob>(&[work("c").into()]).await.unwrap().len(), 1);
}
