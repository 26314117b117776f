//! What an operator wants to know of a server before it is relied on.

use futures_util::TryStreamExt;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::ErrorKind;
use mongodb::error::WriteFailure;
use mongodb::results::CollectionType;

use super::link::{CALL, MongoLink, bounded};
use crate::ports::StoreResult;

/// The server's code for what its user may not do.
const UNAUTHORIZED: i32 = 13;

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MongoServer {
    /// The version of MongoDB that it is, or says to be like.
    pub version: String,
    /// The version of FerretDB, if it is that.
    pub ferretdb: Option<String>,
    /// How it stands with others.
    pub topology: Topology,
    /// Its clock when it answered, milliseconds since 1970.
    pub clock_ms: Option<i64>,
}

/// How a server stands with others. Debezium needs a replica set or a sharded cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// Alone: it has no change streams.
    Standalone,
    /// A member of the replica set of this name.
    ReplicaSet(String),
    /// The router of a sharded cluster.
    Sharded,
}

/// Whether a collection keeps the images of documents before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreImages {
    /// `<database>.<collection>`.
    pub collection: String,
    /// `changeStreamPreAndPostImages`.
    pub enabled: bool,
}

pub(super) async fn server(link: &MongoLink) -> StoreResult<MongoServer> {
    let database = link.database().await?;
    let build = bounded(CALL, database.run_command(doc! { "buildInfo": 1 })).await?;
    let hello = bounded(CALL, database.run_command(doc! { "hello": 1 })).await?;
    let text = |document: &Document, name: &str| document.get_str(name).ok().map(str::to_owned);
    let topology = match (text(&hello, "setName"), hello.get_str("msg")) {
        (Some(name), _) => Topology::ReplicaSet(name),
        (None, Ok("isdbgrid")) => Topology::Sharded,
        (None, _) => Topology::Standalone,
    };
    Ok(MongoServer {
        version: text(&build, "version").unwrap_or_else(|| "unknown".to_owned()),
        ferretdb: text(&build, "ferretdbVersion"),
        topology,
        clock_ms: hello.get_datetime("localTime").ok().map(|time| time.timestamp_millis()),
    })
}

pub(super) async fn pre_images(link: &MongoLink) -> StoreResult<Vec<PreImages>> {
    let client = link.client().await?;
    let mut found = Vec::new();
    for name in bounded(CALL, client.list_database_names()).await? {
        if !link.is_source(&name) {
            continue;
        }
        let database = client.database(&name);
        let collections: Vec<_> =
            bounded(CALL, async { database.list_collections().await?.try_collect().await }).await?;
        for collection in collections {
            if !matches!(collection.collection_type, CollectionType::Collection)
                || collection.name.starts_with("system.")
            {
                continue;
            }
            let images = collection.options.change_stream_pre_and_post_images;
            found.push(PreImages {
                collection: format!("{name}.{}", collection.name),
                enabled: images.is_some_and(|images| images.enabled),
            });
        }
    }
    Ok(found)
}

pub(super) async fn can_write(link: &MongoLink) -> StoreResult<bool> {
    let configs = link.configs().await?;
    // A new id: no document has it, and none is made.
    let nothing = doc! { "_id": ObjectId::new(), "key": Bson::Null };
    bounded(CALL, async {
        match configs.update_one(nothing, doc! { "$set": { "status": "INACTIVE" } }).await {
            Ok(_) => Ok(true),
            Err(err) => match &*err.kind {
                ErrorKind::Command(command) if command.code == UNAUTHORIZED => Ok(false),
                ErrorKind::Write(WriteFailure::WriteError(write)) if write.code == UNAUTHORIZED => Ok(false),
                _ => Err(err),
            },
        }
    })
    .await
}
