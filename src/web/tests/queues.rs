//! `/v1/queues`.

use actix_web::http::Method;
use serde_json::{Value, json};

use super::World;
use super::fake_queue::job;
use crate::domain::job::JobState;
use crate::ports::job_queue::ScheduleRecord;

const QUEUE: &str = "/v1/queues/dispatcher";

fn world() -> World {
    let world = World::start();
    {
        let mut inside = world.queue.inside.lock().unwrap();
        for (id, state) in [
            ("waits", JobState::Waiting),
            ("runs", JobState::Active),
            ("later", JobState::Delayed),
            ("repeat:tidy:7", JobState::Delayed),
            ("a/b %", JobState::Failed),
        ] {
            inside.jobs.push(job(id, state));
        }
        inside.jobs[3].schedule = Some("tidy".to_owned());
        inside.logs = vec!["attempt 1: status_503".to_owned(), "x".repeat(100_000)];
        inside.schedules.push(ScheduleRecord {
            id: "tidy".to_owned(),
            name: "TIDY".to_owned(),
            cadence: "0 3 * * *".to_owned(),
            next_ms: Some(7),
        });
    }
    world
}

async fn act(world: &World, path: &str) -> (u16, Value) {
    let answer = world.post(&format!("{QUEUE}/{path}"), "").await;
    let body = if answer.text.is_empty() { Value::Null } else { answer.json() };
    (answer.status, body)
}

#[actix_web::test]
async fn queues_are_shown_with_counts_pause_and_schedules() {
    let world = world();
    let all = world.get("/v1/queues").await.json();
    let names: Vec<_> = all["queues"].as_array().unwrap().iter().map(|queue| &queue["name"]).collect();
    assert_eq!(names, ["dispatcher", "dispatcher-heavy"]);
    let queue = world.get(QUEUE).await.json();
    assert_eq!(queue, all["queues"][0]);
    let counts =
        json!({ "active": 1, "waiting": 1, "prioritized": 0, "delayed": 2, "completed": 0, "failed": 1 });
    assert_eq!(queue["counts"], counts);
    assert_eq!((&queue["paused"], &queue["pause"]), (&json!(false), &Value::Null));
    assert_eq!(queue["oldest_waiting_ms"], 1_500);
    let tidy =
        json!({ "queue": "dispatcher", "id": "tidy", "name": "TIDY", "cadence": "0 3 * * *", "next_ms": 7 });
    assert_eq!(queue["schedules"], json!([tidy]));
    assert_eq!(world.get(&format!("{QUEUE}/schedules")).await.json(), json!({ "schedules": [tidy] }));
    assert_eq!(world.get("/v1/schedules").await.json(), json!({ "schedules": [tidy] }));
    for path in ["nothing", "dispatcher%20", "DISPATCHER"] {
        for below in ["", "/jobs", "/jobs/a", "/schedules"] {
            assert_eq!(world.get(&format!("/v1/queues/{path}{below}")).await.problem().0, 404, "{path}");
        }
    }
}

#[actix_web::test]
async fn jobs_are_listed_by_page_and_shown_with_their_log() {
    let world = world();
    let page = |query: &str| {
        let path = format!("{QUEUE}/jobs{query}");
        let world = &world;
        async move {
            let page = world.get(&path).await.json();
            let ids = page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap());
            (ids.map(str::to_owned).collect::<Vec<_>>(), page["next"].clone())
        }
    };
    assert_eq!(page("").await, (vec!["waits".to_owned()], Value::Null));
    assert_eq!(page("?state=delayed&limit=1").await, (vec!["later".to_owned()], json!(1)));
    assert_eq!(page("?state=delayed&limit=1&offset=1").await, (vec!["repeat:tidy:7".to_owned()], json!(2)));
    assert_eq!(page("?state=delayed&limit=5&offset=2147483647").await, (vec![], Value::Null));
    for query in [
        "?state=sleeping",
        "?limit=x",
        "?offset=-1",
        "?offset=2147483648",
        "?limit=101",
        "?limit=1&limit=2",
        "?page=1",
    ] {
        assert_eq!(world.get(&format!("{QUEUE}/jobs{query}")).await.problem().0, 400, "{query}");
    }
    let failed = world.get(&format!("{QUEUE}/jobs/a%2Fb%20%25")).await.json();
    assert_eq!((&failed["id"], &failed["state"]), (&json!("a/b %"), &json!("failed")));
    assert_eq!(failed["options"], json!({ "attempts": 5, "priority": 0 }));
    assert_eq!((&failed["attempts_made"], &failed["reason"]), (&json!(2), &json!("status_503")));
    assert_eq!(failed["data"], json!({ "client": "acme" }));
    assert_eq!(failed["logs"][0], "attempt 1: status_503");
    assert_eq!(failed["logs"][1].as_str().unwrap().len(), 4096);
    assert_eq!(world.get(&format!("{QUEUE}/jobs/nobody")).await.problem().0, 404);
    for id in ["%", "%FF", &"x".repeat(513)] {
        assert_eq!(world.get(&format!("{QUEUE}/jobs/{id}")).await.problem().0, 400, "{id}");
    }
}

