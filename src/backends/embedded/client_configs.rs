//! The configs of all clients. There is no other store behind this one: a hint carries the document, and the newer of
//! the two stays.

use std::sync::Arc;

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::database::Database;
use super::errors::{JobError, JobResult};
use super::schema::client_configs;
use crate::domain::config::{self, ClientConfig, ClientId, Status};
use crate::ports::client_configs::{ClientConfigs, ConfigHint, Put, StoredConfig};
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct SqliteClientConfigs {
    database: Arc<Database>,
}

impl SqliteClientConfigs {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Active => "ACTIVE",
        Status::Inactive => "INACTIVE",
    }
}

#[derive(Debug, Clone, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = client_configs, treat_none_as_default_value = false, treat_none_as_null = true)]
struct ConfigRow {
    client: String,
    status: String,
    value: String,
    version: i64,
    updated_at_ms: i64,
    deleted: bool,
    owner: Option<String>,
    document_id: Option<String>,
}

impl ConfigRow {
    fn of(config: &ClientConfig, value: String, document_id: String) -> Self {
        Self {
            client: config.client.as_str().to_owned(),
            status: status_word(config.status).to_owned(),
            value,
            version: config.version,
            updated_at_ms: config.updated_at_ms,
            deleted: config.deleted,
            owner: config.owner.clone(),
            document_id: Some(document_id),
        }
    }

    fn read(self) -> JobResult<StoredConfig> {
        let status = match self.status.as_str() {
            "ACTIVE" => Status::Active,
            "INACTIVE" => Status::Inactive,
            other => return Err(JobError::refused(format!("stored status {other:?} is broken"))),
        };
        let config = config::read_value(
            &ClientId::new(&self.client),
            status,
            self.deleted,
            self.version,
            self.updated_at_ms,
            self.owner,
            &self.value,
        );
        Ok(StoredConfig { config: Arc::new(config), value: self.value })
    }

    fn find(connection: &mut SqliteConnection, client: &str) -> JobResult<Option<Self>> {
        Ok(client_configs::table.find(client).select(Self::as_select()).first(connection).optional()?)
    }

    fn of_document(connection: &mut SqliteConnection, document_id: &str) -> JobResult<Option<Self>> {
        Ok(client_configs::table
            .filter(client_configs::document_id.eq(document_id))
            .select(Self::as_select())
            .first(connection)
            .optional()?)
    }

    fn store(&self, connection: &mut SqliteConnection) -> JobResult<()> {
        diesel::insert_into(client_configs::table)
            .values(self)
            .on_conflict(client_configs::client)
            .do_update()
            .set(self)
            .execute(connection)?;
        Ok(())
    }

    /// Marks the config deleted at this time.
    fn delete(mut self, connection: &mut SqliteConnection, now_ms: i64) -> JobResult<()> {
        self.deleted = true;
        self.version += 1;
        self.updated_at_ms = now_ms;
        self.store(connection)
    }
}

/// Applies a change of a config document. Returns the client whose config is another now.
fn apply(connection: &mut SqliteConnection, hint: ConfigHint) -> JobResult<Option<ClientId>> {
    let before = ConfigRow::of_document(connection, &hint.document_id)?;
    if hint.removed {
        let Some(row) = before.filter(|row| !row.deleted && row.updated_at_ms <= hint.ts_ms) else {
            return Ok(None);
        };
        let client = ClientId::new(&row.client);
        row.delete(connection, hint.ts_ms)?;
        return Ok(Some(client));
    }
    // Without an image there is nothing to read: the change that brings one follows.
    let Some(document) = hint.document else { return Ok(None) };
    let (config, value) = match config::read_document(&document) {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(None),
        Err(err) => {
            log::warn!("config document is passed over err={err} document={:?}", hint.document_id);
            return Ok(None);
        }
    };
    let mut row = ConfigRow::of(&config, value, hint.document_id);
    let undated = row.updated_at_ms == 0;
    if undated {
        row.updated_at_ms = hint.ts_ms;
    }
    let newer = |stored: &ConfigRow| {
        let (ours, theirs) = ((row.updated_at_ms, row.version), (stored.updated_at_ms, stored.version));
        // The change's own time can be a whole second, and holds several changes: the later in the log is the newer.
        ours > theirs || (undated && ours == theirs)
    };
    if let Some(stored) = ConfigRow::find(connection, &row.client)? {
        if !stored.deleted && stored.document_id.is_some() && stored.document_id != row.document_id {
            log::warn!(
                "two config documents name one client, the newer one counts client={} documents={:?} and {:?}",
                row.client,
                stored.document_id,
                row.document_id
            );
        }
        if !newer(&stored) {
            return Ok(None);
        }
    }
    // The document was another client's before: that one has none any more.
    if let Some(other) = before.filter(|other| other.client != row.client && newer(other)) {
        ConfigRow { document_id: None, ..other }.delete(connection, row.updated_at_ms)?;
    }
    row.store(connection)?;
    Ok(Some(config.client))
}

impl ClientConfigs for SqliteClientConfigs {
    fn load(&self) -> BoxFuture<'_, StoreResult<Vec<StoredConfig>>> {
        Box::pin(self.database.read(|connection| {
            let rows: Vec<ConfigRow> =
                client_configs::table.select(ConfigRow::as_select()).load(connection)?;
            rows.into_iter().map(ConfigRow::read).collect()
        }))
    }

    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<StoredConfig>>> {
        let client = client.clone();
        Box::pin(self.database.read(move |connection| {
            ConfigRow::find(connection, client.as_str())?.map(ConfigRow::read).transpose()
        }))
    }

    fn put<'a>(
        &'a self,
        client: &'a ClientId,
        status: Status,
        value: String,
        now_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Put>> {
        let client = client.clone();
        Box::pin(self.database.write(move |connection| {
            let stored = ConfigRow::find(connection, client.as_str())?;
            let put =
                if stored.as_ref().is_some_and(|row| !row.deleted) { Put::Replaced } else { Put::Created };
            let (version, owner, document_id) =
                stored.map_or((0, None, None), |row| (row.version, row.owner, row.document_id));
            let row = ConfigRow {
                client: client.as_str().to_owned(),
                status: status_word(status).to_owned(),
                value,
                version: version + 1,
                updated_at_ms: now_ms,
                deleted: false,
                owner,
                document_id,
            };
            row.store(connection)?;
            Ok(put)
        }))
    }

    fn delete<'a>(&'a self, client: &'a ClientId, now_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let client = client.clone();
        Box::pin(self.database.write(move |connection| {
            match ConfigRow::find(connection, client.as_str())?.filter(|row| !row.deleted) {
                Some(row) => row.delete(connection, now_ms).map(|()| true),
                None => Ok(false),
            }
        }))
    }

    fn deactivate<'a>(&'a self, tried: &'a ClientConfig, now_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let tried = tried.clone();
        Box::pin(self.database.write(move |connection| {
            let Some(row) = ConfigRow::find(connection, tried.client.as_str())? else { return Ok(false) };
            if !row.clone().read()?.config.is_still(&tried) {
                return Ok(false);
            }
            let row = ConfigRow {
                status: status_word(Status::Inactive).to_owned(),
                version: row.version + 1,
                updated_at_ms: now_ms,
                ..row
            };
            row.store(connection)?;
            Ok(true)
        }))
    }

    fn changed(&self, hint: ConfigHint) -> BoxFuture<'_, StoreResult<Option<ClientId>>> {
        Box::pin(self.database.write(move |connection| apply(connection, hint)))
    }
}
