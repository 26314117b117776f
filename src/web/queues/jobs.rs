//! The jobs of a queue.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{queue_of, view};
use crate::domain::job::JobState;
use crate::ports::job_queue::Acted;
use crate::web::Shared;
use crate::web::path::{SECOND, id, query};
use crate::web::problem::{Problem, ask};

const DEFAULT_PAGE: usize = 20;
const LARGEST_PAGE: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    state: Option<JobState>,
    offset: Option<usize>,
    limit: Option<usize>,
}

/// Jobs of a state, a page at a time: those first that run next, or ended last.
pub(in crate::web) async fn list(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    let page: Page = query(&request)?;
    let state = page.state.unwrap_or(JobState::Waiting);
    let limit = page.limit.unwrap_or(DEFAULT_PAGE).clamp(1, LARGEST_PAGE);
    let offset = page.offset.unwrap_or(0);
    let jobs = ask(queue.jobs(state, offset, limit)).await?;
    let next = (jobs.len() == limit).then(|| offset.saturating_add(limit));
    let shown: Vec<Value> = jobs.iter().map(view::job_in_list).collect();
    Ok(HttpResponse::Ok().json(json!({ "jobs": shown, "next": next })))
}

/// One job, with its log.
pub(in crate::web) async fn get(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let (queue, id) = (queue_of(&request, &shared)?, id(&request, SECOND, "job id")?);
    let (job, logs) = tokio::try_join!(ask(queue.job(&id)), ask(queue.logs(&id)))?;
    let job = job.ok_or_else(no_job)?;
    Ok(HttpResponse::Ok().json(view::job(&job, &logs)))
}

/// A delayed job waits no longer.
pub(in crate::web) async fn promote(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let (queue, id) = (queue_of(&request, &shared)?, id(&request, SECOND, "job id")?);
    answer(ask(queue.promote(&id)).await?, "promoted", queue.spec().name, &id)
}

/// A failed job has all its attempts again.
pub(in crate::web) async fn retry(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let (queue, id) = (queue_of(&request, &shared)?, id(&request, SECOND, "job id")?);
    answer(ask(queue.retry(&id)).await?, "retried", queue.spec().name, &id)
}

/// Removes a job that no worker has.
pub(in crate::web) async fn remove(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let (queue, id) = (queue_of(&request, &shared)?, id(&request, SECOND, "job id")?);
    answer(ask(queue.remove(&id)).await?, "removed", queue.spec().name, &id)
}

fn answer(acted: Acted, what: &str, queue: &str, id: &str) -> Result<HttpResponse, Problem> {
    match acted {
        Acted::Done => {
            log::info!("an operator {what} a job job_id={id:?} queue={queue}");
            Ok(HttpResponse::NoContent().finish())
        }
        Acted::NotFound => Err(no_job()),
        Acted::Not(state) => {
            let detail = format!("the job is {state}: it cannot be {what}");
            Err(Problem::new(StatusCode::CONFLICT, detail).with("state", state.as_str()))
        }
        Acted::OfSchedule => {
            let detail = "it is the next job of a schedule: remove the schedule";
            Err(Problem::new(StatusCode::CONFLICT, detail).with("state", "scheduled"))
        }
    }
}

fn no_job() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is no such job")
}
