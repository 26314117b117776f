//! What an operator does about an actor.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::path::{FIRST, id, query};
use super::problem::Problem;
use super::schema::OfActor;
use crate::domain::replica::ReplicaName;
use crate::ports::actor_restarts::{NobodyActed, RestartAnswer, RestartWish};

/// The id of an actor, `/v1/actors/<kind>/<id>`.
const ID: usize = FIRST + 1;

/// Stands for the id of an actor that is the only one of its kind.
const ONLY_ONE: &str = "-";

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Whose {
    /// Of this replica; else of the one that has it, or the one that is asked.
    #[param(value_type = Option<String>, pattern = "^[A-Za-z0-9._-]{1,80}$")]
    replica: Option<ReplicaName>,
}

/// It begins anew.
#[derive(Serialize, ToSchema)]
struct Restarted {
    asked: bool,
    /// Which replica does it.
    #[schema(value_type = String)]
    replica: ReplicaName,
}

/// Has an actor begin anew, with its mailbox
///
/// One of a client that was given up is started again. The replica that has it does it; of those that every replica has, the one that is
/// asked, or the one that is named.
#[utoipa::path(post, path = "/v1/actors/{kind}/{id}/restart", params(OfActor, Whose), responses(
    (status = 202, body = Restarted),
    (status = 404, description = "There is no such actor"),
    (status = 409, description = "The life of this actor is over"),
    (status = 504, description = "Not all replicas answered in time"),
))]
pub(super) async fn restart(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let kind = id(&request, FIRST, "kind")?;
    let id = Some(id(&request, ID, "id")?).filter(|id| id != ONLY_ONE).unwrap_or_default();
    let Whose { replica } = query(&request)?;
    let (shown_kind, shown_id) = (kind.escape_debug().to_string(), id.escape_debug().to_string());
    match (shared.service.restart_actor)(RestartWish { kind, id, replica }).await {
        Ok((replica, RestartAnswer::Asked)) => {
            log::info!("an operator restarts an actor kind={shown_kind} id={shown_id} replica={replica}");
            Ok(HttpResponse::Accepted().json(Restarted { asked: true, replica }))
        }
        Ok((replica, RestartAnswer::Over)) => {
            let detail = "the life of this actor is over, restart the process";
            Err(Problem::new(StatusCode::CONFLICT, detail).with("replica", replica.as_str()))
        }
        Ok((_, RestartAnswer::Unknown)) | Err(NobodyActed::Unknown) => {
            Err(Problem::new(StatusCode::NOT_FOUND, NobodyActed::Unknown.to_string()))
        }
        Err(err @ NobodyActed::Unreachable(_)) => {
            log::warn!("an actor is not restarted err={err} kind={shown_kind} id={shown_id}");
            Err(Problem::unavailable(err.to_string()))
        }
        Err(err @ NobodyActed::NoAnswer) => {
            log::warn!("an actor is not restarted err={err} kind={shown_kind} id={shown_id}");
            Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, err.to_string()))
        }
    }
}
