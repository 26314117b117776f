//! Change events as Debezium writes them: documents that are made, changed and deleted.

use serde_json::json;

/// How many documents live at a time.
const DOCUMENTS: usize = 12;

/// Makes events.
pub(super) struct Events {
    clients: Vec<String>,
    documents: Vec<Document>,
    created: u32,
    count: u64,
}

struct Document {
    number: u32,
    version: u32,
}

impl Events {
    /// Every document is for all of `clients`.
    pub(super) fn new(clients: &[&str]) -> Self {
        let clients = clients.iter().map(|client| (*client).to_owned()).collect();
        Self { clients, documents: Vec::new(), created: 0, count: 0 }
    }

    /// How many were made.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The next one, as a record for `POST /v1/events`.
    pub(super) fn next(&mut self) -> String {
        self.count += 1;
        if self.documents.len() < DOCUMENTS {
            self.created += 1;
            let document = Document { number: self.created, version: 1 };
            let record = self.record("c", None, Some(&document), document.number);
            self.documents.push(document);
            return record;
        }
        let index = fastrand::usize(..self.documents.len());
        if fastrand::u32(..20) == 0 {
            let document = self.documents.swap_remove(index);
            return self.record("d", Some(&document), None, document.number);
        }
        let old = Document { ..self.documents[index] };
        let new = Document { version: old.version + 1, ..old };
        let record = self.record("u", Some(&old), Some(&new), old.number);
        self.documents[index] = new;
        record
    }

    fn record(&self, op: &str, before: Option<&Document>, after: Option<&Document>, number: u32) -> String {
        let now_ms = chrono::Utc::now().timestamp_millis();
        let image = |document: Option<&Document>| document.map(|document| self.image(document, now_ms));
        let value = json!({
            "before": image(before),
            "after": image(after),
            "updateDescription": null,
            "source": {
                "version": "3.6.1.Final", "connector": "mongodb", "name": "mongo", "ts_ms": now_ms,
                "snapshot": "false", "db": "wnx-identity", "collection": "users", "ord": 1,
            },
            "op": op,
            "ts_ms": now_ms,
            "transaction": null,
        });
        let key = json!({ "id": format!("{{\"$oid\": \"{}\"}}", object_id(number)) });
        json!({ "topic": "mongo.wnx-identity.users", "key": key.to_string(), "value": value.to_string() })
            .to_string()
    }

    /// A document in the extended JSON that Debezium writes by default.
    fn image(&self, document: &Document, now_ms: i64) -> String {
        json!({
            "_id": { "$oid": object_id(document.number) },
            "clients": self.clients,
            "name": format!("User {}", document.number),
            "version": document.version,
            "updated_at": { "$date": now_ms },
        })
        .to_string()
    }
}

fn object_id(number: u32) -> String {
    format!("65d10000aaaa0000{number:08x}")
}
