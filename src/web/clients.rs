//! Client configs, each with its client's state and backlog. Secrets go in and never come out.

mod page;

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub(super) use self::page::{__path_list, list};
use super::access::caller_of;
use super::decisions::{Block, Made};
use super::path::client_of;
use super::problem::{Problem, ask};
use super::redact::redact;
use super::schema::{self, OfClient};
use super::{Shared, body};
use crate::domain::access::AccessRole;
use crate::domain::client_state::ClientState;
use crate::domain::config::{ClientId, Status, read_value};
use crate::domain::stash::Backlog;
use crate::ports::client_configs::{Put, StoredConfig};

/// Bytes of a request with a config.
const CONFIG_BYTES: usize = 256 << 10;
/// How long an answer waits for the new config to be in use.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// What is known of a client, from three stores.
#[derive(Default)]
struct Known {
    config: Option<StoredConfig>,
    state: Option<ClientState>,
    backlog: Backlog,
}

/// A client.
#[derive(Serialize, ToSchema)]
pub(super) struct Client {
    client: String,
    /// `null`: there is none, and something waits all the same.
    config: Option<Config>,
    /// Why nothing is done for its owner.
    blocked: Option<Block>,
    /// Why an operator stopped it.
    paused: Option<Made>,
    /// What its delivery does; `null`: nothing was ever sent to it.
    #[schema(value_type = Option<Object>)]
    state: Value,
    /// Requests on the wire, as far as this replica knows.
    in_flight: u64,
    /// Changes in memory, as far as this replica knows.
    queued: u64,
    backlog: Waiting,
}

/// A client's config.
#[derive(Serialize, ToSchema)]
struct Config {
    #[schema(value_type = schema::ClientStatus)]
    status: Status,
    deleted: bool,
    /// Rises with each change.
    version: i64,
    updated_at_ms: i64,
    owner: Option<String>,
    /// What is wrong with the value: nothing is delivered until that is mended.
    fault: Option<Fault>,
    /// Secrets read `set`; so does the path of the webhook for a viewer.
    #[schema(value_type = Object)]
    value: Value,
}

/// What is wrong with a value.
#[derive(Serialize, ToSchema)]
struct Fault {
    key: String,
    problem: String,
}

/// What waits for a client in the stash, and what was given up.
#[derive(Serialize, ToSchema)]
struct Waiting {
    pending: u64,
    pending_bytes: u64,
    dead: u64,
    /// When the oldest change that waits happened, milliseconds since 1970.
    oldest_ts_ms: Option<i64>,
    next_attempt_at_ms: Option<i64>,
}

/// One client
#[utoipa::path(get, path = "/v1/clients/{id}", params(OfClient), responses(
    (status = 200, body = Client),
    (status = 404, description = "There is no such client"),
))]
pub(super) async fn get(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let known = read(&shared, &client).await?;
    if known.config.as_ref().is_none_or(|stored| stored.config.deleted) && known.backlog == Backlog::default()
    {
        return Err(unknown());
    }
    Ok(HttpResponse::Ok().json(view(&shared, &client, &known, caller_of(&request)?.role)))
}

/// What becomes of a client's config. What is left out stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewConfig {
    #[schema(value_type = Option<schema::ClientStatus>)]
    status: Option<Status>,
    /// The members are in the README.
    #[schema(value_type = Option<Object>)]
    value: Option<Box<RawValue>>,
}

/// Creates or replaces a config
///
/// What the body leaves out stays as it is: so a client is switched on and off by somebody who cannot see its secrets.
#[utoipa::path(put, path = "/v1/clients/{id}", params(OfClient), request_body = NewConfig, responses(
    (status = 200, body = Client, description = "It is replaced, and in use"),
    (status = 201, body = Client, description = "It is created, and in use"),
    (status = 202, body = Client, description = "It is kept, and in use soon"),
    (status = 422, description = "The value has a fault; `key` says where"),
))]
pub(super) async fn put(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let expected = r#"{"status", "value"}"#;
    let new: NewConfig = body::needed_object(&request, payload, CONFIG_BYTES, expected).await?;
    if let Some(value) = &new.value {
        read_value(&client, Status::Active, false, 0, 0, None, value.get()).delivery.map_err(|fault| {
            let key = if fault.key == "value" { fault.key } else { format!("value.{}", fault.key) };
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{key}: {}", fault.problem))
                .with("key", key)
        })?;
    }
    let service = &shared.service;
    let written = {
        let _turn = shared.config_writes.lock().await;
        let old = ask(service.configs.get(&client)).await?.filter(|old| !old.config.deleted);
        let status = new.status.or(old.as_ref().map(|old| old.config.status)).unwrap_or(Status::Active);
        let value = match (new.value, old) {
            (Some(value), _) => String::from(Box::<str>::from(value)),
            (None, Some(old)) => old.value,
            (None, None) => {
                let detail = "value: a new client needs one, with its webhook";
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).with("key", "value"));
            }
        };
        ask(service.configs.put(&client, status, value, service.clock.now_ms())).await?
    };
    let code = match written {
        Put::Created => StatusCode::CREATED,
        Put::Replaced => StatusCode::OK,
    };
    let code = if is_in_use(&shared, &client).await { code } else { StatusCode::ACCEPTED };
    Ok(HttpResponse::build(code).json(view(
        &shared,
        &client,
        &read(&shared, &client).await?,
        caller_of(&request)?.role,
    )))
}

