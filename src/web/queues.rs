//! The queues: what is in them, and what an operator does about it. The store decides by the state at that moment.

pub(super) mod jobs;
mod view;

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use self::view::{QueueShown, ScheduleShown};
use super::decisions::Said;
use super::path::{FIRST, SECOND, id};
use super::problem::{Problem, ask};
use super::schema::{self, OfQueue, OfSchedule};
use super::{Shared, body, decisions};
use crate::domain::decision::{Decision, Subject};
use crate::domain::job::JobState;
use crate::ports::job_queue::JobQueue;
use crate::workers::QueuePauses;

/// Bytes of a request to clean.
const BODY_BYTES: usize = 16 << 10;
const DEFAULT_CLEANED: usize = 1_000;
const MOST_CLEANED: usize = 100_000;

/// The queue of a path.
fn queue_of<'a>(request: &HttpRequest, shared: &'a Shared) -> Result<&'a Arc<dyn JobQueue>, Problem> {
    let name = id(request, FIRST, "queue")?;
    let queue = shared.service.queues.iter().find(|queue| queue.spec().name == name);
    queue.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "there is no such queue"))
}

fn pauses(shared: &Shared) -> QueuePauses {
    QueuePauses::new(shared.service.decisions.clone(), shared.service.queues.clone())
}

#[derive(Serialize, ToSchema)]
struct Queues {
    queues: Vec<QueueShown>,
}

/// All queues
#[utoipa::path(get, path = "/v1/queues", responses((status = 200, body = Queues)))]
pub(super) async fn list(shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let pauses = ask(pauses(&shared).list()).await?;
    let queues = &shared.service.queues;
    let queues =
        futures_util::future::try_join_all(queues.iter().map(|queue| show(&**queue, &pauses))).await?;
    Ok(HttpResponse::Ok().json(Queues { queues }))
}

/// One queue
#[utoipa::path(get, path = "/v1/queues/{queue}", params(OfQueue), responses(
    (status = 200, body = QueueShown),
    (status = 404, description = "There is no such queue"),
))]
pub(super) async fn get(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    let pauses = ask(pauses(&shared).list()).await?;
    Ok(HttpResponse::Ok().json(show(&**queue, &pauses).await?))
}

async fn show(queue: &dyn JobQueue, pauses: &[Decision]) -> Result<QueueShown, Problem> {
    let (counts, paused, oldest, schedules) = tokio::try_join!(
        ask(queue.counts()),
        ask(queue.is_paused()),
        ask(queue.oldest_waiting()),
        ask(queue.schedules()),
    )?;
    let decision = pauses.iter().find(|pause| pause.subject().as_str() == queue.spec().name);
    Ok(view::queue(queue.spec(), &counts, paused, decision, oldest, &schedules))
}

/// Whether no job is taken.
#[derive(Serialize, ToSchema)]
struct QueuePaused {
    paused: bool,
}

/// Pauses a queue, by a decision that outlives what Redis holds
#[utoipa::path(post, path = "/v1/queues/{queue}/pause", params(OfQueue), request_body = Option<Said>, responses(
    (status = 200, body = QueuePaused, description = "No job is taken any more"),
    (status = 202, body = QueuePaused, description = "It is kept, and the queue has it soon"),
    (status = 404, description = "There is no such queue"),
))]
pub(super) async fn pause(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    let subject = Subject::parse(queue.spec().name).map_err(|err| Problem::bad_request(err.to_string()))?;
    let decision = decisions::read(&request, payload, subject, shared.service.clock.now_ms()).await?;
    let by = decision.by().to_owned();
    let has_it = ask(pauses(&shared).pause(&**queue, decision)).await?;
    decisions::are_in_use(&shared).await;
    log::info!("queue is paused by={by} queue={}", queue.spec().name);
    let code = if has_it { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(HttpResponse::build(code).json(QueuePaused { paused: true }))
}

/// Goes on with a queue, whoever paused it
#[utoipa::path(post, path = "/v1/queues/{queue}/resume", params(OfQueue), responses(
    (status = 200, body = QueuePaused),
    (status = 404, description = "There is no such queue"),
))]
pub(super) async fn resume(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    ask(pauses(&shared).resume(&**queue)).await?;
    decisions::are_in_use(&shared).await;
    log::info!("queue is resumed queue={}", queue.spec().name);
    Ok(HttpResponse::Ok().json(QueuePaused { paused: false }))
}

/// No delayed job waits any longer
#[utoipa::path(post, path = "/v1/queues/{queue}/promote-all", params(OfQueue), responses(
    (status = 200, body = Counted),
    (status = 404, description = "There is no such queue"),
))]
pub(super) async fn promote_all(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    counted("promoted", &**queue, ask(queue.promote_all()).await?)
}

