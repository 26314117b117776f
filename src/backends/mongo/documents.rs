//! Config documents as they come from MongoDB.

use std::collections::BTreeMap;
use std::sync::Arc;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};

use crate::backends::redis::ConfigCopy;
use crate::domain::config::{self, ClientConfig, ClientId, ConfigFault, Secret, Status};
use crate::ports::client_configs::StoredConfig;

/// The `key` of the documents that configure clients.
pub(super) const KEY: &str = "CQRS";

/// A config document, read.
pub(super) struct ConfigDocument {
    pub(super) config: Arc<ClientConfig>,
    /// The JSON of its `value`.
    pub(super) value: String,
    /// The whole document in extended JSON.
    pub(super) text: String,
    /// Its `_id` as change events write it; `None`: of a type that no platform uses.
    pub(super) document_id: Option<String>,
    /// As it stands in the store.
    pub(super) stored: Document,
}

impl ConfigDocument {
    pub(super) fn read(stored: Document) -> Result<Option<Self>, ConfigFault> {
        let document_id = stored.get("_id").and_then(id_text);
        // NaN becomes null and binary an array: neither is a value of any key.
        let text = serde_json::to_string(&stored)
            .map_err(|err| ConfigFault { key: "document".to_owned(), problem: err.to_string() })?;
        let read = config::read_document(&text)?;
        Ok(read.map(|(config, value)| Self { config: Arc::new(config), value, text, document_id, stored }))
    }

    /// Which of a client's documents counts: one that is not deleted before one that is, then the newest.
    fn rank(&self) -> impl Ord {
        let config = &self.config;
        (!config.deleted, config.updated_at_ms, config.version, self.document_id.clone())
    }

    pub(super) fn to_copy(&self, read_at_ms: i64) -> ConfigCopy {
        ConfigCopy {
            read_at_ms,
            updated_at_ms: self.config.updated_at_ms,
            version: self.config.version,
            document: Some(Secret::new(self.text.as_str())),
        }
    }

    pub(super) fn into_stored(self) -> StoredConfig {
        StoredConfig { config: self.config, value: self.value }
    }
}

/// The document that counts of each client, and the clients that have more than one active.
pub(super) fn newest(documents: Vec<ConfigDocument>) -> (BTreeMap<ClientId, ConfigDocument>, Vec<ClientId>) {
    let mut newest: BTreeMap<ClientId, ConfigDocument> = BTreeMap::new();
    let mut doubled = Vec::new();
    for document in documents {
        let client = document.config.client.clone();
        let Some(other) = newest.get(&client) else {
            newest.insert(client, document);
            continue;
        };
        if other.config.is_active() && document.config.is_active() {
            doubled.push(client.clone());
        }
        if document.rank() > other.rank() {
            newest.insert(client, document);
        }
    }
    (newest, doubled)
}

/// A copy read back. `None`: it is not what it should be, and MongoDB is to be asked.
pub(super) fn of_copy(client: &ClientId, copy: &ConfigCopy) -> Option<Option<StoredConfig>> {
    let Some(document) = &copy.document else { return Some(None) };
    let (config, value) = config::read_document(document.expose()).ok()??;
    (config.client == *client).then(|| Some(StoredConfig { config: Arc::new(config), value }))
}

/// What finds the documents of these clients, whose ids stand there as text or as ObjectIds.
pub(super) fn of_clients<'a>(clients: impl IntoIterator<Item = &'a ClientId>) -> Document {
    let ids: Vec<Bson> = clients.into_iter().flat_map(|client| id_values(client.as_str())).collect();
    doc! { "key": KEY, "eid": { "$in": ids } }
}

/// What finds a document by the text of its `_id`.
pub(super) fn of_document(document_id: &str) -> Document {
    doc! { "key": KEY, "_id": { "$in": id_values(document_id).collect::<Vec<_>>() } }
}

