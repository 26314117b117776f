//! Reading configs, from MongoDB and from the copies of what was read from it.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use mongodb::bson::{Document, doc};

use super::Store;
use super::documents::{self, ConfigDocument, KEY};
use super::link::{CALL, LOAD, bounded};
use super::memory::mark;
use crate::backends::redis::ConfigCopy;
use crate::domain::config::{self, ClientId};
use crate::ports::StoreResult;
use crate::ports::client_configs::{ConfigHint, StoredConfig};

/// Clients in one question.
const PAGE: usize = 200;
/// No client has a longer id; what stands in `clients` of a document may be anything, and a question has to fit.
const MAX_ID_BYTES: usize = 4096;

impl Store {
    pub(super) async fn load(&self) -> StoreResult<Vec<StoredConfig>> {
        let documents = self.find(doc! { "key": KEY }, LOAD).await?;
        let ids: Vec<_> = documents.iter().filter_map(document_and_client).collect();
        let newest = self.newest(documents);
        let marks = newest.iter().map(|(client, document)| (client.clone(), mark(Some(document))));
        self.memory.seen_all(&marks.collect());
        self.redis.keep_config_ids(&ids).await;
        Ok(newest.into_values().map(ConfigDocument::into_stored).collect())
    }

    pub(super) async fn get(&self, client: &ClientId) -> StoreResult<Option<StoredConfig>> {
        let mut read = self.read(std::slice::from_ref(client)).await?;
        Ok(read.remove(client).map(ConfigDocument::into_stored))
    }

    pub(super) async fn recheck(
        &self,
        clients: Vec<ClientId>,
        as_of_ms: i64,
    ) -> StoreResult<Vec<StoredConfig>> {
        let copies = self.redis.config_copies(&clients).await;
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        for (client, copy) in clients.into_iter().zip(copies) {
            let copy = copy.filter(|copy| copy.read_at_ms >= as_of_ms);
            match copy.and_then(|copy| documents::of_copy(&client, &copy)) {
                Some(config) => found.extend(config),
                None => unknown.push(client),
            }
        }
        for page in unknown.chunks(PAGE) {
            let read = self.read(page).await?;
            found.extend(read.into_values().map(ConfigDocument::into_stored));
        }
        Ok(found)
    }

    /// A hint is never believed, only followed: old ones come again.
    pub(super) async fn changed(&self, hint: ConfigHint) -> StoreResult<Option<ClientId>> {
        let clients = self.concerned(&hint).await?;
        if clients.is_empty() {
            return Ok(None);
        }
        let read = self.read(&clients).await?;
        let id = Some(&hint.document_id);
        if hint.removed && !read.values().any(|document| document.document_id.as_ref() == id) {
            self.memory.forget(&hint.document_id);
            self.redis.forget_config_id(&hint.document_id).await;
        }
        let mut changed = None;
        for client in clients {
            if self.memory.tell(&client, mark(read.get(&client))) {
                self.redis.config_changed(&client);
                // Of a document that moved, the client that has it now comes first; the other hears of it by its notice.
                changed.get_or_insert(client);
            }
        }
        Ok(changed)
    }

    /// Whose config a hint may be about: the document's client now, and the one it was known to belong to.
    async fn concerned(&self, hint: &ConfigHint) -> StoreResult<Vec<ClientId>> {
        let known = self.memory.client_of(&hint.document_id);
        let client = match hint.document.as_deref().map(config::read_document) {
            Some(Ok(Some((config, _)))) => Some(config.client),
            // Another key, and never ours.
            Some(Ok(None)) => None,
            Some(Err(_)) | None if hint.removed => match &known {
                Some(_) => None,
                None => self.redis.client_of_document(&hint.document_id).await,
            },
            Some(Err(err)) => {
                if self.memory.say_once(&hint.document_id) {
                    log::warn!("config document cannot be read err={err} document={:?}", hint.document_id);
                }
                self.client_in_store(&hint.document_id).await?
            }
            None => self.client_in_store(&hint.document_id).await?,
        };
        let mut clients: Vec<ClientId> = client.into_iter().collect();
        clients.extend(known.filter(|known| !clients.contains(known)));
        Ok(clients)
    }

    async fn client_in_store(&self, document_id: &str) -> StoreResult<Option<ClientId>> {
        let found = self.find(documents::of_document(document_id), CALL).await?;
        Ok(found.into_iter().next().map(|document| document.config.client.clone()))
    }

    /// Reads the configs of these clients from MongoDB, and copies what it says, also that there is none.
    async fn read(&self, clients: &[ClientId]) -> StoreResult<BTreeMap<ClientId, ConfigDocument>> {
        let at_ms = self.clock.now_ms();
        let possible: Vec<&ClientId> =
            clients.iter().filter(|client| client.as_str().len() <= MAX_ID_BYTES).collect();
        let found = self.find(documents::of_clients(possible.iter().copied()), CALL).await?;
        let ids: Vec<_> = found.iter().filter_map(document_and_client).collect();
        let documents = self.newest(found);
        let copies: Vec<_> = possible
            .into_iter()
            .map(|client| {
                let document = documents.get(client);
                self.memory.seen(client, mark(document));
                let none = ConfigCopy { read_at_ms: at_ms, updated_at_ms: 0, version: 0, document: None };
                (client.clone(), document.map_or(none, |document| document.to_copy(at_ms)))
            })
            .collect();
        self.redis.keep_config_copies(&copies).await;
        if !ids.is_empty() {
            self.redis.keep_config_ids(&ids).await;
        }
        Ok(documents)
    }

    /// The documents of a question. One that cannot be read is passed over, and that is said once.
    pub(super) async fn find(
        &self,
        filter: Document,
        limit: std::time::Duration,
    ) -> StoreResult<Vec<ConfigDocument>> {
        let configs = self.link.configs().await?;
        let stored: Vec<Document> =
            bounded(limit, async { configs.find(filter).await?.try_collect().await }).await?;
        Ok(stored.into_iter().filter_map(|stored| self.read_document(stored)).collect())
    }

    fn read_document(&self, stored: Document) -> Option<ConfigDocument> {
        let id = stored.get("_id").cloned();
        match ConfigDocument::read(stored) {
            Ok(document) => {
                let document = document?;
                if let Some(id) = &document.document_id {
                    self.memory.belongs(id, &document.config.client);
                }
                Some(document)
            }
            Err(err) => {
                let id = id.map_or_else(String::new, |id| id.to_string());
                if self.memory.say_once(&id) {
                    log::warn!("config document is passed over err={err} document={id}");
                }
                None
            }
        }
    }

    /// The document that counts of each client.
    pub(super) fn newest(&self, documents: Vec<ConfigDocument>) -> BTreeMap<ClientId, ConfigDocument> {
        let (newest, doubled) = documents::newest(documents);
        for client in doubled {
            if self.memory.say_once(client.as_str()) {
                log::warn!("two active configs of one client, the newest counts client={client}");
            }
        }
        newest
    }
}

fn document_and_client(document: &ConfigDocument) -> Option<(String, ClientId)> {
    Some((document.document_id.clone()?, document.config.client.clone()))
}