/// Switches a client on or off, and leaves the rest of its config as it is.
pub(super) async fn switch(
    shared: &Shared,
    client: ClientId,
    status: Status,
) -> Result<HttpResponse, Problem> {
    let service = &shared.service;
    {
        let _turn = shared.config_writes.lock().await;
        let old = ask(service.configs.get(&client)).await?.filter(|old| !old.config.deleted);
        let value = old.ok_or_else(unknown)?.value;
        ask(service.configs.put(&client, status, value, service.clock.now_ms())).await?;
    }
    log::info!("client is switched status={status:?} client={client}");
    let code = if is_in_use(shared, &client).await { StatusCode::OK } else { StatusCode::ACCEPTED };
    // Nobody else acts.
    let role = AccessRole::Operator;
    Ok(HttpResponse::build(code).json(view(shared, &client, &read(shared, &client).await?, role)))
}

/// Deletes a client: its config is marked deleted, and what waits for it is given up
#[utoipa::path(delete, path = "/v1/clients/{id}", params(OfClient), responses(
    (status = 204, description = "It is gone"),
    (status = 202, description = "It is kept, and in use soon"),
    (status = 404, description = "There is no such client"),
))]
pub(super) async fn delete(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let service = &shared.service;
    let was_there = {
        let _turn = shared.config_writes.lock().await;
        ask(service.configs.delete(&client, service.clock.now_ms())).await?
    };
    if !was_there {
        return Err(unknown());
    }
    let code = if is_in_use(&shared, &client).await { StatusCode::NO_CONTENT } else { StatusCode::ACCEPTED };
    Ok(HttpResponse::build(code).finish())
}

fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is no such client")
}

/// Waits until the stored config is the one in use. When that fails it is stored all the same, and comes into use
/// with the next reload of all configs.
async fn is_in_use(shared: &Shared, client: &ClientId) -> bool {
    let refreshed = (shared.service.refresh_config)(client.clone());
    let err = match tokio::time::timeout(REFRESH_TIMEOUT, refreshed).await {
        Ok(Ok(())) => return true,
        Ok(Err(err)) => err,
        Err(_) => "timed out".to_owned(),
    };
    log::warn!("a new client config is stored but not in use yet err={err} client={client}");
    false
}

async fn read(shared: &Shared, client: &ClientId) -> Result<Known, Problem> {
    let service = &shared.service;
    Ok(Known {
        config: ask(service.configs.get(client)).await?,
        state: ask(service.states.get(client)).await?,
        backlog: ask(service.stash.backlog(client)).await?,
    })
}

fn view(shared: &Shared, client: &ClientId, known: &Known, role: AccessRole) -> Client {
    let config = known.config.as_ref().map(|stored| {
        let config = &stored.config;
        let fault = config.delivery.as_ref().err();
        Config {
            status: config.status,
            deleted: config.deleted,
            version: config.version,
            updated_at_ms: config.updated_at_ms,
            owner: config.owner.clone(),
            fault: fault.map(|fault| Fault { key: fault.key.clone(), problem: fault.problem.clone() }),
            value: redact(&stored.value, role),
        }
    });
    let decided = (shared.service.decided)();
    let subscriber = known.config.as_ref().map(|stored| decided.judge(&stored.config));
    let blocked = subscriber.as_ref().and_then(|subscriber| subscriber.blocked());
    let paused = subscriber.as_ref().and_then(|subscriber| subscriber.paused());
    let backlog = &known.backlog;
    // Fresher than what is stored.
    let delivery = (shared.service.delivery)(client);
    let state = match &delivery {
        Some(delivery) => delivery["state"].clone(),
        None => serde_json::to_value(&known.state).unwrap_or_default(),
    };
    let number = |name: &str| delivery.as_ref().and_then(|delivery| delivery[name].as_u64()).unwrap_or(0);
    Client {
        client: client.as_str().to_owned(),
        config,
        blocked: blocked.map(Block::from),
        paused: paused.map(Made::from),
        state,
        in_flight: number("in_flight"),
        queued: number("queued"),
        backlog: Waiting {
            pending: backlog.pending,
            pending_bytes: backlog.pending_bytes,
            dead: backlog.dead,
            oldest_ts_ms: backlog.oldest_ts_ms,
            next_attempt_at_ms: backlog.next_attempt_at_ms,
        },
    }
}
