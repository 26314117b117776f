//! Client configs, each with its client's state and backlog. Secrets go in and never come out.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::path::{client_of, query};
use super::problem::{Problem, ask};
use super::redact::redact;
use super::{Shared, body, decisions};
use crate::domain::client_state::ClientState;
use crate::domain::config::{ClientId, Status, read_value};
use crate::domain::stash::Backlog;
use crate::ports::client_configs::{Put, StoredConfig};

/// Bytes of a request with a config.
const CONFIG_BYTES: usize = 256 << 10;
/// How long an answer waits for the new config to be in use.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    after: Option<String>,
    limit: Option<usize>,
}

/// What is known of a client, from three stores.
#[derive(Default)]
struct Client {
    config: Option<StoredConfig>,
    state: Option<ClientState>,
    backlog: Backlog,
}

/// All clients by id, a page at a time. Deleted ones are listed while something waits for them.
pub(super) async fn list(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let page: Page = query(&request)?;
    let limit = page.limit.unwrap_or(DEFAULT_PAGE).clamp(1, LARGEST_PAGE);
    let service = &shared.service;
    let mut clients: BTreeMap<ClientId, Client> = BTreeMap::new();
    for (client, backlog) in ask(service.stash.backlogs()).await? {
        clients.entry(client).or_default().backlog = backlog;
    }
    for stored in ask(service.configs.load()).await? {
        let client = stored.config.client.clone();
        if !stored.config.deleted || clients.contains_key(&client) {
            clients.entry(client).or_default().config = Some(stored);
        }
    }
    for (client, state) in ask(service.states.list()).await? {
        if let Some(known) = clients.get_mut(&client) {
            known.state = Some(state);
        }
    }
    let after = page.after.as_deref();
    let mut rest =
        clients.into_iter().filter(|(client, _)| after.is_none_or(|after| client.as_str() > after));
    let shown: Vec<_> =
        rest.by_ref().take(limit).map(|(client, known)| view(&shared, &client, &known)).collect();
    let next = rest.next().and_then(|_| shown.last().map(|last| last["client"].clone()));
    Ok(HttpResponse::Ok().json(json!({ "clients": shown, "next": next })))
}

/// One client.
pub(super) async fn get(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let known = read(&shared, &client).await?;
    if known.config.as_ref().is_none_or(|stored| stored.config.deleted) && known.backlog == Backlog::default()
    {
        return Err(unknown());
    }
    Ok(HttpResponse::Ok().json(view(&shared, &client, &known)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewConfig {
    status: Option<Status>,
    value: Option<Box<RawValue>>,
}

/// Creates or replaces a config. What the body leaves out stays as it is: so a client is switched on and off
/// by somebody who cannot see its secrets.
pub(super) async fn put(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let text = body::read(&request, payload, CONFIG_BYTES).await?;
    let new: NewConfig = serde_json::from_slice(&text)
        .map_err(|err| Problem::bad_request(format!("expected {{\"status\", \"value\"}}: {err}")))?;
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
    Ok(HttpResponse::build(code).json(view(&shared, &client, &read(&shared, &client).await?)))
}

/// Marks a config deleted.
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

async fn read(shared: &Shared, client: &ClientId) -> Result<Client, Problem> {
    let service = &shared.service;
    Ok(Client {
        config: ask(service.configs.get(client)).await?,
        state: ask(service.states.get(client)).await?,
        backlog: ask(service.stash.backlog(client)).await?,
    })
}

fn view(shared: &Shared, client: &ClientId, known: &Client) -> Value {
    let config = known.config.as_ref().map(|stored| {
        let config = &stored.config;
        let fault = config.delivery.as_ref().err();
        json!({
            "status": config.status,
            "deleted": config.deleted,
            "version": config.version,
            "updated_at_ms": config.updated_at_ms,
            "owner": config.owner,
            "fault": fault.map(|fault| json!({ "key": fault.key, "problem": fault.problem })),
            "value": redact(&stored.value),
        })
    });
    let decided = (shared.service.decided)();
    let subscriber = known.config.as_ref().map(|stored| decided.judge(&stored.config));
    let blocked = subscriber.as_ref().and_then(|subscriber| subscriber.blocked());
    let paused = subscriber.as_ref().and_then(|subscriber| subscriber.paused());
    let backlog = &known.backlog;
    let delivery = (shared.service.delivery)(client);
    let state = delivery.as_ref().map_or_else(|| json!(known.state), |delivery| delivery["state"].clone());
    json!({
        "client": client,
        "config": config,
        "blocked": blocked.map(decisions::block),
        "paused": paused.map(decisions::pause),
        "state": state,
        "in_flight": delivery.as_ref().map_or(json!(0), |delivery| delivery["in_flight"].clone()),
        "queued": delivery.as_ref().map_or(json!(0), |delivery| delivery["queued"].clone()),
        "backlog": {
            "pending": backlog.pending,
            "pending_bytes": backlog.pending_bytes,
            "dead": backlog.dead,
            "oldest_ts_ms": backlog.oldest_ts_ms,
            "next_attempt_at_ms": backlog.next_attempt_at_ms,
        },
    })
}
