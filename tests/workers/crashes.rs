//! Worker processes that are killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use dispatcher::domain::job::JobState;
use dispatcher::workers::{Handled, JobContext};

use crate::process::spawn;
use crate::services::{Service, redis, unique};
use crate::world::{KeptJob, World, does, job, work};

/// This binary, as a process with one worker. It says `began` with each attempt, and ends it only when it may.
fn child(redis: &Service, prefix: &str, ends: bool) -> Child {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .arg(std::env::current_exe().unwrap())
        .args(["crashes::a_process_with_a_worker", "--exact", "--ignored", "--nocapture"])
        .env("TEST_REDIS_URL", redis.url())
        .env("TEST_PREFIX", prefix)
        .env("TEST_ENDS", ends.to_string())
        .stdout(Stdio::piped());
    spawn(command)
}

#[tokio::test]
#[ignore = "is what the other tests start as a process of its own"]
async fn a_process_with_a_worker() {
    let (Ok(url), Ok(prefix)) = (std::env::var("TEST_REDIS_URL"), std::env::var("TEST_PREFIX")) else {
        return;
    };
    let ends = std::env::var("TEST_ENDS").unwrap() == "true";
    let world = World::at(&url, &prefix);
    let _worker = world.start(does(move |_: KeptJob, context: JobContext| async move {
        println!("began attempt {}", context.attempt);
        if !ends {
            std::future::pending::<()>().await;
        }
        Ok(Handled::DONE)
    }));
    std::future::pending::<()>().await;
}

/// Waits until it has begun an attempt; which.
fn began(child: &mut Child) -> String {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let began = lines.map(Result::unwrap).find(|line| line.contains("began"));
    began.expect("the process ended")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_worker_is_killed_five_times_is_done_by_the_sixth() {
    let prefix = unique("crashes");
    let world = World::new(redis(), &prefix);
    world.producer().add::<KeptJob>(work("c")).await.unwrap();
    for _ in 0..5 {
        let prefix = prefix.clone();
        let attempt = tokio::task::spawn_blocking(move || {
            let mut child = child(redis(), &prefix, false);
            let attempt = began(&mut child);
            child.kill().unwrap();
            child.wait().unwrap();
            attempt
        });
        assert!(attempt.await.unwrap().contains("began attempt 1"), "a crash is no failed attempt");
    }
    let mut last = child(redis(), &prefix, true);
    let done = job(world.kept(), "work-c", |job| job.state == JobState::Completed).await;
    assert_eq!(done.attempts_made, 1);
    last.kill().unwrap();
    last.wait().unwrap();
}
