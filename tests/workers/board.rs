//! Bull Board itself on our queues: it lists them with their jobs, states, schedules, logs and progress, and its buttons act on them.

use std::time::Duration;

use dispatcher::domain::job::{Cadence, JobState};
use dispatcher::ports::job_queue::NewSchedule;
use dispatcher::workers::{Handled, JobContext, JobFailure, When};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::node::{Board, Node};
use crate::services::{redis, unique};
use crate::world::{Ended, KeptJob, World, does, eventually, job, soon, tidy, work};

const LATER: When = When { delay: Duration::from_secs(3600), priority: 0 };

fn open() -> (World, Board) {
    let prefix = unique("board");
    let node = Node::new(redis().port(), &prefix, "bullmq");
    (World::new(redis(), &prefix), Board::new(node, &["kept", "freed"]))
}

fn ids(queue: &Value) -> Vec<&str> {
    queue["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

/// A failed job and one that is tried again, a job that was done, and one of each that waits.
async fn fill(world: &World) {
    let worker = world.start(does(async |job: KeptJob, context: JobContext| -> Ended {
        match job {
            KeptJob::Work(work) if work.client.as_str() == "done" => Ok(Handled::Done(json!({ "did": 1 }))),
            KeptJob::Work(_) => Err(JobFailure::Again {
                reason: "not yet".to_owned(),
                after: Some(Duration::from_secs(3600)),
            }),
            KeptJob::Tidy(_) => {
                context.progress(json!(50)).await?;
                context.log("half").await?;
                Err(JobFailure::never("no \"use\""))
            }
        }
    }));
    let producer = world.producer();
    producer.add::<KeptJob>(work("done")).await.unwrap();
    producer.add::<KeptJob>(tidy("failed")).await.unwrap();
    job(world.kept(), "work-done", |job| job.state == JobState::Completed).await;
    job(world.kept(), "tidy-failed", |job| job.state == JobState::Failed).await;
    // Soon tried again, unless the worker stops.
    producer.add::<KeptJob>(work("again")).await.unwrap();
    job(world.kept(), "work-again", |job| job.attempts_made == 1).await;
    worker.stop(Duration::from_secs(5)).await;
    producer.add_when::<KeptJob>(tidy("delayed"), LATER).await.unwrap();
    producer.add_when::<KeptJob>(tidy("first"), When { priority: 5, ..When::default() }).await.unwrap();
    producer.add::<KeptJob>(tidy("waiting")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_board_lists_queues_jobs_schedules_logs_and_progress_as_they_are() {
    let (world, board) = open();
    fill(&world).await;
    for (state, expected) in [
        ("completed", vec!["work-done"]),
        ("failed", vec!["tidy-failed"]),
        ("prioritized", vec!["tidy-first"]),
        ("waiting", vec!["tidy-waiting"]),
    ] {
        assert_eq!(ids(&board.queue("kept", state)), expected, "{state}");
    }
    let mut delayed = board.queue("kept", "delayed");
    assert_eq!(delayed["jobs"].as_array().unwrap().len(), 2, "{delayed}");
    let counts = world.kept().counts().await.unwrap();
    for state in JobState::ALL {
        assert_eq!(delayed["counts"][state.as_str()], counts.of(state), "{state}: {}", delayed["counts"]);
    }
    assert_eq!(delayed["isPaused"].take(), false);

    let (state, failed) = board.job("kept", "tidy-failed").unwrap();
    assert_eq!(state, "failed");
    let seen = (&failed["name"], &failed["data"], &failed["failedReason"], &failed["progress"]);
    assert_eq!(seen, (&json!("TIDY"), &json!({ "room": "failed" }), &json!("no \"use\""), &json!(50)));
    assert_eq!((&failed["attempts"], &failed["isFailed"]), (&json!(1), &json!(true)));
    assert_eq!(board.get("/queues/kept/tidy-failed/logs"), json!(["half", "attempt 1: no \"use\""]));
    let (state, again) = board.job("kept", "work-again").unwrap();
    let seen = (state.as_str(), &again["attempts"], &again["failedReason"]);
    assert_eq!(seen, ("delayed", &json!(1), &json!("not yet")));
    assert_eq!(board.job("kept", "work-done").unwrap().1["returnValue"], json!({ "did": 1 }));
    assert_eq!(board.job("kept", "nobody"), None);

    let cadence = Cadence::cron("30 2 * * 1", "Europe/Berlin").unwrap();
    let schedule = |id: &str, cadence| NewSchedule {
        id: id.to_owned(),
        cadence,
        name: "TIDY".to_owned(),
        data: json!({ "room": id }),
    };
    world.freed().put_schedule(schedule("weekly", cadence)).await.unwrap();
    let hourly = Cadence::every(Duration::from_secs(3600)).unwrap();
    world.freed().put_schedule(schedule("hourly", hourly)).await.unwrap();
    let listed = board.get("/job-schedulers");
    let of = |id: &str| {
        let schedulers = listed["schedulers"].as_array().unwrap();
        schedulers.iter().find(|scheduler| scheduler["id"] == id).unwrap_or_else(|| panic!("{listed}"))
    };
    let weekly = of("weekly");
    assert_eq!((&weekly["pattern"], &weekly["tz"]), (&json!("30 2 * * 1"), &json!("Europe/Berlin")));
    assert_eq!((&weekly["queueName"], &weekly["name"]), (&json!("freed"), &json!("TIDY")));
    assert_eq!(of("hourly")["every"], 3_600_000);
    for known in world.freed().schedules().await.unwrap() {
        assert_eq!(of(&known.id)["next"].as_i64(), known.next_ms, "{listed}");
    }
    assert_eq!(board.queue("freed", "delayed")["jobSchedulerCount"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_boards_buttons_act_on_our_queues() {
    let (world, board) = open();
    fill(&world).await;
    let state_of = async |id: &str| world.kept().job(id).await.unwrap().map(|job| job.state);

    board.press("/queues/kept/tidy-delayed/promote");
    assert_eq!(state_of("tidy-delayed").await, Some(JobState::Waiting));
    board.press("/queues/kept/tidy-waiting/clean");
    assert_eq!(state_of("tidy-waiting").await, None);
    board.press("/queues/kept/tidy-failed/retry");
    assert_eq!(state_of("tidy-failed").await, Some(JobState::Waiting));
    board.press("/queues/kept/pause");
    assert!(world.kept().is_paused().await.unwrap());
    assert_eq!(board.queue("kept", "waiting")["isPaused"], true);

    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = world.start(does(move |_: KeptJob, context: JobContext| {
        let _ = tell.send(context.id);
        async { Ok(Handled::DONE) }
    }));
    timeout(Duration::from_millis(300), told.recv()).await.expect_err("it is paused");
    assert_eq!(board.queue("kept", "waiting")["hasWorkers"], true);
    board.press("/queues/kept/resume");
    let mut done = Vec::new();
    while done.len() < 4 {
        done.push(soon(told.recv()).await.unwrap());
    }
    done.sort_unstable();
    assert_eq!(done, ["tidy-delayed", "tidy-failed", "tidy-first", "work-again"]);
    for id in &done {
        job(world.kept(), id, |job| job.state == JobState::Completed).await;
    }
    world.producer().add_when::<KeptJob>(tidy("later"), LATER).await.unwrap();
    board.press("/queues/kept/promote");
    assert_eq!(soon(told.recv()).await.unwrap(), "tidy-later");
    job(world.kept(), "tidy-later", |job| job.state == JobState::Completed).await;
    worker.stop(Duration::from_secs(5)).await;

    // It cleans what ended more than 5 s ago.
    eventually(async || {
        board.press("/queues/kept/clean/completed");
        (world.kept().counts().await.unwrap().completed == 0).then_some(())
    })
    .await;
}
