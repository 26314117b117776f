//! Writing configs: each write names the document as it was read, so that nobody's change is lost.

use mongodb::bson::{Bson, DateTime, Document, doc};

use super::Store;
use super::documents::{self, ConfigDocument, word};
use super::link::{CALL, bounded};
use crate::domain::config::{ClientConfig, ClientId, Status};
use crate::ports::client_configs::Put;
use crate::ports::{StoreError, StoreResult};

/// Somebody else wrote in between: read again, so often.
const TRIES: usize = 5;

impl Store {
    pub(super) async fn put(
        &self,
        client: &ClientId,
        status: Status,
        value: &str,
        now_ms: i64,
    ) -> StoreResult<Put> {
        let value: Bson = serde_json::from_str(value)
            .map_err(|_| StoreError::Refused("the value cannot be stored as BSON".to_owned()))?;
        let members = doc! { "status": word(status), "value": value, "deleted_at": null };
        for _ in 0..TRIES {
            let (written, put) = match self.current(client).await? {
                Some(found) => {
                    let put = if found.config.deleted { Put::Created } else { Put::Replaced };
                    (self.replace(&found, members.clone(), now_ms).await?, put)
                }
                None => (self.create(client, members.clone(), now_ms).await?, Put::Created),
            };
            if written {
                self.redis.config_changed(client);
                return Ok(put);
            }
        }
        Err(busy(client))
    }

    pub(super) async fn delete(&self, client: &ClientId, now_ms: i64) -> StoreResult<bool> {
        let mut deleted = false;
        for _ in 0..TRIES {
            // All of them: else the next newest would count.
            let found = self.find(documents::of_clients([client]), CALL).await?;
            let alive: Vec<_> = found.into_iter().filter(|found| !found.config.deleted).collect();
            if alive.is_empty() {
                if deleted {
                    self.redis.config_changed(client);
                }
                return Ok(deleted);
            }
            for found in alive {
                let members = doc! { "deleted_at": DateTime::from_millis(now_ms) };
                deleted |= self.replace(&found, members, now_ms).await?;
            }
        }
        Err(busy(client))
    }

    pub(super) async fn deactivate(&self, tried: &ClientConfig, now_ms: i64) -> StoreResult<bool> {
        let Some(found) = self.current(&tried.client).await?.filter(|found| found.config.is_still(tried))
        else {
            return Ok(false);
        };
        let members = doc! { "status": word(Status::Inactive) };
        let written = self.replace(&found, members, now_ms).await?;
        if written {
            self.redis.config_changed(&tried.client);
        }
        Ok(written)
    }

    /// The document that counts of a client.
    async fn current(&self, client: &ClientId) -> StoreResult<Option<ConfigDocument>> {
        let found = self.find(documents::of_clients([client]), CALL).await?;
        Ok(self.newest(found).remove(client))
    }

    /// Sets members of a document, with the next version. `false`: it is no longer what it was.
    async fn replace(&self, found: &ConfigDocument, members: Document, now_ms: i64) -> StoreResult<bool> {
        let config = &found.config;
        let mut set = members;
        set.insert("version", number(config.version.saturating_add(1)));
        // A clock that is behind makes no change that looks older than what it replaces.
        set.insert("updated_at", DateTime::from_millis(now_ms.max(config.updated_at_ms)));
        let configs = self.link.configs().await?;
        let written =
            bounded(CALL, configs.update_one(as_it_was(&found.stored), doc! { "$set": set })).await?;
        Ok(written.matched_count > 0)
    }

    /// Makes the document of a client that has none. `false`: it has one by now.
    async fn create(&self, client: &ClientId, members: Document, now_ms: i64) -> StoreResult<bool> {
        let now = DateTime::from_millis(now_ms);
        // `key` stands in the filter, and comes from there.
        let mut document =
            doc! { "eid": client.as_str(), "created_at": now, "updated_at": now, "version": 1 };
        document.extend(members);
        let configs = self.link.configs().await?;
        let create = configs
            .update_one(documents::of_clients([client]), doc! { "$setOnInsert": document })
            .upsert(true);
        Ok(bounded(CALL, create).await?.upserted_id.is_some())
    }
}

/// What finds a document only while it is as it was read.
fn as_it_was(stored: &Document) -> Document {
    let mut filter = Document::new();
    for name in ["_id", "status", "version", "updated_at", "deleted_at"] {
        // A member that is missing is found by null.
        filter.insert(name, stored.get(name).cloned().unwrap_or(Bson::Null));
    }
    if let Some(webhook) = stored.get_document("value").ok().and_then(|value| value.get("webhook")) {
        filter.insert("value.webhook", webhook.clone());
    }
    filter
}

/// As the platform writes numbers: small where it can be.
fn number(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}

fn busy(client: &ClientId) -> StoreError {
    StoreError::Unavailable(format!("the config of {client} is being changed by others"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_found_only_while_it_is_as_it_was() {
        let stored = doc! {
            "_id": "d", "key": "CQRS", "eid": "a", "status": "ACTIVE", "version": 3_i64, "owner": "o",
            "value": { "webhook": "http://a.test", "timeout_ms": 5 },
        };
        let filter = doc! {
            "_id": "d", "status": "ACTIVE", "version": 3_i64, "updated_at": null, "deleted_at": null,
            "value.webhook": "http://a.test",
        };
        assert_eq!(as_it_was(&stored), filter);
        assert_eq!(as_it_was(&doc! { "_id": 1, "value": null }).len(), 5);
        assert_eq!((number(7), number(1 << 40)), (Bson::Int32(7), Bson::Int64(1 << 40)));
    }
}
