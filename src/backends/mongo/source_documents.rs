//! The documents of the platform's databases, page by page, as a majority has them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::TryStreamExt as _;
use mongodb::Collection;
use mongodb::bson::raw::cstr;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria};
use tokio::runtime::Handle;

use super::Store;
use super::documents::id_values;
use super::link::{CALL, LOAD, bounded};
use super::{MongoClientConfigs, debezium_json};
use crate::domain::config::ClientId;
use crate::ports::documents::{CollectionName, DocumentKey, Documents, StoredDocument};
use crate::ports::{BoxFuture, StoreError, StoreResult};

pub(super) struct MongoDocuments {
    store: Arc<Store>,
    handle: Handle,
}

impl MongoDocuments {
    pub(super) fn new(configs: &MongoClientConfigs) -> Self {
        Self { store: Arc::clone(&configs.store), handle: configs.handle.clone() }
    }

    /// Runs on the runtime of the driver.
    async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> StoreResult<T> {
        let ended = |err| StoreError::Unavailable(format!("mongodb: call ended: {err}"));
        self.handle.spawn(call).await.unwrap_or_else(|err| Err(ended(err)))
    }
}

impl Documents for MongoDocuments {
    fn collections(&self) -> BoxFuture<'_, StoreResult<Vec<CollectionName>>> {
        let store = Arc::clone(&self.store);
        Box::pin(self.run(async move {
            let client = store.link.client().await?;
            let mut databases = bounded(CALL, client.list_database_names()).await?;
            databases.retain(|database| store.link.is_source(database));
            let mut found = Vec::new();
            for db in databases {
                let names = bounded(CALL, client.database(&db).list_collection_names()).await?;
                let ours = names.into_iter().filter(|name| !name.starts_with("system."));
                found.extend(ours.map(|collection| CollectionName { db: db.clone(), collection }));
            }
            found.sort();
            Ok(found)
        }))
    }

    fn page<'a>(
        &'a self,
        collection: &'a CollectionName,
        client: &'a ClientId,
        after: Option<&'a DocumentKey>,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<StoredDocument>>> {
        let (store, name) = (Arc::clone(&self.store), collection.clone());
        let clients: Vec<Bson> = id_values(client.as_str()).collect();
        let after = after.map(value).transpose();
        Box::pin(self.run(async move {
            let mut filter = doc! { "clients": { "$in": clients } };
            if let Some(after) = after? {
                filter.insert("$or", behind(&after));
            }
            let collection = open(&store, &name).await?;
            let limit_of_answer = i64::try_from(limit).unwrap_or(i64::MAX);
            let read = async {
                let mut cursor =
                    collection.find(filter).sort(doc! { "_id": 1 }).limit(limit_of_answer).await?;
                let (mut page, mut size) = (Vec::new(), 0);
                while size < bytes
                    && let Some(document) = cursor.try_next().await?
                {
                    size += document.as_bytes().len();
                    page.push(document);
                }
                Ok(page)
            };
            bounded(LOAD, read).await?.into_iter().map(stored).collect()
        }))
    }

    fn again<'a>(
        &'a self,
        collection: &'a CollectionName,
        keys: Vec<DocumentKey>,
    ) -> BoxFuture<'a, StoreResult<Vec<StoredDocument>>> {
        let (store, name) = (Arc::clone(&self.store), collection.clone());
        Box::pin(self.run(async move {
            let ids: Vec<Bson> = keys.iter().map(value).collect::<StoreResult<_>>()?;
            let collection = open(&store, &name).await?;
            let found = async { collection.find(doc! { "_id": { "$in": ids } }).await?.try_collect().await };
            let found: Vec<RawDocumentBuf> = bounded(LOAD, found).await?;
            found.into_iter().map(stored).collect()
        }))
    }
}

async fn open(store: &Store, name: &CollectionName) -> StoreResult<Collection<RawDocumentBuf>> {
    if !store.link.is_source(&name.db) {
        return Err(StoreError::Refused(format!("{} is none of the platform's databases", name.db)));
    }
    let options = CollectionOptions::builder()
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .read_concern(ReadConcern::majority())
        .build();
    let database = store.link.client().await?.database(&name.db);
    Ok(database.collection_with_options(&name.collection, options))
}

/// The `_id` of a key: a BSON document that has only that, in base64.
fn value(key: &DocumentKey) -> StoreResult<Bson> {
    let broken = || StoreError::Refused("stored key of a document is broken".to_owned());
    let bytes = STANDARD.decode(&key.0).map_err(|_| broken())?;
    let document = RawDocumentBuf::from_bytes(bytes).map_err(|_| broken())?;
    let id = document.get("_id").ok().flatten().ok_or_else(broken)?;
    Bson::try_from(id).map_err(|_| broken())
}

fn stored(document: RawDocumentBuf) -> StoreResult<StoredDocument> {
    let unreadable = |err: &dyn std::fmt::Display| {
        StoreError::Refused(format!("a document without a readable _id: {err}"))
    };
    let id =
        document.get("_id").map_err(|err| unreadable(&err))?.ok_or_else(|| unreadable(&"it has none"))?;
    let mut key = RawDocumentBuf::new();
    key.append(cstr!("_id"), id);
    Ok(StoredDocument {
        key: DocumentKey(STANDARD.encode(key.as_bytes())),
        id: debezium_json::id(id).map_err(|err| unreadable(&err))?,
        text: debezium_json::after(&document).ok(),
    })
}

/// The types of `_id` in the order in which MongoDB sorts them, but those that only the ends of ranges have. A comparison finds values of its
/// own type only.
const ORDER: [&str; 9] =
    ["null", "number", "string", "object", "binData", "objectId", "bool", "date", "timestamp"];

/// What stands behind this `_id`: greater ones of its type, and all of the types behind that.
fn behind(id: &Bson) -> Vec<Document> {
    let name = match id {
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => "number",
        Bson::String(_) | Bson::Symbol(_) => "string",
        Bson::Document(_) => "object",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Timestamp(_) => "timestamp",
        _ => "null",
    };
    let others = ORDER.iter().skip_while(|other| **other != name).skip(1);
    let greater = doc! { "_id": { "$gt": id.clone() } };
    std::iter::once(greater).chain(others.map(|other| doc! { "_id": { "$type": *other } })).collect()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::oid::ObjectId;

    use super::*;

    #[test]
    fn a_key_comes_back_as_it_was() {
        let oid = ObjectId::parse_str("64c0a1e0f1a2b3c4d5e60001").unwrap();
        for id in [
            Bson::ObjectId(oid),
            Bson::Int32(7),
            Bson::Int64(7),
            Bson::Double(7.0),
            Bson::String("\u{0}é".into()),
            Bson::Document(doc! { "tenant": "t", "seq": 7_i64 }),
        ] {
            let document = RawDocumentBuf::try_from(&doc! { "a": 1, "_id": id.clone() }).unwrap();
            assert_eq!(value(&stored(document).unwrap().key), Ok(id));
        }
        assert!(value(&DocumentKey("{".into())).is_err());
    }

    #[test]
    fn other_types_stand_behind_too() {
        let behind = behind(&Bson::Boolean(true));
        assert_eq!(behind[0], doc! { "_id": { "$gt": true } });
        assert_eq!(behind[1], doc! { "_id": { "$type": "date" } });
        assert_eq!(behind.len(), 3);
    }
}
