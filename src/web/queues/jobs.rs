//! The jobs of a queue.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::queue_of;
use super::view::{self, JobShown};
use crate::domain::job::JobState;
use crate::ports::job_queue::Acted;
use crate::web::Shared;
use crate::web::path::{SECOND, id, query};
use crate::web::problem::{Problem, ask};
use crate::web::schema::{self, JobLimit, OfJob, OfQueue, Offset};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Those that wait, unless something else is said.
    #[param(inline, value_type = Option<schema::JobState>)]
    state: Option<JobState>,
    #[serde(default)]
    #[param(inline, required = false)]
    offset: Offset,
    #[serde(default)]
    #[param(inline)]
    limit: JobLimit,
}

#[derive(Serialize, ToSchema)]
struct JobList {
    jobs: Vec<JobShown>,
    /// Goes on with it, as `offset`.
    next: Option<usize>,
}

/// Jobs of a state, a page at a time: those first that run next, or ended last
#[utoipa::path(get, path = "/v1/queues/{queue}/jobs", params(OfQueue, Page), responses(
    (status = 200, body = JobList),
    (status = 404, description = "There is no such queue"),
))]
pub(in crate::web) async fn list(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    let page: Page = query(&request)?;
    let state = page.state.unwrap_or(JobState::Waiting);
    let (JobLimit(limit), Offset(offset)) = (page.limit, page.offset);
    let jobs = ask(queue.jobs(state, offset, limit)).await?;
    let next = (jobs.len() == limit).then(|| offset.saturating_add(limit));
    let jobs = jobs.iter().map(view::job_in_list).collect();
    Ok(HttpResponse::Ok().json(JobList { jobs, next }))
}

/// One job, with its log
#[utoipa::path(get, path = "/v1/queues/{queue}/jobs/{id}", params(OfJob), responses(
    (status = 200, body = JobShown),
    (status = 404, description = "There is no such queue, or no such job"),
))]
pub(in crate::web) async fn get(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let (queue, id) = (queue_of(&request, &shared)?, id(&request, SECOND, "job id")?);
    let (job, logs) = tokio::try_join!(ask(queue.job(&id)), ask(queue.logs(&id)))?;
    let job = job.ok_or_else(no_job)?;
    Ok(HttpResponse::Ok().json(view::job(&job, &logs)))
}

/// A delayed job waits no longer
#[utoipa::path(post, path = "/v1/queues/{queue}/jobs/{id}/promote", params(OfJob), responses(
    (status = 204, description = "It runs as soon as a worker is free"),
    (status = 404, description = "There is no such queue, or no such job"),
    (status = 409, description = "The job is in another state"),
))]
pub(in crate::web) async fn promote(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let (queue, id) = (queue_of(&request, &shared)?, id(&request, SECOND, "job id")?);
    answer(ask(queue.promote(&id)).await?, "promoted", queue.spec().name, &id)
}

/// A failed job has all its attempts again
#[utoipa::path(post, path = "/v1/queues/{queue}/jobs/{id}/retry", params(OfJob), responses(
    (status = 204, description = "It runs as soon as a worker is free"),
    (status = 404, description = "There is no such queue, or no such job"),
    (status = 409, description = "The job is in another state"),
))]
pub(in crate::web) async fn retry(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let (queue, id) = (queue_of(&request, &shared)?, id(&request, SECOND, "job id")?);
    answer(ask(queue.retry(&id)).await?, "retried", queue.spec().name, &id)
}

/// Removes a job that no worker has
#[utoipa::path(delete, path = "/v1/queues/{queue}/jobs/{id}", params(OfJob), responses(
    (status = 204, description = "It is gone"),
    (status = 404, description = "There is no such queue, or no such job"),
    (status = 409, description = "A worker has it, or it is the next job of a schedule"),
))]
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