/// All failed jobs have all their attempts again
#[utoipa::path(post, path = "/v1/queues/{queue}/retry-all", params(OfQueue), responses(
    (status = 200, body = Counted),
    (status = 404, description = "There is no such queue"),
))]
pub(super) async fn retry_all(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    counted("retried", &**queue, ask(queue.retry_all()).await?)
}

/// Which jobs are removed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Clean {
    #[schema(value_type = schema::JobState)]
    state: JobState,
    /// Only those that are older. 0, when it is left out.
    #[schema(minimum = 0, maximum = 9007199254740991_u64)]
    older_than_ms: Option<u64>,
    /// At most so many; 1000, when it is left out.
    #[schema(minimum = 1, maximum = 100000)]
    limit: Option<usize>,
}

/// Removes the oldest jobs of a state
#[utoipa::path(post, path = "/v1/queues/{queue}/clean", params(OfQueue), request_body = Clean, responses(
    (status = 200, body = Counted),
    (status = 404, description = "There is no such queue"),
    (status = 409, description = "Jobs at work are not cleaned away"),
))]
pub(super) async fn clean(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    let expected = r#"{"state", "older_than_ms", "limit"}"#;
    let clean: Clean = body::needed_object(&request, payload, BODY_BYTES, expected).await?;
    if clean.state == JobState::Active {
        return Err(Problem::new(StatusCode::CONFLICT, "jobs at work are not cleaned away")
            .with("state", JobState::Active.as_str()));
    }
    let limit = clean.limit.unwrap_or(DEFAULT_CLEANED);
    if !(1..=MOST_CLEANED).contains(&limit) {
        return Err(Problem::bad_request(format!("limit: must be 1 to {MOST_CLEANED}")).with("key", "limit"));
    }
    let age = Duration::from_millis(clean.older_than_ms.unwrap_or(0));
    counted("removed", &**queue, ask(queue.clean(clean.state, age, limit)).await?)
}

#[derive(Serialize, ToSchema)]
struct Counted {
    /// How many jobs.
    count: u64,
}

fn counted(what: &str, queue: &dyn JobQueue, count: u64) -> Result<HttpResponse, Problem> {
    log::info!("an operator {what} jobs count={count} queue={}", queue.spec().name);
    Ok(HttpResponse::Ok().json(Counted { count }))
}

#[derive(Serialize, ToSchema)]
struct Schedules {
    schedules: Vec<ScheduleShown>,
}

/// The schedules of all queues
#[utoipa::path(get, path = "/v1/schedules", responses((status = 200, body = Schedules)))]
pub(super) async fn all_schedules(shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let of_queue = async |queue: &Arc<dyn JobQueue>| {
        let schedules = ask(queue.schedules()).await?;
        Ok::<_, Problem>(schedules.iter().map(|one| view::schedule(queue.spec(), one)).collect::<Vec<_>>())
    };
    let schedules = futures_util::future::try_join_all(shared.service.queues.iter().map(of_queue)).await?;
    Ok(HttpResponse::Ok().json(Schedules { schedules: schedules.into_iter().flatten().collect() }))
}

/// The schedules of a queue
#[utoipa::path(get, path = "/v1/queues/{queue}/schedules", params(OfQueue), responses(
    (status = 200, body = Schedules),
    (status = 404, description = "There is no such queue"),
))]
pub(super) async fn schedules(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    let schedules = ask(queue.schedules()).await?;
    let schedules = schedules.iter().map(|schedule| view::schedule(queue.spec(), schedule)).collect();
    Ok(HttpResponse::Ok().json(Schedules { schedules }))
}

fn no_schedule() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is no such schedule")
}

/// One schedule
#[utoipa::path(get, path = "/v1/queues/{queue}/schedules/{id}", params(OfSchedule), responses(
    (status = 200, body = ScheduleShown),
    (status = 404, description = "There is no such queue, or no such schedule"),
))]
pub(super) async fn schedule(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let (queue, id) = (queue_of(&request, &shared)?, id(&request, SECOND, "schedule")?);
    let schedules = ask(queue.schedules()).await?;
    let schedule = schedules.iter().find(|schedule| schedule.id == id).ok_or_else(no_schedule)?;
    Ok(HttpResponse::Ok().json(view::schedule(queue.spec(), schedule)))
}

/// Removes a schedule with its next job
///
/// One of the service's own table is put again within a minute.
#[utoipa::path(delete, path = "/v1/queues/{queue}/schedules/{id}", params(OfSchedule), responses(
    (status = 204, description = "It is gone"),
    (status = 404, description = "There is no such queue, or no such schedule"),
))]
pub(super) async fn remove_schedule(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let (queue, id) = (queue_of(&request, &shared)?, id(&request, SECOND, "schedule")?);
    if !ask(queue.remove_schedule(&id)).await? {
        return Err(no_schedule());
    }
    log::info!("an operator removed a schedule id={id:?} queue={}", queue.spec().name);
    Ok(HttpResponse::NoContent().finish())
}
