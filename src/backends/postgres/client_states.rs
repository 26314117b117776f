//! The state of each client's delivery, as JSON.

use std::sync::Arc;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::database::Database;
use super::schema::client_states;
use super::{client_id, key};
use crate::domain::client_state::ClientState;
use crate::domain::config::ClientId;
use crate::ports::client_states::ClientStates;
use crate::ports::{BoxFuture, StoreError, StoreResult};

pub(super) struct PgClientStates {
    database: Arc<Database>,
}

impl PgClientStates {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

fn read(client: &ClientId, json: &str) -> StoreResult<ClientState> {
    serde_json::from_str(json)
        .map_err(|error| StoreError::Refused(format!("stored state of {client} is broken: {error}")))
}

impl ClientStates for PgClientStates {
    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<ClientState>>> {
        let client = client.clone();
        Box::pin(self.database.run(|connection| {
            Box::pin(async move {
                let json: Option<String> = client_states::table
                    .find(key(client.as_str())?)
                    .select(client_states::state)
                    .first(connection)
                    .await
                    .optional()?;
                Ok(json.map(|json| read(&client, &json)).transpose()?)
            })
        }))
    }

    fn list(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, ClientState)>>> {
        Box::pin(self.database.run(|connection| {
            Box::pin(async move {
                let rows: Vec<(Vec<u8>, String)> = client_states::table.load(connection).await?;
                rows.into_iter()
                    .map(|(client, json)| {
                        let client = client_id(client)?;
                        let state = read(&client, &json)?;
                        Ok((client, state))
                    })
                    .collect()
            })
        }))
    }

    fn put<'a>(&'a self, client: &'a ClientId, state: ClientState) -> BoxFuture<'a, StoreResult<()>> {
        let client = client.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let json =
                    serde_json::to_string(&state).map_err(|error| StoreError::Refused(error.to_string()))?;
                diesel::insert_into(client_states::table)
                    .values((client_states::client.eq(key(client.as_str())?), client_states::state.eq(&json)))
                    .on_conflict(client_states::client)
                    .do_update()
                    .set(client_states::state.eq(&json))
                    .execute(connection)
                    .await?;
                Ok(())
            })
        }))
    }
}
