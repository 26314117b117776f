//! Change events as Debezium writes them: strict extended JSON in strings, inside JSON.

use serde_json::{Value, json};

use super::oracle::Pair;

/// The time of all events, milliseconds since 1970: 2025-11-29T17:00:00Z.
pub(crate) const EVENT_MS: u64 = 1_764_435_600_000;

/// A document of `wnx-identity.users`, as the tests change it.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    number: u64,
    version: u64,
    clients: Vec<String>,
}

impl Document {
    /// The document of this number, not created yet.
    pub(crate) fn new(number: u64, clients: &[&str]) -> Self {
        Self { number, version: 0, clients: clients.iter().map(|client| (*client).to_owned()).collect() }
    }

    /// Its `_id`, as hex.
    pub(crate) fn id(&self) -> String {
        format!("65d1{:020x}", self.number)
    }

    /// The change that makes it.
    pub(crate) fn create(&mut self) -> Value {
        self.version += 1;
        record(&self.id(), "c", None, Some(self.image()))
    }

    /// The next change of it: a create when it is new, else an update with both images.
    pub(crate) fn change(&mut self) -> Value {
        if self.version == 0 {
            return self.create();
        }
        let before = self.image();
        self.version += 1;
        record(&self.id(), "u", Some(before), Some(self.image()))
    }

    /// An update that also changes who may see it.
    pub(crate) fn share_with(&mut self, clients: &[&str]) -> Value {
        let before = self.image();
        self.version += 1;
        self.clients = clients.iter().map(|client| (*client).to_owned()).collect();
        record(&self.id(), "u", Some(before), Some(self.image()))
    }

    /// The change that deletes it.
    pub(crate) fn delete(&mut self) -> Value {
        record(&self.id(), "d", Some(self.image()), None)
    }

    /// What its last change owes to each client.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.clients.iter().map(|client| Pair {
            client: client.clone(),
            topic: "wnx-identity.users".into(),
            id: self.id(),
            version: self.version,
        })
    }

    fn image(&self) -> String {
        format!(
            r#"{{"_id": {{"$oid": "{}"}},"owner": "64e0c0de00000000000000a1","clients": {},"created_at": {{"$date": {EVENT_MS}}},"deleted_at": null,"version": {},"name": "Mina Example","score": 4.50,"logins": {{"$numberLong": "9007199254740993"}},"address": {{"city": "Lund","geo": [55.7047,13.191]}}}}"#,
            self.id(),
            serde_json::to_string(&self.clients).unwrap(),
            self.version,
        )
    }
}

/// A record of topic `mongo.wnx-identity.users`, as `POST /v1/events` takes it.
fn record(id: &str, op: &str, before: Option<String>, after: Option<String>) -> Value {
    let value = json!({
        "before": before,
        "after": after,
        "updateDescription": null,
        "source": {
            "version": "3.6.1.Final", "connector": "mongodb", "name": "mongo", "ts_ms": EVENT_MS - 1_113,
            "snapshot": "false", "db": "wnx-identity", "sequence": null, "collection": "users", "ord": 1,
            "lsid": null, "txnNumber": null, "wallTime": EVENT_MS - 1_113,
        },
        "op": op,
        "ts_ms": EVENT_MS,
        "transaction": null,
    });
    let key = json!({ "id": format!(r#"{{"$oid": "{id}"}}"#) });
    json!({
        "topic": "mongo.wnx-identity.users",
        "key": key.to_string(),
        "value": value.to_string(),
        "headers": { "__debezium.context.connectorName": "mongodb", "__debezium.context.taskId": "0" },
    })
}