/// What a client id may be in a document: a text, or an ObjectId.
pub(super) fn id_values(id: &str) -> impl Iterator<Item = Bson> {
    let object_id = ObjectId::parse_str(id).ok().map(Bson::ObjectId);
    std::iter::once(Bson::String(id.to_owned())).chain(object_id)
}

fn id_text(id: &Bson) -> Option<String> {
    match id {
        Bson::ObjectId(id) => Some(id.to_hex()),
        Bson::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// The word of a status.
pub(super) fn word(status: Status) -> &'static str {
    match status {
        Status::Active => "ACTIVE",
        Status::Inactive => "INACTIVE",
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::DateTime;

    use super::*;

    fn document(id: &str, eid: impl Into<Bson>, updated_at_ms: i64, members: Document) -> ConfigDocument {
        let mut document = doc! {
            "_id": id, "key": KEY, "eid": eid.into(), "status": "ACTIVE", "version": 1,
            "updated_at": DateTime::from_millis(updated_at_ms), "deleted_at": null,
            "value": { "webhook": "http://a.test/" },
        };
        document.extend(members);
        ConfigDocument::read(document).unwrap().unwrap()
    }

    #[test]
    fn one_reader_reads_what_debezium_and_mongodb_write() {
        let id = ObjectId::parse_str("64c0a1e0f1a2b3c4d5e60001").unwrap();
        let members = doc! { "version": 7_i64, "owner": id, "value": { "webhook": "http://a.test/", "timeout_ms": 2000.0 } };
        let read = document("1", id, 1_764_435_600_123, members);
        let config = &read.config;
        assert_eq!(config.client.as_str(), "64c0a1e0f1a2b3c4d5e60001");
        assert_eq!(config.owner.as_deref(), Some("64c0a1e0f1a2b3c4d5e60001"));
        assert_eq!((config.version, config.updated_at_ms), (7, 1_764_435_600_123));
        assert!(config.is_usable(), "{:?}", config.delivery);
        assert_eq!(read.value, r#"{"webhook":"http://a.test/","timeout_ms":2000.0}"#);
        let long_ago = document("1", "a", -62_135_596_800_000, doc! {});
        assert_eq!(long_ago.config.updated_at_ms, -62_135_596_800_000);
        let copy = read.to_copy(1);
        let back = of_copy(&config.client, &copy).unwrap().unwrap();
        assert_eq!((&back.config, &back.value), (config, &read.value));
        assert!(of_copy(&ClientId::new("other"), &copy).is_none());
    }

    #[test]
    fn values_of_odd_types_hold_their_client_only() {
        for webhook in [Bson::Double(f64::NAN), Bson::MinKey, Bson::ObjectId(ObjectId::new()), Bson::Null] {
            let read = document("1", "a", 1, doc! { "value": { "webhook": webhook.clone() } });
            assert!(read.config.is_active() && !read.config.is_usable(), "{webhook:?}");
        }
        assert!(ConfigDocument::read(doc! { "key": "THEME" }).unwrap().is_none());
        assert_eq!(ConfigDocument::read(doc! { "key": KEY, "eid": 5 }).err().unwrap().key, "eid");
    }

    #[test]
    fn the_newest_counts_and_a_deleted_one_last() {
        let deleted = doc! { "deleted_at": DateTime::from_millis(9) };
        for (documents, first, doubled) in [
            (vec![document("1", "a", 1, doc! {}), document("2", "a", 2, doc! {})], "2", 1),
            (vec![document("1", "a", 1, doc! { "version": 2 }), document("2", "a", 1, doc! {})], "1", 1),
            (vec![document("1", "a", 1, doc! {}), document("2", "a", 2, deleted)], "1", 0),
            (
                vec![document("1", "a", 1, doc! {}), document("2", "a", 2, doc! { "status": "INACTIVE" })],
                "2",
                0,
            ),
        ] {
            let (newest, twice) = newest(documents);
            assert_eq!(newest[&ClientId::new("a")].document_id.as_deref(), Some(first));
            assert_eq!(twice.len(), doubled);
        }
    }
}
