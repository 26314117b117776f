//! What Redis holds: copies for others to see, and notices between replicas. Nothing in it is the truth.
//!
//! Own keys stand under `<prefix>:dsp:`; the queues have a prefix of their own, so that they cannot meet.
//!
//! | key | type | truth or copy | TTL | writer | reader | when it is lost |
//! |---|---|---|---|---|---|---|
//! | `<p>:dsp:config:<client>` | text: JSON `{read_at, updated_at, version, document}`, `document` null: there is none. Secrets stand in it as in MongoDB | copy of MongoDB | 10 min, 1 min without a document | who reads a config | `recheck` of any replica | MongoDB is asked |
//! | `<p>:dsp:config-ids` | hash: `_id` of a config document to its client | copy of MongoDB | 7 d | who reads configs | who hears of a deleted document that it has never seen | that client's config is read again within 60 s; written again as often |
//! | `<p>:dsp:state:<client>` | text: JSON of its state | copy of PostgreSQL | 30 d | the owner of the client | boards of others | unknown until the client's next change of state |
//! | `<p>:dsp:failing:<client>` | text: epoch ms of the first failure since the last success; deleted by a success | copy of PostgreSQL | 30 d | the owner of the client | other programs of the platform | as above |
//! | `<p>:dsp:role:<role>` | text: `1` | says that a replica has this role | 15 s | each replica, every 5 s | `/status` | nobody seems to have it for 5 s |
//! | `<p>:dsp:part:<replica>` | text: JSON of what it shows now, 16 MiB at most | says what this replica shows | 10 s | each replica, every second | the dashboards of the others | they do not see it for a second |
//! | `<p>:dsp:part-base:<replica>` | text: JSON of what the former goes on from, 16 MiB at most | as above | 10 s, prolonged with the former | each replica, every minute, and when much has changed | as above | as above |
//! | `<p>:dsp:replicas` | set: names of replicas | which of the former there may be | 1 h | each replica, every second; who finds one gone takes it off | as above | as above |
//! | `<p>:dsp:blocked-owners` | hash: id of a blocked owner to JSON `{subject, by, reason, since_ms}` | copy of PostgreSQL | none | who reads the block list, whole: each replica after a change, after each connect, and every 60 s | other programs of the platform | written again as often |
//! | `<p>:dsp:notices` | channel: JSON `{"config": "<client>"}`, `"decisions"`, `{"try_now": "<client>"}`, `{"restart": {number, by, kind, id, replica}}`, or `{"restarted": {number, by, answer}}` | a kick | | who changes a config, the block list or a client's pause, or reads of a change; who wants the client's owner to try its webhook, or an actor to begin anew, and who answers that | all replicas | all configs and decisions are read again after each connect, and every 60 s; a webhook is tried when its time comes; whoever wanted a restart is told that nobody answered |
//!
//! Redis never blocks the flow. While it is away, what reads from it falls through to the truth at once, and what writes
//! copies drops them, counted. A task looks for it all the time; nothing has to be started again.

mod config_copies;
mod decision_copies;
mod kicks;
mod link;
mod notices;
mod parts;
mod probe;
mod restarts;
mod roles;
mod state_copies;

use std::sync::Arc;

use redis::{Client, IntoConnectionInfo};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

pub use self::config_copies::ConfigCopy;
pub use self::decision_copies::DecisionCopies;
pub use self::kicks::Kicks;
pub use self::parts::Parts;
pub use self::probe::probe;
pub use self::restarts::Restarts;
pub use self::state_copies::StateCopies;

use self::link::Link;
use self::notices::NoticeQueue;
use crate::domain::config::{ClientId, Secret};
use crate::domain::replica::ReplicaName;
use crate::metrics::Metrics;
use crate::ports::client_configs::ConfigNotice;
use crate::ports::{StoreError, StoreResult};

/// Ids that are longer have no keys of their own: a client's is 24 bytes, and what stands in documents may be anything.
const MAX_ID_BYTES: usize = 1024;

/// How to reach Redis.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// `redis://host:port`, or `rediss://` for TLS; a user, a password and a database number may stand in it.
    pub url: Secret,
    /// The password, when it does not stand in the URL; it wins over that.
    pub password: Option<Secret>,
    /// What all keys begin with, `wnx`.
    pub prefix: String,
}

/// The options of Redis cannot be used. Quotes nothing of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a Redis URL: expected redis://host:port, or rediss:// for TLS")]
pub struct RedisOptionsError;

/// What a Redis server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisServer {
    /// Its version, `7.0.15`.
    pub version: String,
    /// What it removes when its memory is full; the queues need `noeviction`.
    pub eviction: String,
    /// Its clock when it answered, milliseconds since 1970.
    pub clock_ms: i64,
}

