//! The changes of the bench, as Debezium writes them and as webhooks receive them: one set of documents, each created and
//! then updated, in rounds over all of them.

use serde_json::{Value, json};

use crate::sink::Sink;

/// The topic of all changes.
pub(crate) const TOPIC: &str = "mongo.wnx-identity.users";

/// The clients that see each document.
pub(crate) const FAN_OUT: u64 = 2;

/// The time of all events, milliseconds since 1970: 2025-11-29T17:00:00Z.
pub(crate) const EVENT_MS: i64 = 1_764_435_600_000;

/// Makes the bodies about 1 KB long.
const FILLER_BYTES: usize = 700;

/// Which changes there are, and for whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    /// Clients, each with a webhook.
    pub(crate) clients: u64,
    /// Documents.
    pub(crate) documents: u64,
    /// Changes of each.
    pub(crate) versions: u64,
}

/// One change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    /// The number of its document.
    pub(crate) document: u64,
    /// From 1 on: the create.
    pub(crate) version: u64,
    /// Who sees it.
    pub(crate) clients: [u64; FAN_OUT as usize],
}

impl Workload {
    /// How many changes there are.
    pub(crate) fn events(&self) -> u64 {
        self.documents * self.versions
    }

    /// How many deliveries they make.
    pub(crate) fn deliveries(&self) -> u64 {
        self.events() * FAN_OUT
    }

    /// How many pairs of client and document there are.
    pub(crate) fn lines(&self) -> u64 {
        self.documents * FAN_OUT
    }

    /// All changes, in order.
    pub(crate) fn changes(self) -> impl Iterator<Item = Change> {
        let documents = self.documents;
        let documents = move |version| (0..documents).map(move |document| (document, version));
        (1..=self.versions).flat_map(documents).map(move |(document, version)| Change {
            document,
            version,
            clients: std::array::from_fn(|nth| (document * FAN_OUT + nth as u64) % self.clients),
        })
    }
}

/// A client as the service knows it.
pub(crate) struct ClientConfig {
    /// Its id.
    pub(crate) id: String,
    /// The `value` of its config.
    pub(crate) value: Value,
}

impl ClientConfig {
    /// The client of this number, with a webhook at the sink.
    pub(crate) fn of(number: u64, sink: &Sink) -> Self {
        let id = client_id(number);
        let value = json!({ "webhook": sink.hook(&id), "authorization": "Bearer of-the-bench" });
        Self { id, value }
    }
}

/// The id of a client.
pub(crate) fn client_id(number: u64) -> String {
    format!("64c0cafe{number:016x}")
}

/// Writes changes.
pub(crate) struct Writer {
    /// Taken in turns. Texts that do not compress better than real ones.
    fillers: Vec<String>,
}

impl Writer {
    /// The same texts in each run.
    pub(crate) fn new() -> Self {
        let mut random = fastrand::Rng::with_seed(1);
        let mut filler = || (0..FILLER_BYTES).map(|_| random.alphanumeric()).collect();
        Self { fillers: (0..64).map(|_| filler()).collect() }
    }

    /// The key of the change in Kafka.
    pub(crate) fn key(&self, change: Change) -> String {
        json!({ "id": format!(r#"{{"$oid": "{}"}}"#, document_id(change.document)) }).to_string()
    }

    /// The value of the change in Kafka. `sent_us` is when it is sent, microseconds since 1970.
    pub(crate) fn value(&self, change: Change, sent_us: u64) -> String {
        let id = format!(r#"{{"$oid": "{}"}}"#, document_id(change.document));
        let after = format!(
            r#"{{"_id": {id},"version": {},"sent_us": {{"$numberLong": "{sent_us}"}},{}}}"#,
            change.version,
            self.others(change)
        );
        json!({
            "before": null,
            "after": after,
            "updateDescription": null,
            "source": {
                "version": "3.6.1.Final", "connector": "mongodb", "name": "mongo", "ts_ms": EVENT_MS - 1_113,
                "snapshot": "false", "db": "wnx-identity", "sequence": null, "collection": "users", "ord": 1,
                "lsid": null, "txnNumber": null, "wallTime": EVENT_MS - 1_113,
            },
            "op": op(change),
            "ts_ms": EVENT_MS,
            "transaction": null,
        })
        .to_string()
    }

    /// The change as a record of `POST /v1/events`.
    pub(crate) fn record(&self, change: Change, sent_us: u64) -> Value {
        json!({ "topic": TOPIC, "key": self.key(change), "value": self.value(change, sent_us) })
    }

    /// What a webhook receives of it.
    pub(crate) fn body(&self, change: Change, sent_us: u64) -> String {
        let id = document_id(change.document);
        let (op, version, others) = (op(change), change.version, self.others(change));
        format!(
            r#"{{"id":"{id}","ts_ms":{EVENT_MS},"op":"{op}","topic":"wnx-identity.users","source":{{"name":"mongo","db":"wnx-identity","collection":"users"}},"after":{{"id":"{id}","version":{version},"sent_us":{sent_us},{others}}}}}"#
        )
    }

    /// The members that extended JSON and the webhook's body write alike.
    fn others(&self, change: Change) -> String {
        let clients = change.clients.map(|client| format!("\"{}\"", client_id(client))).join(",");
        let filler = &self.fillers[change.document as usize % self.fillers.len()];
        format!(r#""clients":[{clients}],"name":"Mina Example","active":true,"notes":"{filler}""#)
    }
}

fn document_id(number: u64) -> String {
    format!("65d1cafe{number:016x}")
}

fn op(change: Change) -> &'static str {
    if change.version == 1 { "c" } else { "u" }
}
