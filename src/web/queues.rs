//! The queues: what is in them, and what an operator does about it. The store decides by the state at that moment.

pub(super) mod jobs;
mod view;

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::path::{FIRST, SECOND, id};
use super::problem::{Problem, ask};
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

/// All queues.
pub(super) async fn list(shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let pauses = ask(pauses(&shared).list()).await?;
    let queues = &shared.service.queues;
    let shown =
        futures_util::future::try_join_all(queues.iter().map(|queue| show(&**queue, &pauses))).await?;
    Ok(HttpResponse::Ok().json(json!({ "queues": shown })))
}

/// One queue.
pub(super) async fn get(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    let pauses = ask(pauses(&shared).list()).await?;
    Ok(HttpResponse::Ok().json(show(&**queue, &pauses).await?))
}

async fn show(queue: &dyn JobQueue, pauses: &[Decision]) -> Result<Value, Problem> {
    let (counts, paused, oldest, schedules) = tokio::try_join!(
        ask(queue.counts()),
        ask(queue.is_paused()),
        ask(queue.oldest_waiting()),
        ask(queue.schedules()),
    )?;
    let decision = pauses.iter().find(|pause| pause.subject().as_str() == queue.spec().name);
    Ok(view::queue(queue.spec(), &counts, paused, decision, oldest, &schedules))
}

/// Pauses a queue, by a decision that outlives what Redis holds. 202: it is kept, and the queue has it soon.
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
    Ok(HttpResponse::build(code).json(json!({ "paused": true })))
}

/// Goes on with a queue, whoever paused it.
pub(super) async fn resume(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    ask(pauses(&shared).resume(&**queue)).await?;
    decisions::are_in_use(&shared).await;
    log::info!("queue is resumed queue={}", queue.spec().name);
    Ok(HttpResponse::Ok().json(json!({ "paused": false })))
}

/// No delayed job waits any longer.
pub(super) async fn promote_all(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    counted("promoted", &**queue, ask(queue.promote_all()).await?)
}

/// All failed jobs have all their attempts again.
pub(super) async fn retry_all(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    counted("retried", &**queue, ask(queue.retry_all()).await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Clean {
    state: JobState,
    older_than_ms: Option<u64>,
    limit: Option<usize>,
}

/// Removes the oldest jobs of a state.
pub(super) async fn clean(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    let text = body::read(&request, payload, BODY_BYTES).await?;
    let clean: Clean = serde_json::from_slice(&text).map_err(|err| {
        Problem::bad_request(format!("expected {{\"state\", \"older_than_ms\", \"limit\"}}: {err}"))
    })?;
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

fn counted(what: &str, queue: &dyn JobQueue, count: u64) -> Result<HttpResponse, Problem> {
    log::info!("an operator {what} jobs count={count} queue={}", queue.spec().name);
    Ok(HttpResponse::Ok().json(json!({ "count": count })))
}

/// The schedules of a queue.
pub(super) async fn schedules(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let queue = queue_of(&request, &shared)?;
    let schedules = ask(queue.schedules()).await?;
    let shown: Vec<Value> = schedules.iter().map(view::schedule).collect();
    Ok(HttpResponse::Ok().json(json!({ "schedules": shown })))
}

fn no_schedule() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is no such schedule")
}

/// One schedule.
pub(super) async fn schedule(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let (queue, id) = (queue_of(&request, &shared)?, id(&request, SECOND, "schedule")?);
    let schedules = ask(queue.schedules()).await?;
    let schedule = schedules.iter().find(|schedule| schedule.id == id).ok_or_else(no_schedule)?;
    Ok(HttpResponse::Ok().json(view::schedule(schedule)))
}

/// Removes a schedule with its next job. One of the service's own table is put again within a minute.
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
