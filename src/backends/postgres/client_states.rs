//! The state of each client's delivery, as JSON.

use std::sync::Arc;
use std::time::Duration;

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
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

/// The failure clock goes on while the state counts from the same failure.
const PUT: &str = "INSERT INTO client_states AS old (client, state, failing_mark, failing_since)
    VALUES ($1, $2, $3, CASE WHEN $3 IS NOT NULL THEN clock_timestamp() END)
    ON CONFLICT (client) DO UPDATE SET
        state = excluded.state,
        failing_mark = excluded.failing_mark,
        failing_since = CASE WHEN old.failing_mark IS NOT DISTINCT FROM excluded.failing_mark
            THEN old.failing_since ELSE excluded.failing_since END";

const FAILING_FOR: &str =
    "SELECT (extract(epoch FROM clock_timestamp() - failing_since) * 1000)::bigint AS failing_for_ms
    FROM client_states WHERE client = $1";

#[derive(QueryableByName)]
struct Failing {
    #[diesel(sql_type = Nullable<BigInt>)]
    failing_for_ms: Option<i64>,
}

fn read(client: &ClientId, json: &str, resynced: i64) -> StoreResult<ClientState> {
    let state: ClientState = serde_json::from_str(json)
        .map_err(|error| StoreError::Refused(format!("stored state of {client} is broken: {error}")))?;
    Ok(ClientState { resynced: u64::try_from(resynced).unwrap_or(0), ..state })
}

impl ClientStates for PgClientStates {
    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<ClientState>>> {
        let client = client.clone();
        Box::pin(self.database.run(|connection| {
            Box::pin(async move {
                let row: Option<(String, i64)> = client_states::table
                    .find(key(client.as_str())?)
                    .select((client_states::state, client_states::resynced))
                    .first(connection)
                    .await
                    .optional()?;
                Ok(row.map(|(json, resynced)| read(&client, &json, resynced)).transpose()?)
            })
        }))
    }

    fn list(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, ClientState)>>> {
        Box::pin(self.database.run(|connection| {
            Box::pin(async move {
                let rows: Vec<(Vec<u8>, String, i64)> = client_states::table.load(connection).await?;
                rows.into_iter()
                    .map(|(client, json, resynced)| {
                        let client = client_id(client)?;
                        let state = read(&client, &json, resynced)?;
                        Ok((client, state))
                    })
                    .collect()
            })
        }))
    }

    fn failing_for<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<Duration>>> {
        let client = client.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let failing: Option<Failing> = sql_query(FAILING_FOR)
                    .bind::<Binary, _>(key(client.as_str())?)
                    .get_result(connection)
                    .await
                    .optional()?;
                let millis = failing.and_then(|failing| failing.failing_for_ms);
                Ok(millis.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0))))
            })
        }))
    }

    fn resynced<'a>(&'a self, client: &'a ClientId, dropped: u64) -> BoxFuture<'a, StoreResult<()>> {
        let (client, dropped) = (client.clone(), i64::try_from(dropped).unwrap_or(i64::MAX));
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                diesel::update(client_states::table.find(key(client.as_str())?))
                    .filter(client_states::resynced.lt(dropped))
                    .set(client_states::resynced.eq(dropped))
                    .execute(connection)
                    .await?;
                Ok(())
            })
        }))
    }

    fn put<'a>(&'a self, client: &'a ClientId, state: ClientState) -> BoxFuture<'a, StoreResult<()>> {
        let client = client.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let json =
                    serde_json::to_string(&state).map_err(|error| StoreError::Refused(error.to_string()))?;
                sql_query(PUT)
                    .bind::<Binary, _>(key(client.as_str())?)
                    .bind::<Text, _>(&json)
                    .bind::<Nullable<BigInt>, _>(state.failing_since_ms)
                    .execute(connection)
                    .await?;
                Ok(())
            })
        }))
    }
}