/// Redis, there or not.
pub struct Redis {
    link: Arc<Link>,
    notices: Arc<NoticeQueue>,
    keys: Keys,
    metrics: Metrics,
    handle: Handle,
    tasks: [JoinHandle<()>; 2],
}

impl Redis {
    /// Starts to look for Redis, on `handle`. It need not be there.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub fn open(options: &RedisOptions, metrics: Metrics, handle: Handle) -> Result<Self, RedisOptionsError> {
        let client = client(options).ok_or(RedisOptionsError)?;
        let keys = Keys { prefix: options.prefix.clone() };
        let link = Arc::new(Link::new());
        let notices = Arc::new(NoticeQueue::default());
        let tasks = [
            handle.spawn(link::keep(Arc::clone(&link), client.clone(), keys.write_nothing())),
            handle.spawn(notices::listen(client, keys.notices(), Arc::clone(&notices))),
        ];
        Ok(Self { link, notices, keys, metrics, handle, tasks })
    }

    /// Asks it, within a second.
    ///
    /// # Errors
    /// Why it does not answer.
    pub async fn health(&self) -> StoreResult<()> {
        let answer: Result<String, _> = self.link.query(&redis::cmd("PING")).await;
        answer.map(drop).map_err(|away| StoreError::Unavailable(away.0))
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn server(&self) -> StoreResult<RedisServer> {
        let unavailable = |away: link::Away| StoreError::Unavailable(away.0);
        let (seconds, micros): (i64, i64) =
            self.link.query(&redis::cmd("TIME")).await.map_err(unavailable)?;
        let info: String = self.link.query(&redis::cmd("INFO")).await.map_err(unavailable)?;
        let told = |name: &str| {
            let told = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            told.unwrap_or("unknown").trim().to_owned()
        };
        Ok(RedisServer {
            version: told("redis_version"),
            eviction: told("maxmemory_policy"),
            clock_ms: seconds * 1000 + micros / 1000,
        })
    }

    /// The next notice of another replica, or of this one. Cancel-safe; for one listener.
    pub async fn next_notice(&self) -> ConfigNotice {
        self.notices.next().await
    }

    /// Tells all replicas, this one too, that a client's config is another. Does not wait, and may be lost: whoever was not
    /// connected reads all configs again.
    pub fn config_changed(&self, client: &ClientId) {
        self.notices.push(client.clone());
        self.publish(notices::config(client));
    }

    fn publish(&self, notice: String) {
        let link = Arc::clone(&self.link);
        let dropped = self.metrics.copies_dropped.with_label_values(&["notice"]);
        let mut command = redis::cmd("PUBLISH");
        command.arg(self.keys.notices()).arg(notice);
        self.handle.spawn(async move {
            if link.query::<i64>(&command).await.is_err() {
                dropped.inc();
            }
        });
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn client(options: &RedisOptions) -> Option<Client> {
    let info = options.url.expose().into_connection_info().ok()?;
    let mut settings = info.redis_settings().clone();
    if let Some(password) = &options.password {
        settings = settings.set_password(password.expose());
    }
    Client::open(info.set_redis_settings(settings)).ok()
}

/// The names of all keys: the table above.
#[derive(Debug, Clone)]
struct Keys {
    prefix: String,
}

impl Keys {
    fn config(&self, client: &ClientId) -> Option<String> {
        self.of_client("config", client)
    }

    fn config_ids(&self) -> String {
        format!("{}:dsp:config-ids", self.prefix)
    }

    /// Removes an id that is none.
    fn write_nothing(&self) -> redis::Cmd {
        let mut nothing = redis::cmd("HDEL");
        nothing.arg(self.config_ids()).arg("");
        nothing
    }

    fn role(&self, role: &str) -> String {
        format!("{}:dsp:role:{role}", self.prefix)
    }

    fn part(&self, replica: &ReplicaName) -> String {
        format!("{}:dsp:part:{replica}", self.prefix)
    }

    fn part_base(&self, replica: &ReplicaName) -> String {
        format!("{}:dsp:part-base:{replica}", self.prefix)
    }

    fn replicas(&self) -> String {
        format!("{}:dsp:replicas", self.prefix)
    }

    fn state(&self, client: &ClientId) -> Option<String> {
        self.of_client("state", client)
    }

    fn failing(&self, client: &ClientId) -> Option<String> {
        self.of_client("failing", client)
    }

    fn blocked_owners(&self) -> String {
        format!("{}:dsp:blocked-owners", self.prefix)
    }

    fn notices(&self) -> String {
        format!("{}:dsp:notices", self.prefix)
    }

    fn of_client(&self, kind: &str, client: &ClientId) -> Option<String> {
        (client.as_str().len() <= MAX_ID_BYTES).then(|| format!("{}:dsp:{kind}:{client}", self.prefix))
    }
}