#[actix_web::test]
async fn what_others_put_into_a_job_is_shown_up_to_a_limit() {
    let world = world();
    let large = json!({ "text": "é".repeat(100_000) });
    {
        let mut inside = world.queue.inside.lock().unwrap();
        (inside.jobs[0].data, inside.jobs[0].result) = (large.clone(), Some(large.clone()));
        inside.jobs[0].name = "n".repeat(100_000);
        inside.jobs[0].reason = Some("r".repeat(100_000));
    }
    let whole = large.to_string();
    for (path, limit) in [("/jobs/waits", 64 << 10), ("/jobs?limit=1", 1 << 10)] {
        let answer = world.get(&format!("{QUEUE}{path}")).await;
        assert!(answer.text.len() < 2 * limit + 20_000, "{}", answer.text.len());
        let shown = answer.json();
        let shown = shown["jobs"].get(0).unwrap_or(&shown);
        for member in ["data", "result"] {
            let begins = shown[member].as_str().unwrap();
            assert!(whole.starts_with(begins) && (limit - 4..=limit).contains(&begins.len()));
            assert_eq!(shown[format!("{member}_bytes")], whole.len());
        }
        assert!(shown.get("progress_bytes").is_none());
    }
}

#[actix_web::test]
async fn a_job_does_what_its_state_allows_and_else_it_is_409() {
    let world = world();
    assert_eq!(act(&world, "jobs/later/promote").await.0, 204);
    assert_eq!(act(&world, "jobs/a%2Fb%20%25/retry").await.0, 204);
    for (path, status, state) in [
        ("jobs/later/promote", 409, json!("waiting")),
        ("jobs/runs/promote", 409, json!("active")),
        ("jobs/waits/retry", 409, json!("waiting")),
        ("jobs/repeat:tidy:7/promote", 409, json!("scheduled")),
        ("jobs/nobody/promote", 404, Value::Null),
        ("jobs/nobody/retry", 404, Value::Null),
    ] {
        let (found, problem) = act(&world, path).await;
        assert_eq!((found, &problem["state"]), (status, &state), "{path}");
    }
    let remove = async |id: &str| {
        let answer = world.send(Method::DELETE, &format!("{QUEUE}/jobs/{id}"), &[], "").await;
        answer.status
    };
    assert_eq!((remove("waits").await, remove("waits").await, remove("runs").await), (204, 404, 409));
    assert_eq!(world.get(&format!("{QUEUE}/jobs/later/promote")).await.problem().0, 405);
}

