//! Who would get a change, by the clients of a running service.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Route;
use crate::commands::api::{Api, encoded};
use crate::domain::change_event::ChangeEvent;
use crate::domain::config::{ClientConfig, ClientId, Status, read_value};
use crate::domain::routing::{RoutingInput, RoutingSettings, SentAs, Verdict, route};

/// The clients of a service: their configs without secrets, and what is wrong with them.
#[derive(Default)]
pub(super) struct Clients(HashMap<ClientId, Client>);

struct Client {
    config: Arc<ClientConfig>,
    fault: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    clients: Vec<Listed>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Listed {
    client: ClientId,
    config: Option<ListedConfig>,
}

#[derive(Deserialize)]
struct ListedConfig {
    status: Status,
    deleted: bool,
    fault: Option<Fault>,
    value: Box<RawValue>,
}

#[derive(Deserialize)]
struct Fault {
    key: String,
    problem: String,
}

impl Clients {
    /// Reads all of them.
    pub(super) async fn load(api: &Api) -> anyhow::Result<Self> {
        let mut clients = Self::default();
        let mut path = "/v1/clients?limit=1000".to_owned();
        loop {
            let page: Page = serde_json::from_str(&api.get(&path).await?.to_string())?;
            clients.0.extend(page.clients.into_iter().filter_map(Listed::into_client));
            let Some(next) = page.next else { return Ok(clients) };
            path = format!("/v1/clients?limit=1000&after={}", encoded(&next));
        }
    }

    /// What becomes of a change for each of its clients.
    pub(super) fn routes(&self, change: &ChangeEvent, revoke: bool, mongo_prefix: &str) -> Vec<Route> {
        let input = RoutingInput::of(change, mongo_prefix);
        let lookup = |client: &ClientId| self.0.get(client).map(|client| client.config.clone());
        match route(&input, lookup, &RoutingSettings { revoke, mongo_prefix }) {
            Ok(decisions) => decisions
                .into_iter()
                .map(|decision| {
                    let (sent, reason) = self.judge(&decision.client, decision.verdict);
                    Route { client: decision.client, sent, reason }
                })
                .collect(),
            Err(reason) => change
                .clients
                .iter()
                .chain(&change.removed_clients)
                .map(|client| Route {
                    client: client.clone(),
                    sent: false,
                    reason: Some(reason.as_str().to_owned()),
                })
                .collect(),
        }
    }

    fn judge(&self, client: &ClientId, verdict: Verdict) -> (bool, Option<String>) {
        let change = match verdict {
            Verdict::Skip(reason) => return (false, Some(reason.as_str().to_owned())),
            Verdict::Send { change, .. } => change,
        };
        let fault = self.0.get(client).and_then(|client| client.fault.as_ref());
        let note = match (fault, change) {
            (Some(fault), _) => Some(format!("waits for a usable config: {fault}")),
            (None, SentAs::Revocation) => Some("lost access: sent as a delete".to_owned()),
            (None, SentAs::Change) => None,
        };
        (true, note)
    }
}

impl Listed {
    fn into_client(self) -> Option<(ClientId, Client)> {
        let ListedConfig { status, deleted, fault, value } = self.config?;
        // Without its secrets the value may read as faulty: what is wrong with the real one was told beside it.
        let config = read_value(&self.client, status, deleted, 0, 0, None, value.get());
        let fault = fault.map(|fault| format!("{}: {}", fault.key, fault.problem));
        Some((self.client, Client { config: Arc::new(config), fault }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::change_event::{self, SourceEvent, SourceNames, SourceRecord};
    use crate::domain::transfer::SourcePosition;

    fn change() -> ChangeEvent {
        let image = |clients: &str| format!(r#"{{"_id":1,"clients":[{clients}]}}"#);
        let value = json!({
            "op": "u", "ts_ms": 1,
            "source": { "name": "mongo", "db": "wnx-a", "collection": "b" },
            "before": image(r#""lost""#),
            "after": image(r#""gets","off","unwanted","waits","unknown""#),
        });
        let record = SourceRecord {
            position: SourcePosition { topic: "mongo.wnx-a.b".into(), partition: 0, offset: 0 },
            timestamp_ms: 0,
            key: None,
            value: Some(value.to_string().into()),
            headers: Vec::new(),
        };
        let names = SourceNames { prefix: "mongo".into(), signal_collections: Vec::new() };
        match change_event::read(&record, &names) {
            SourceEvent::Change(change) => *change,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_client_gets_the_reason_that_the_service_would_have() {
        let config = |status: &str, fault: serde_json::Value, value: serde_json::Value| json!({ "status": status, "deleted": false, "fault": fault, "value": value });
        let usable = json!({ "webhook": "http://x.test/", "secret": "set" });
        let elsewhere = json!({ "webhook": "http://x.test/", "filter": { "include": ["c.*"] } });
        let fault = json!({ "key": "webhook", "problem": "is missing" });
        let none = serde_json::Value::Null;
        let page = json!({ "next": null, "clients": [
            { "client": "gets", "config": config("ACTIVE", none.clone(), usable.clone()) },
            { "client": "lost", "config": config("ACTIVE", none.clone(), usable.clone()) },
            { "client": "off", "config": config("INACTIVE", none.clone(), usable.clone()) },
            { "client": "unwanted", "config": config("ACTIVE", none.clone(), elsewhere) },
            { "client": "waits", "config": config("ACTIVE", fault, json!({})) },
            { "client": "rows-only", "config": none },
        ]});
        let page: Page = serde_json::from_str(&page.to_string()).unwrap();
        let clients = Clients(page.clients.into_iter().filter_map(Listed::into_client).collect());
        let routes = clients.routes(&change(), true, "wnx");
        let shown: Vec<_> = routes
            .iter()
            .map(|route| (route.client.as_str(), route.sent, route.reason.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(
            shown,
            [
                ("gets", true, ""),
                ("off", false, "inactive"),
                ("unwanted", false, "filtered"),
                ("waits", true, "waits for a usable config: webhook: is missing"),
                ("unknown", false, "no_config"),
                ("lost", true, "lost access: sent as a delete"),
            ]
        );
    }
}
