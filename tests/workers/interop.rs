//! The real BullMQ of Node on the same queues: it sees what we see, acts on our jobs, and each runs what the other adds.

use std::time::Duration;

use dispatcher::domain::job::{Cadence, JobId, JobState};
use dispatcher::ports::clock::{Clock as _, SystemClock};
use dispatcher::ports::job_queue::NewSchedule;
use dispatcher::workers::{Handled, JobContext, JobFailure, When};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::node::Node;
use crate::services::{redis, unique};
use crate::world::{Ended, FreedJob, KeptJob, World, does, eventually, job, soon, tidy, work};

fn both(library: &str) -> (World, Node) {
    let prefix = unique("interop");
    (World::new(redis(), &prefix), Node::new(redis().port(), &prefix, library))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_node_adds_run_here() {
    let (world, node) = both("bullmq");
    let add = |job: &str, data: Value, opts: Value| {
        node.ask(&json!({"do": "add", "queue": "kept", "job": job, "data": data, "opts": opts}))
    };
    let data = |client: &str| json!({"client": client});
    add("WORK", data("plain"), json!({"jobId": "plain"}));
    add("WORK", data("first"), json!({"jobId": "first", "priority": 1}));
    add("WORK", data("late"), json!({"jobId": "late", "delay": 300}));
    let exponential =
        json!({"jobId": "twice", "attempts": 3, "backoff": {"type": "exponential", "delay": 10}});
    add("WORK", data("twice"), exponential);
    let number = add("WORK", data("numbered"), json!({}));
    let (tell, mut told) = mpsc::unbounded_channel();
    let _worker = world.start(does(move |job: KeptJob, context: JobContext| {
        let _ = tell.send(context.id.clone());
        async move {
            let KeptJob::Work(work) = job else { return Err(JobFailure::never("not ours")) };
            if work.client.as_str() == "twice" && context.attempt == 1 {
                return Err(JobFailure::again("not yet"));
            }
            Ok(Handled::Done(json!({"did": work.client})))
        }
    }));
    for id in ["plain", "first", "late", "twice", number.as_str().unwrap()] {
        let done = job(world.kept(), id, |job| job.state == JobState::Completed).await;
        assert_eq!(node.job("kept", id)["returnvalue"], done.result.unwrap());
    }
    assert_eq!(node.job("kept", "twice")["attemptsMade"], 2);
    let mut runs = 0;
    while told.try_recv().is_ok() {
        runs += 1;
    }
    assert_eq!(runs, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_jobs_run_in_node() {
    let (world, node) = both("bullmq");
    let producer = world.producer();
    producer.add::<KeptJob>(work("a b")).await.unwrap();
    producer.add::<KeptJob>(tidy("room")).await.unwrap();
    let when = When { delay: Duration::from_millis(200), priority: 0 };
    producer.add_when::<KeptJob>(tidy("late"), when).await.unwrap();
    let done = node.ask(&json!({"do": "work", "queue": "kept", "count": 3}));
    let id = JobId::of("work", "a b");
    assert_eq!(done[0], json!([id.as_str(), "WORK", {"client": "a b"}]));
    assert_eq!((&done[1][0], &done[2][0]), (&json!("tidy-room"), &json!("tidy-late")));
    let record = world.kept().job(id.as_str()).await.unwrap().unwrap();
    assert_eq!((record.state, record.result), (JobState::Completed, Some(json!({"did": "WORK"}))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_sees_our_failures_with_their_reasons() {
    let (world, node) = both("bullmq");
    let (go, mut gate) = mpsc::unbounded_channel::<()>();
    let _worker = world.start(does(async |job: KeptJob, context: JobContext| -> Ended {
        context.progress(json!(50)).await?;
        context.log("half").await?;
        match job {
            KeptJob::Tidy(_) => Err(JobFailure::never("no \"use\"")),
            KeptJob::Work(_) => Err(JobFailure::Again {
                reason: "not yet".to_owned(),
                after: Some(Duration::from_secs(3600)),
            }),
        }
    }));
    drop(go);
    assert!(gate.recv().await.is_none());
    world.producer().add::<KeptJob>(tidy("t")).await.unwrap();
    job(world.kept(), "tidy-t", |job| job.state == JobState::Failed).await;
    let seen = node.job("kept", "tidy-t");
    assert_eq!((&seen["state"], &seen["failedReason"]), (&json!("failed"), &json!("no \"use\"")));
    assert_eq!(seen["logs"], json!(["half", "attempt 1: no \"use\""]));
    assert_eq!(seen["progress"], 50);
    assert_eq!(seen["stacktrace"], json!(["no \"use\""]));
    let _other = world.producer().add::<KeptJob>(work("c")).await.unwrap();
    job(world.kept(), "work-c", |job| job.attempts_made == 1).await;
    let seen = node.job("kept", "work-c");
    assert_eq!((&seen["failedReason"], &seen["attemptsMade"]), (&json!("not yet"), &json!(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_and_we_see_the_same_states_and_act_on_each_others_jobs() {
    let (world, node) = both("bullmq");
    let producer = world.producer();
    let later = When { delay: Duration::from_secs(3600), priority: 0 };
    producer.add_when::<KeptJob>(tidy("d"), later).await.unwrap();
    producer.add_when::<KeptJob>(tidy("p"), When { priority: 5, ..When::default() }).await.unwrap();
    producer.add::<KeptJob>(tidy("w")).await.unwrap();
    for (id, state) in [("tidy-d", "delayed"), ("tidy-p", "prioritized"), ("tidy-w", "waiting")] {
        assert_eq!(node.job("kept", id)["state"], state);
        assert_eq!(world.kept().job(id).await.unwrap().unwrap().state.as_str(), state);
    }
    node.act("kept", "tidy-d", "promote");
    assert_eq!(world.kept().job("tidy-d").await.unwrap().unwrap().state, JobState::Waiting);
    node.act("kept", "tidy-w", "remove");
    assert_eq!(world.kept().job("tidy-w").await.unwrap(), None);
    node.ask(&json!({"do": "pause", "queue": "kept"}));
    assert!(world.kept().is_paused().await.unwrap());
    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = world.start(does(move |_: KeptJob, context: JobContext| {
        let _ = tell.send(context.id.clone());
        async move { if context.attempt == 1 { Err(JobFailure::never("no")) } else { Ok(Handled::DONE) } }
    }));
    producer.add::<KeptJob>(tidy("x")).await.unwrap();
    tokio::time::timeout(Duration::from_millis(300), told.recv()).await.unwrap_err();
    assert_eq!(node.ask(&json!({"do": "workers", "queue": "kept"})), 1);
    node.ask(&json!({"do": "resume", "queue": "kept"}));
    for _ in 0..3 {
        soon(told.recv()).await.unwrap();
    }
    job(world.kept(), "tidy-x", |job| job.state == JobState::Failed).await;
    worker.stop(Duration::from_secs(5)).await;
    node.act("kept", "tidy-x", "retry");
    assert_eq!(world.kept().job("tidy-x").await.unwrap().unwrap().state, JobState::Waiting);
    let counts = world.kept().counts().await.unwrap();
    let seen = node.ask(&json!({"do": "counts", "queue": "kept"}));
    for state in JobState::ALL {
        assert_eq!(seen[state.as_str()], counts.of(state), "{state}: {seen}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_node_5_paused_is_resumed_by_us_and_nothing_is_lost() {
    let (world, node) = both("bullmq5");
    let producer = world.producer();
    producer.add::<KeptJob>(tidy("before")).await.unwrap();
    node.ask(&json!({"do": "pause", "queue": "kept"}));
    // Version 5 adds where version 6 does not look; we add where version 5 would overwrite.
    node.ask(&json!({"do": "add", "queue": "kept", "job": "TIDY", "data": {"room": "5"}, "opts": {"jobId": "five"}}));
    producer.add::<KeptJob>(tidy("ours")).await.unwrap();
    assert_eq!(world.kept().counts().await.unwrap().waiting, 3);
    world.kept().resume().await.unwrap();
    let _worker = world.start(does(async |_: KeptJob, _| Ok(Handled::DONE)));
    for id in ["tidy-before", "five", "tidy-ours"] {
        job(world.kept(), id, |job| job.state == JobState::Completed).await;
    }
}

/// The rule's other half: why it is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_node_5_resumes_itself_loses_what_was_added_meanwhile() {
    let (world, node) = both("bullmq5");
    let producer = world.producer();
    producer.add::<KeptJob>(tidy("before")).await.unwrap();
    node.ask(&json!({"do": "pause", "queue": "kept"}));
    producer.add::<KeptJob>(tidy("ours")).await.unwrap();
    node.ask(&json!({"do": "resume", "queue": "kept"}));
    let waiting = world.kept().jobs(JobState::Waiting, 0, 10).await.unwrap();
    let ids: Vec<&str> = waiting.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["tidy-before"], "if this is mended, the rule in the documents can go");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_are_the_same_to_both() {
    let (world, node) = both("bullmq");
    let cadence = Cadence::cron("30 2 * * 1", "Europe/Berlin").unwrap();
    let next = cadence.next_after(SystemClock.now_ms());
    let (id, name, data) = ("ours".to_owned(), "TIDY".to_owned(), json!({"room": "r"}));
    world.freed().put_schedule(NewSchedule { id, cadence, name, data }).await.unwrap();
    let repeat = json!({"pattern": "30 2 * * 1", "tz": "Europe/Berlin"});
    let template = json!({"name": "TIDY", "data": {"room": "r"}});
    node.ask(
        &json!({"do": "upsert", "queue": "freed", "id": "theirs", "repeat": repeat, "template": template}),
    );
    let seen = node.ask(&json!({"do": "schedulers", "queue": "freed"}));
    for schedule in seen.as_array().unwrap() {
        assert_eq!(schedule["next"], next.unwrap(), "{seen}");
        assert_eq!((&schedule["pattern"], &schedule["tz"]), (&repeat["pattern"], &repeat["tz"]));
    }
    let ours = world.freed().schedules().await.unwrap();
    assert!(ours.len() == 2 && ours.iter().all(|schedule| schedule.next_ms == next), "{ours:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_of_node_goes_on_here_and_back() {
    let (world, node) = both("bullmq");
    let template = json!({"name": "TIDY", "data": {"room": "r"}});
    node.ask(&json!({
        "do": "upsert", "queue": "freed", "id": "s", "repeat": {"every": 1000}, "template": template,
    }));
    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = world.start(does(move |job: FreedJob, context: JobContext| {
        let _ = tell.send((job, context.tick_ms.unwrap()));
        async { Ok(Handled::DONE) }
    }));
    for _ in 0..2 {
        assert_eq!(soon(told.recv()).await.unwrap().0, tidy("r").into());
    }
    worker.stop(Duration::from_secs(5)).await;
    let done = node.ask(&json!({"do": "work", "queue": "freed", "count": 2}));
    assert_eq!((&done[0][1], &done[1][1]), (&json!("TIDY"), &json!("TIDY")));
    eventually(async || (world.freed().counts().await.unwrap().delayed == 1).then_some(())).await;
}

/// Texts near the border of what is an id.
fn near_ids() -> Vec<String> {
    let mut runner = TestRunner::deterministic();
    let some = prop_oneof![
        "[0-9]{1,22}",
        "-[0-9]{1,22}",
        "[0-9a-z._-]{1,12}",
        "0[0-9.-]{0,5}",
        "[a-c0-9:]{1,6}",
        "(NaN|Infinity|-Infinity|1e21|0x10|-0|\\+5|1_000)",
    ];
    let mut ids: Vec<String> = (0..1500).map(|_| some.new_tree(&mut runner).unwrap().current()).collect();
    ids.sort();
    ids.dedup();
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_we_take_node_takes_and_what_node_refuses_we_refuse() {
    let (_, node) = both("bullmq");
    let ids: Vec<String> = near_ids()
        .into_iter()
        // Node would take the name of a key of the queue, and break the queue.
        .filter(|id| !matches!(JobId::parse(id), Err(dispatcher::domain::job::JobIdError::Reserved)))
        .collect();
    let taken = node.ask(&json!({"do": "ids", "queue": "ids", "ids": ids}));
    let taken: Vec<&str> = taken.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let ours = ids.iter().filter(|id| JobId::parse(id).is_ok());
    let refused: Vec<&String> = ours.clone().filter(|id| !taken.contains(&id.as_str())).collect();
    assert!(refused.is_empty(), "Node refuses {refused:?}");
    assert!(ours.count() > 300 && taken.len() < ids.len(), "the ids show nothing");
}
