//! The state of each client's delivery, as JSON.

use std::sync::Arc;

use diesel::prelude::*;

use super::database::Database;
use super::errors::{JobError, JobResult};
use super::schema::client_states;
use crate::domain::client_state::ClientState;
use crate::domain::config::ClientId;
use crate::ports::client_states::ClientStates;
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct SqliteClientStates {
    database: Arc<Database>,
}

impl SqliteClientStates {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

fn read(client: &str, json: &str) -> JobResult<ClientState> {
    serde_json::from_str(json)
        .map_err(|error| JobError::refused(format!("stored state of {client} is broken: {error}")))
}

impl ClientStates for SqliteClientStates {
    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<ClientState>>> {
        let client = client.clone();
        Box::pin(self.database.read(move |connection| {
            let json: Option<String> = client_states::table
                .find(client.as_str())
                .select(client_states::state)
                .first(connection)
                .optional()?;
            json.map(|json| read(client.as_str(), &json)).transpose()
        }))
    }

    fn list(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, ClientState)>>> {
        Box::pin(self.database.read(|connection| {
            let rows: Vec<(String, String)> = client_states::table.load(connection)?;
            rows.into_iter()
                .map(|(client, json)| Ok((ClientId::new(&client), read(&client, &json)?)))
                .collect()
        }))
    }

    fn put<'a>(&'a self, client: &'a ClientId, state: ClientState) -> BoxFuture<'a, StoreResult<()>> {
        let client = client.clone();
        Box::pin(self.database.write(move |connection| {
            let json = serde_json::to_string(&state).map_err(|error| JobError::refused(error.to_string()))?;
            diesel::insert_into(client_states::table)
                .values((client_states::client.eq(client.as_str()), client_states::state.eq(&json)))
                .on_conflict(client_states::client)
                .do_update()
                .set(client_states::state.eq(&json))
                .execute(connection)?;
            Ok(())
        }))
    }
}