#[actix_web::test]
async fn many_jobs_are_acted_on_at_once() {
    let world = world();
    assert_eq!(act(&world, "promote-all").await, (200, json!({ "count": 2 })));
    assert_eq!(act(&world, "retry-all").await, (200, json!({ "count": 1 })));
    let clean = async |body: &str| {
        let answer = world.post(&format!("{QUEUE}/clean"), body.to_owned()).await;
        (answer.status, answer.json()["count"].clone())
    };
    assert_eq!(clean(r#"{"state":"waiting","limit":3}"#).await, (200, json!(3)));
    assert_eq!(clean(r#"{"state":"waiting","older_than_ms":60000}"#).await, (200, json!(1)));
    for (body, status) in [
        ("", 400),
        ("{}", 400),
        (r#"{"state":"sleeping"}"#, 400),
        (r#"{"state":"failed","limit":0}"#, 400),
        (r#"{"state":"failed","limit":100001}"#, 400),
        (r#"{"state":"failed","older_than_ms":-1}"#, 400),
        (r#"{"state":"failed","all":true}"#, 400),
        (r#"{"state":"active"}"#, 409),
    ] {
        assert_eq!(clean(body).await, (status, Value::Null), "{body}");
    }
}

#[actix_web::test]
async fn a_pause_is_kept_and_an_emptied_queue_has_it_again() {
    let world = world();
    let pause = async |body: &str| world.post(&format!("{QUEUE}/pause"), body.to_owned()).await;
    assert_eq!(pause(r#"{"by":"ann","reason":"incident 7"}"#).await.json(), json!({ "paused": true }));
    let shown = world.get(QUEUE).await.json();
    assert_eq!(shown["paused"], true);
    assert_eq!(
        shown["pause"],
        json!({ "by": "ann", "reason": "incident 7", "since_ms": 1_764_435_600_000_i64 })
    );

    let paused = || world.queue.inside.lock().unwrap().paused;
    world.queue.inside.lock().unwrap().paused = false;
    world.pauses().put_back().await.unwrap();
    assert!(paused());

    assert_eq!(act(&world, "resume").await, (200, json!({ "paused": false })));
    assert!(!paused());
    world.pauses().put_back().await.unwrap();
    assert!(!paused());
    assert_eq!(world.get(QUEUE).await.json()["pause"], Value::Null);

    // Paused from elsewhere: nobody's decision here.
    world.queue.inside.lock().unwrap().paused = true;
    world.pauses().put_back().await.unwrap();
    assert!(paused());
    for body in ["7", r#"{"why":"x"}"#, r#"{"reason":"a\nb"}"#, r#"{"by":""}"#] {
        assert_eq!(pause(body).await.problem().0, 400, "{body}");
    }
}

#[actix_web::test]
async fn a_pause_that_the_queue_does_not_have_yet_is_202_and_comes() {
    let world = world();
    world.queue.inside.lock().unwrap().away = true;
    let answer = world.post(&format!("{QUEUE}/pause"), "").await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert!(world.pauses().put_back().await.is_err());
    world.queue.inside.lock().unwrap().away = false;
    world.pauses().put_back().await.unwrap();
    assert!(world.queue.inside.lock().unwrap().paused);

    // Resumed while it cannot be asked: it is said, and can be asked again.
    world.queue.inside.lock().unwrap().away = true;
    assert_eq!(act(&world, "resume").await.0, 503);
    world.queue.inside.lock().unwrap().away = false;
    assert_eq!(act(&world, "resume").await.0, 200);
}

#[actix_web::test]
async fn a_store_that_is_away_is_503() {
    let world = world();
    world.queue.inside.lock().unwrap().away = true;
    for path in ["", "/jobs", "/jobs/waits", "/schedules", "/schedules/tidy"] {
        let answer = world.get(&format!("{QUEUE}{path}")).await;
        assert_eq!((answer.problem().0, answer.retry_after.as_str()), (503, "5"), "{path}");
    }
    for path in ["jobs/waits/promote", "jobs/waits/retry", "promote-all", "retry-all", "resume"] {
        assert_eq!(act(&world, path).await.0, 503, "{path}");
    }
    world.queue.inside.lock().unwrap().away = false;
    world.decisions.go_away();
    assert_eq!(world.get("/v1/queues").await.problem().0, 503);
    assert_eq!(act(&world, "pause").await.0, 503);
    assert!(!world.queue.inside.lock().unwrap().paused, "not without its decision");
}

#[actix_web::test]
async fn a_schedule_is_removed_once() {
    let world = world();
    assert_eq!(world.get(&format!("{QUEUE}/schedules/tidy")).await.json()["name"], "TIDY");
    let remove = || world.send(Method::DELETE, "/v1/queues/dispatcher/schedules/tidy", &[], "");
    assert_eq!(remove().await.status, 204);
    assert_eq!(remove().await.problem().0, 404);
    assert_eq!(world.get(&format!("{QUEUE}/schedules/tidy")).await.problem().0, 404);
}
