//! Copies of configs as they were read from MongoDB, so that many replicas ask MongoDB once.

use std::sync::LazyLock;

use redis::Script;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{MAX_ID_BYTES, Redis};
use crate::domain::config::{ClientId, Secret};

const DOCUMENT_SECONDS: u64 = 10 * 60;
const NONE_SECONDS: u64 = 60;
const IDS_SECONDS: i64 = 7 * 24 * 3600;
/// Larger documents have no copies.
const MAX_DOCUMENT_BYTES: usize = 256 * 1024;
const PAGE: usize = 200;

/// Writes a copy unless what stands there was read later, or is newer. What cannot be read is replaced.
const KEEP: &str = r"
for i, key in ipairs(KEYS) do
  local text, seconds = ARGV[2 * i - 1], ARGV[2 * i]
  local new, newer = cjson.decode(text), true
  local ok, old = pcall(function() return cjson.decode(redis.call('GET', key)) end)
  if ok and type(old) == 'table' and type(old.read_at) == 'number' then
    newer = old.read_at <= new.read_at
    if newer and type(old.document) == 'table' and type(new.document) == 'table' then
      newer = old.updated_at < new.updated_at
        or (old.updated_at == new.updated_at and old.version <= new.version)
    end
  end
  if newer then redis.call('SET', key, text, 'EX', seconds) end
end
";

static KEEP_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(KEEP));

/// What a client's config was.
#[derive(Debug, Clone)]
pub struct ConfigCopy {
    /// When it was asked for, milliseconds since 1970: the config is this one, or was changed later.
    pub read_at_ms: i64,
    /// Its `updated_at`, milliseconds since 1970; 0 when there is none.
    pub updated_at_ms: i64,
    /// Its version; 0 when there is none.
    pub version: i64,
    /// The document in extended JSON, secrets in it; `None`: there was none.
    pub document: Option<Secret>,
}

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    read_at: i64,
    updated_at: i64,
    version: i64,
    #[serde(borrow)]
    document: Option<&'a RawValue>,
}

impl ConfigCopy {
    /// `None`: too large.
    fn write(&self) -> Option<String> {
        let document = self
            .document
            .as_ref()
            .map(|document| serde_json::from_str(document.expose()))
            .transpose()
            .ok()?;
        let stored = Stored {
            read_at: self.read_at_ms,
            updated_at: self.updated_at_ms,
            version: self.version,
            document,
        };
        serde_json::to_string(&stored).ok().filter(|text| text.len() <= MAX_DOCUMENT_BYTES)
    }

    fn read(text: &[u8]) -> Option<Self> {
        let stored: Stored<'_> = serde_json::from_slice(text).ok()?;
        Some(Self {
            read_at_ms: stored.read_at,
            updated_at_ms: stored.updated_at,
            version: stored.version,
            document: stored.document.map(|document| Secret::new(document.get())),
        })
    }

    fn seconds(&self) -> u64 {
        if self.document.is_some() { DOCUMENT_SECONDS } else { NONE_SECONDS }
    }
}

impl Redis {
    /// The copies of these clients' configs, in their order. `None`: there is no copy, or Redis is away.
    pub async fn config_copies(&self, clients: &[ClientId]) -> Vec<Option<ConfigCopy>> {
        let mut copies = vec![None; clients.len()];
        let (places, keys): (Vec<usize>, Vec<String>) = clients
            .iter()
            .enumerate()
            .filter_map(|(place, client)| Some((place, self.keys.config(client)?)))
            .unzip();
        for (places, keys) in places.chunks(PAGE).zip(keys.chunks(PAGE)) {
            let read: Result<Vec<Option<Vec<u8>>>, _> = self.link.query(redis::cmd("MGET").arg(keys)).await;
            let Ok(texts) = read else { break };
            for (place, text) in places.iter().zip(texts) {
                copies[*place] = text.and_then(|text| ConfigCopy::read(&text));
            }
        }
        copies
    }

    /// Writes copies, each only if it is not older than what stands there. They are dropped while Redis is away.
    pub async fn keep_config_copies(&self, copies: &[(ClientId, ConfigCopy)]) {
        let writable: Vec<_> = copies
            .iter()
            .filter_map(|(client, copy)| Some((self.keys.config(client)?, copy.write()?, copy.seconds())))
            .collect();
        for (written, page) in writable.chunks(PAGE).enumerate() {
            let mut call = KEEP_SCRIPT.prepare_invoke();
            for (key, text, seconds) in page {
                call.key(key).arg(text).arg(seconds);
            }
            if self.link.run(async |connection| call.invoke_async::<()>(connection).await).await.is_err() {
                self.dropped("config", writable.len() - written * PAGE);
                return;
            }
        }
    }

    /// Remembers whose config these documents are, for the day when one is deleted and only its `_id` is known.
    pub async fn keep_config_ids(&self, ids: &[(String, ClientId)]) {
        let key = self.keys.config_ids();
        let short = |(id, client): &&(String, ClientId)| id.len().max(client.as_str().len()) <= MAX_ID_BYTES;
        let ids: Vec<_> = ids.iter().filter(short).collect();
        for (written, page) in ids.chunks(PAGE).enumerate() {
            let mut commands = redis::pipe();
            for (id, client) in page {
                commands.hset(&key, id, client.as_str()).ignore();
            }
            commands.expire(&key, IDS_SECONDS).ignore();
            if self.link.pipeline(&commands).await.is_err() {
                self.dropped("config_id", ids.len() - written * PAGE);
                return;
            }
        }
    }

    /// Whose config this document was. `None`: not known, or Redis is away.
    pub async fn client_of_document(&self, document_id: &str) -> Option<ClientId> {
        let client: Option<String> =
            self.link.query(redis::cmd("HGET").arg(self.keys.config_ids()).arg(document_id)).await.ok()?;
        client.map(|client| ClientId::new(&client))
    }

    /// Forgets a document that is gone.
    pub async fn forget_config_id(&self, document_id: &str) {
        let command = redis::cmd("HDEL").arg(self.keys.config_ids()).arg(document_id).to_owned();
        if self.link.query::<i64>(&command).await.is_err() {
            self.dropped("config_id", 1);
        }
    }

    fn dropped(&self, copy: &str, count: usize) {
        self.metrics.copies_dropped.with_label_values(&[copy]).inc_by(count as u64);
    }
}
