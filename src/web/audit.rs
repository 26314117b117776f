//! Who did what: every action is written down before it is done, and what came of it after. So is who read payloads.

use std::future::Future;
use std::time::Duration;

use actix_web::dev::ServiceRequest;
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::path::query;
use super::problem::{Problem, ask};
use super::schema::{self, PageLimit, Whole};
use super::{Shared, routes};
use crate::domain::access::{AccessRole, Caller};
use crate::domain::audit::{ActionOutcome, AuditEntry, NewAction};
use crate::ports::audit::AuditPage;
use crate::ports::{StoreError, StoreResult};

/// How long an action waits for its entry. Then it is done all the same: who acts while the store is away has a reason to.
const PATIENCE: Duration = Duration::from_secs(2);

/// Changes of the platform's data come by this; nobody acts.
const NO_ACTION: &str = "send_events";

/// An action that goes on.
pub(super) struct Record {
    shared: web::Data<Shared>,
    id: i64,
}

/// Writes down that a request acts. `None`: it does not, or its entry could not be written; then the log of the process has it.
pub(super) async fn begin(request: &ServiceRequest, caller: Caller) -> Option<Record> {
    let shared = request.app_data::<web::Data<Shared>>()?.clone();
    let pattern = request.match_pattern()?;
    let route = routes::find(request.method(), &pattern).filter(|route| route.name != NO_ACTION)?;
    let action = NewAction::new(caller, route.name.into(), subject(&pattern, request.path()));
    write(&shared, action).await.map(|id| Record { shared, id })
}

/// Writes down that somebody reads what not everybody may see.
pub(super) async fn note_reading(
    shared: &web::Data<Shared>,
    request: &HttpRequest,
    caller: Caller,
    status: StatusCode,
) {
    let route = request
        .match_pattern()
        .and_then(|pattern| Some((routes::find(request.method(), &pattern)?, pattern)));
    if let Some((route, pattern)) = route {
        note(shared, caller, route.name, subject(&pattern, request.path()), status).await;
    }
}

/// Writes down an action that has been done.
pub(super) async fn note(
    shared: &web::Data<Shared>,
    caller: Caller,
    action: &str,
    subject: String,
    status: StatusCode,
) {
    let action = NewAction::new(caller, action.into(), subject);
    if let Some(id) = write(shared, action).await {
        Record { shared: shared.clone(), id }.end(status).await;
    }
}

async fn write(shared: &Shared, action: NewAction) -> Option<i64> {
    let (by, name, subject) = (action.by.name.clone(), action.action.clone(), action.subject.clone());
    match in_time(shared.service.audit.begin(action)).await {
        Ok(id) => Some(id),
        Err(err) => {
            shared.service.metrics.audit_missed.inc();
            log::error!(
                "an action is not in the audit log err={err} by={by} action={name} subject={subject:?}"
            );
            None
        }
    }
}

impl Record {
    /// Writes down how it was answered.
    pub(super) async fn end(self, status: StatusCode) {
        if let Err(err) = in_time(self.shared.service.audit.end(self.id, status.as_u16())).await {
            self.shared.service.metrics.audit_missed.inc();
            log::error!(
                "the end of an action is not in the audit log err={err} id={} status={status}",
                self.id
            );
        }
    }
}

async fn in_time<T>(answer: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    let late = |_| StoreError::Unavailable("no answer in time".into());
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)?
}

/// The ids in a path, as they were sent.
fn subject(pattern: &str, path: &str) -> String {
    let ids = pattern.split('/').zip(path.split('/')).filter(|(part, _)| part.starts_with('{'));
    ids.map(|(_, id)| id).collect::<Vec<_>>().join("/")
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only those of this token.
    by: Option<String>,
    /// Only this operation.
    action: Option<String>,
    /// Only on this, written as in the entries.
    subject: Option<String>,
    /// Only those with a lower number: `next` of the page before.
    #[param(inline)]
    before: Option<Whole>,
    #[serde(default)]
    #[param(inline)]
    limit: PageLimit,
}

/// An action, as it is shown.
#[derive(Serialize, ToSchema)]
struct Action {
    id: i64,
    /// When it began, milliseconds since 1970, by the store's clock.
    at_ms: i64,
    /// The name of the token; `loopback` where none is needed.
    by: String,
    /// What that allowed then.
    #[schema(value_type = schema::Role)]
    role: AccessRole,
    /// The name of the operation.
    action: String,
    /// The ids in its path, percent-encoded, with `/` between them.
    subject: String,
    #[schema(value_type = schema::Outcome)]
    outcome: ActionOutcome,
    /// The HTTP status of its answer.
    status: Option<u16>,
}

impl From<AuditEntry> for Action {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { id, at_ms, by, role, action, subject, status } = entry;
        Self { id, at_ms, by, role, action, subject, outcome: ActionOutcome::of(status), status }
    }
}

#[derive(Serialize, ToSchema)]
struct Actions {
    actions: Vec<Action>,
    /// Goes on behind it, as `before`.
    next: Option<i64>,
}

/// What operators did, the newest first, a page at a time
///
/// An action is written down before it is done, also one that is refused. Change events that are sent are no actions.
#[utoipa::path(get, path = "/v1/audit", params(Page), responses((status = 200, body = Actions)))]
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let Page { by, action, subject, before, limit } = query(&request)?;
    let PageLimit(limit) = limit;
    let entries = ask(shared.service.audit.list(AuditPage {
        before: before.map(Whole::get),
        by,
        action,
        subject,
        limit,
    }))
    .await?;
    let next = entries.last().filter(|_| entries.len() == limit).map(|last| last.id);
    let actions = entries.into_iter().map(Action::from).collect();
    Ok(HttpResponse::Ok().json(Actions { actions, next }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_the_ids_of_the_path() {
        let subject_of = |pattern, path| subject(pattern, path);
        assert_eq!(subject_of("/v1/clients/{id}/pause", "/v1/clients/a%2Fb/pause"), "a%2Fb");
        assert_eq!(subject_of("/v1/queues/{queue}/jobs/{id}", "/v1/queues/q/jobs/7"), "q/7");
        assert_eq!(subject_of("/v1/clients", "/v1/clients"), "");
    }
}
