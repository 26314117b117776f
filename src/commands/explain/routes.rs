//! Who would get a change, by the clients of a running service.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Route;
use crate::commands::api::{Api, encoded};
use crate::domain::change_event::ChangeEvent;
use crate::domain::config::{ClientId, Status, read_value};
use crate::domain::decision::{Decision, Subject};
use crate::domain::guard::{Decided, DecisionList, Subscriber};
use crate::domain::routing::{RoutingInput, RoutingSettings, SentAs, Verdict, route};

/// The clients of a service: their configs without secrets, what is wrong with them, and whose owner is blocked.
#[derive(Default)]
pub(super) struct Clients(HashMap<ClientId, Client>);

struct Client {
    subscriber: Subscriber,
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
    /// The decision that blocks its owner.
    blocked: Option<ListedBlock>,
}

#[derive(Deserialize)]
struct ListedBlock {
    owner: String,
    by: String,
    reason: String,
    since_ms: i64,
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
    pub(super) fn routes(&self, change: &ChangeEvent, settings: &RoutingSettings<'_>) -> Vec<Route> {
        let input = RoutingInput::of(change, settings.mongo_prefix);
        let lookup = |client: &ClientId| self.0.get(client).map(|client| client.subscriber.clone());
        match route(&input, lookup, settings) {
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
        let client = self.0.get(client);
        let is_blocked = client.is_some_and(|client| client.subscriber.blocked().is_some());
        let fault = client.and_then(|client| client.fault.as_ref());
        let note = match (is_blocked, fault, change) {
            (true, ..) => Some("waits: its owner is blocked".to_owned()),
            (_, Some(fault), _) => Some(format!("waits for a usable config: {fault}")),
            (_, None, SentAs::Revocation) => Some("lost access: sent as a delete".to_owned()),
            (_, None, SentAs::Change) => None,
        };
        (true, note)
    }
}

impl Listed {
    fn into_client(self) -> Option<(ClientId, Client)> {
        let ListedConfig { status, deleted, fault, value } = self.config?;
        // Without its secrets the value may read as faulty: what is wrong with the real one was told beside it.
        let decision = self.blocked.and_then(ListedBlock::into_decision);
        let owner = decision.as_ref().map(|decision| decision.subject().to_string());
        let config = read_value(&self.client, status, deleted, 0, 0, owner, value.get());
        let fault = fault.map(|fault| format!("{}: {}", fault.key, fault.problem));
        let decided = Decided { blocked: DecisionList::new(decision), ..Decided::default() };
        let subscriber = decided.judge(&Arc::new(config));
        Some((self.client, Client { subscriber, fault }))
    }
}

impl ListedBlock {
    fn into_decision(self) -> Option<Decision> {
        let subject = Subject::parse(&self.owner).ok()?;
        Decision::new(subject, &self.by, &self.reason, self.since_ms).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::change_event::{self, SourceEvent, SourceNames, SourceRecord};
    use crate::domain::guard::WhenBlocked;
    use crate::domain::transfer::SourcePosition;

    fn change() -> ChangeEvent {
        let image = |clients: &str| format!(r#"{{"_id":1,"clients":[{clients}]}}"#);
        let value = json!({
            "op": "u", "ts_ms": 1,
            "source": { "name": "mongo", "db": "wnx-a", "collection": "b" },
            "before": image(r#""lost""#),
            "after": image(r#""gets","off","unwanted","waits","unknown","bad""#),
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
            { "client": "bad", "config": config("ACTIVE", none.clone(), usable.clone()),
                "blocked": { "owner": "o", "by": "ops", "reason": "", "since_ms": 1 } },
            { "client": "rows-only", "config": none },
        ]});
        let page: Page = serde_json::from_str(&page.to_string()).unwrap();
        let clients = Clients(page.clients.into_iter().filter_map(Listed::into_client).collect());
        let shown = |blocked| {
            let settings = RoutingSettings { revoke: true, mongo_prefix: "wnx", blocked };
            let routes = clients.routes(&change(), &settings).into_iter();
            let shown = routes.map(|route| (route.client, route.sent, route.reason.unwrap_or_default()));
            shown.collect::<Vec<_>>()
        };
        let held = (ClientId::new("bad"), true, "waits: its owner is blocked".to_owned());
        assert!(shown(WhenBlocked::Hold).contains(&held));
        let skipped = shown(WhenBlocked::Skip);
        let skipped: Vec<_> =
            skipped.iter().map(|(client, sent, reason)| (client.as_str(), *sent, reason.as_str())).collect();
        assert_eq!(
            skipped,
            [
                ("gets", true, ""),
                ("off", false, "inactive"),
                ("unwanted", false, "filtered"),
                ("waits", true, "waits for a usable config: webhook: is missing"),
                ("unknown", false, "no_config"),
                ("bad", false, "owner_blocked"),
                ("lost", true, "lost access: sent as a delete"),
            ]
        );
    }
}
