//! The connection to MongoDB, and what its errors mean. Every call is bounded.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::{
    ClientOptions, CollectionOptions, ConnectionString, ReadConcern, ReadPreference, SelectionCriteria,
    WriteConcern,
};
use mongodb::{Client, Collection, Database};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::options::{MongoOptions, MongoOptionsError};
use crate::ports::{StoreError, StoreResult};

/// How long the driver looks for a server that can answer.
const SELECT_WITHIN: Duration = Duration::from_secs(5);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A call, with looking for a server.
pub(super) const CALL: Duration = Duration::from_secs(10);
/// Reading all configs.
pub(super) const LOAD: Duration = Duration::from_secs(60);
/// An error of the driver may tell all that it knows of all servers.
const MAX_ERROR_CHARS: usize = 300;

const CONFIG_COLLECTION: &str = "configs";

pub(super) struct MongoLink {
    address: ConnectionString,
    prefix: String,
    client: OnceCell<Client>,
}

impl MongoLink {
    pub(super) fn new(options: &MongoOptions) -> Result<Self, MongoOptionsError> {
        let address = options.connection_string()?;
        Ok(Self { address, prefix: options.prefix.clone(), client: OnceCell::new() })
    }

    /// On a client that is there already.
    pub(super) fn of(options: &MongoOptions, client: Client) -> Result<Self, MongoOptionsError> {
        Ok(Self { client: OnceCell::new_with(Some(client)), ..Self::new(options)? })
    }

    /// The client. Made on first use: the hosts behind `mongodb+srv` stand in DNS, which may be away.
    pub(super) async fn client(&self) -> StoreResult<&Client> {
        let made = self.client.get_or_try_init(async || {
            let mut options = ClientOptions::parse(self.address.clone()).await?;
            options.app_name.get_or_insert_with(|| "dispatcher".to_owned());
            options.server_selection_timeout = Some(SELECT_WITHIN);
            options.connect_timeout = Some(CONNECT_WITHIN);
            Client::with_options(options)
        });
        bounded(CALL, made).await
    }

    pub(super) async fn database(&self) -> StoreResult<Database> {
        Ok(self.client().await?.database(&format!("{}-context", self.prefix)))
    }

    /// The platform's configs. What is read here decides who gets what: the primary is asked, for what stays.
    pub(super) async fn configs(&self) -> StoreResult<Collection<Document>> {
        let options = CollectionOptions::builder()
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(ReadConcern::majority())
            .write_concern(WriteConcern::majority())
            .build();
        Ok(self.database().await?.collection_with_options(CONFIG_COLLECTION, options))
    }

    /// Whether a database is one of the platform's.
    pub(super) fn is_source(&self, database: &str) -> bool {
        database.strip_prefix(&self.prefix).is_some_and(|rest| rest.starts_with('-'))
    }

    pub(super) async fn ping(&self) -> StoreResult<()> {
        let database = self.database().await?;
        bounded(CALL, database.run_command(doc! { "ping": 1 })).await.map(drop)
    }
}

/// Waits for a call, but not longer than this.
pub(super) async fn bounded<T>(
    limit: Duration,
    call: impl IntoFuture<Output = Result<T, Error>>,
) -> StoreResult<T> {
    match timeout(limit, call.into_future()).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(err)) => Err(meaning(&err)),
        Err(_) => Err(StoreError::Unavailable(format!("mongodb: no answer within {} s", limit.as_secs()))),
    }
}

// BadValue, FailedToParse, TypeMismatch, DollarPrefixedFieldName, EmptyFieldName, DottedFieldName,
// DocumentValidationFailure, BSONObjectTooLarge (error_codes.yml of the server).
const DATA_CODES: [i32; 8] = [2, 9, 14, 52, 56, 57, 121, 10334];

/// What is not known to be the data's fault waits: what is tried again is not lost.
fn meaning(err: &Error) -> StoreError {
    let is_data = match &*err.kind {
        ErrorKind::Write(WriteFailure::WriteError(err)) => DATA_CODES.contains(&err.code),
        ErrorKind::Command(err) => DATA_CODES.contains(&err.code),
        ErrorKind::Bson(_) => true,
        _ => false,
    };
    // Only the server's words: a whole write error repeats the document.
    let text = match &*err.kind {
        ErrorKind::Write(WriteFailure::WriteError(err)) => format!("{} (code {})", err.message, err.code),
        ErrorKind::Command(err) => format!("{} (code {})", err.message, err.code),
        ErrorKind::Bson(_) => "the value cannot be stored as BSON".to_owned(),
        // Without labels, sources and what else the driver keeps with it.
        kind => kind.to_string(),
    };
    let text: String = text.chars().take(MAX_ERROR_CHARS).collect();
    let text = format!("mongodb: {text}");
    if is_data { StoreError::Refused(text) } else { StoreError::Unavailable(text) }
}
