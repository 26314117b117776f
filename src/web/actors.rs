//! What an operator does about an actor.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::Shared;
use super::actions::Asked;
use super::path::{FIRST, id};
use super::problem::Problem;
use super::schema::OfActor;

/// The id of an actor, `/v1/actors/<kind>/<id>`.
const ID: usize = FIRST + 1;

/// Stands for the id of an actor that is the only one of its kind.
const ONLY_ONE: &str = "-";

/// Which actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorName {
    /// What it is.
    pub kind: String,
    /// Which of its kind; empty: the only one.
    pub id: String,
}

/// What became of the wish that an actor begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartAnswer {
    /// It does.
    Asked,
    /// Its life is over, and nobody starts another.
    Over,
    /// There is none, in this process.
    Unknown,
}

/// Has an actor begin anew, with its mailbox
///
/// One of a client that was given up is started again.
#[utoipa::path(post, path = "/v1/actors/{kind}/{id}/restart", params(OfActor), responses(
    (status = 202, body = Asked),
    (status = 404, description = "There is no such actor in this process"),
    (status = 409, description = "The life of this actor is over"),
))]
pub(super) async fn restart(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let kind = id(&request, FIRST, "kind")?;
    let id = Some(id(&request, ID, "id")?).filter(|id| id != ONLY_ONE).unwrap_or_default();
    let (shown_kind, shown_id) = (kind.escape_debug().to_string(), id.escape_debug().to_string());
    match (shared.service.restart_actor)(ActorName { kind, id }).await {
        RestartAnswer::Asked => {
            log::info!("an operator restarts an actor kind={shown_kind} id={shown_id}");
            Ok(Asked::answer())
        }
        RestartAnswer::Over => {
            Err(Problem::new(StatusCode::CONFLICT, "the life of this actor is over, restart the process"))
        }
        RestartAnswer::Unknown => {
            Err(Problem::new(StatusCode::NOT_FOUND, "there is no such actor in this process"))
        }
    }
}
