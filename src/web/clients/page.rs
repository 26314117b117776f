//! The list of clients: found, sorted and cut here.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Client, Known, view};
use crate::domain::client_state::Phase;
use crate::domain::config::{ClientId, Status};
use crate::web::Shared;
use crate::web::access::caller_of;
use crate::web::path::query;
use crate::web::problem::{Problem, ask};
use crate::web::schema::{self, PageLimit};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only those whose id or owner holds this; case does not count.
    filter: Option<String>,
    /// Only those whose config has this status.
    #[param(inline, value_type = Option<schema::ClientStatus>)]
    status: Option<Status>,
    /// Only those whose stored state is in this phase.
    #[param(inline, value_type = Option<schema::Phase>)]
    phase: Option<Phase>,
    /// What comes first; of equal ones the lower id.
    #[serde(default)]
    #[param(inline, required = false)]
    sort: Sort,
    /// Only those behind this client: `next` of the page before.
    after: Option<String>,
    #[serde(default)]
    #[param(inline)]
    limit: PageLimit,
}

/// What comes first: the lowest id, most changes waiting, the oldest change waiting, most given up.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Sort {
    #[default]
    Client,
    Pending,
    Oldest,
    Dead,
}

impl Sort {
    fn rank(self, known: &Known) -> (Reverse<u64>, i64) {
        let backlog = &known.backlog;
        match self {
            Self::Client => (Reverse(0), 0),
            Self::Pending => (Reverse(backlog.pending), 0),
            Self::Oldest => (Reverse(0), backlog.oldest_ts_ms.unwrap_or(i64::MAX)),
            Self::Dead => (Reverse(backlog.dead), 0),
        }
    }
}

#[derive(Serialize, ToSchema)]
struct Clients {
    clients: Vec<Client>,
    /// Goes on behind it, as `after`.
    next: Option<String>,
}

/// All clients, a page at a time
///
/// Deleted ones are listed while something waits for them.
#[utoipa::path(get, path = "/v1/clients", params(Page), responses((status = 200, body = Clients)))]
pub(in crate::web) async fn list(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let page: Page = query(&request)?;
    let PageLimit(limit) = page.limit;
    let mut found: Vec<_> = all(&shared).await?.into_iter().collect();
    // Before it is filtered: its place is known even when it fits no more.
    let place = |client: &ClientId, known: &Known| (page.sort.rank(known), client.clone());
    let after = page.after.as_deref().map(|after| {
        let after = ClientId::new(after);
        let known = found.iter().find(|(client, _)| *client == after);
        known.map_or_else(|| place(&after, &Known::default()), |(client, known)| place(client, known))
    });
    found.retain(|(client, known)| page.takes(client, known));
    found.sort_by_cached_key(|(client, known)| place(client, known));
    let mut rest = found
        .iter()
        .filter(|(client, known)| after.as_ref().is_none_or(|after| place(client, known) > *after));
    let shown: Vec<_> = rest.by_ref().take(limit).collect();
    let next = rest.next().and_then(|_| shown.last().map(|(client, _)| client.as_str().to_owned()));
    let role = caller_of(&request)?.role;
    let clients = shown.into_iter().map(|(client, known)| view(&shared, client, known, role)).collect();
    Ok(HttpResponse::Ok().json(Clients { clients, next }))
}

impl Page {
    fn takes(&self, client: &ClientId, known: &Known) -> bool {
        let config = known.config.as_ref().map(|stored| &stored.config);
        let has = |text: &str, part: &str| text.to_lowercase().contains(&part.to_lowercase());
        let owner = config.and_then(|config| config.owner.as_deref());
        let is_named =
            |part: &String| has(client.as_str(), part) || owner.is_some_and(|owner| has(owner, part));
        self.filter.as_ref().is_none_or(is_named)
            && self.status.is_none_or(|status| config.is_some_and(|config| config.status == status))
            && self.phase.is_none_or(|phase| known.state.as_ref().is_some_and(|state| state.phase == phase))
    }
}

async fn all(shared: &Shared) -> Result<BTreeMap<ClientId, Known>, Problem> {
    let service = &shared.service;
    let mut clients: BTreeMap<ClientId, Known> = BTreeMap::new();
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
    Ok(clients)
}
