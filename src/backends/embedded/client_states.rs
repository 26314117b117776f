//! The state of each client's delivery, as JSON.

use std::sync::Arc;
use std::time::Duration;

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Nullable, Text};

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

/// The failure clock goes on while the state counts from the same failure.
const PUT: &str = "INSERT INTO client_states (client, state, failing_mark, failing_since_ms)
    VALUES (?1, ?2, ?3, iif(?3 IS NULL, NULL, CAST(unixepoch('subsec') * 1000 AS INTEGER)))
    ON CONFLICT (client) DO UPDATE SET
        state = excluded.state,
        failing_mark = excluded.failing_mark,
        failing_since_ms =
            iif(failing_mark IS excluded.failing_mark, failing_since_ms, excluded.failing_since_ms)";

const FAILING_FOR: &str =
    "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) - failing_since_ms AS failing_for_ms
    FROM client_states WHERE client = ?1";

#[derive(QueryableByName)]
struct Failing {
    #[diesel(sql_type = Nullable<BigInt>)]
    failing_for_ms: Option<i64>,
}

fn read(client: &str, json: &str, resynced: i64) -> JobResult<ClientState> {
    let state: ClientState = serde_json::from_str(json)
        .map_err(|error| JobError::refused(format!("stored state of {client} is broken: {error}")))?;
    Ok(ClientState { resynced: u64::try_from(resynced).unwrap_or(0), ..state })
}

impl ClientStates for SqliteClientStates {
    fn get<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<ClientState>>> {
        let client = client.clone();
        Box::pin(self.database.read(move |connection| {
            let row: Option<(String, i64)> = client_states::table
                .find(client.as_str())
                .select((client_states::state, client_states::resynced))
                .first(connection)
                .optional()?;
            row.map(|(json, resynced)| read(client.as_str(), &json, resynced)).transpose()
        }))
    }

    fn list(&self) -> BoxFuture<'_, StoreResult<Vec<(ClientId, ClientState)>>> {
        Box::pin(self.database.read(|connection| {
            let rows: Vec<(String, String, i64)> = client_states::table.load(connection)?;
            rows.into_iter()
                .map(|(client, json, resynced)| Ok((ClientId::new(&client), read(&client, &json, resynced)?)))
                .collect()
        }))
    }

    fn failing_for<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, StoreResult<Option<Duration>>> {
        let client = client.clone();
        Box::pin(self.database.read(move |connection| {
            let failing: Option<Failing> =
                sql_query(FAILING_FOR).bind::<Text, _>(client.as_str()).get_result(connection).optional()?;
            let millis = failing.and_then(|failing| failing.failing_for_ms);
            Ok(millis.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0))))
        }))
    }

    fn resynced<'a>(&'a self, client: &'a ClientId, dropped: u64) -> BoxFuture<'a, StoreResult<()>> {
        let (client, dropped) = (client.clone(), i64::try_from(dropped).unwrap_or(i64::MAX));
        Box::pin(self.database.write(move |connection| {
            diesel::update(client_states::table.find(client.as_str()))
                .filter(client_states::resynced.lt(dropped))
                .set(client_states::resynced.eq(dropped))
                .execute(connection)?;
            Ok(())
        }))
    }

    fn put<'a>(&'a self, client: &'a ClientId, state: ClientState) -> BoxFuture<'a, StoreResult<()>> {
        let client = client.clone();
        Box::pin(self.database.write(move |connection| {
            let json = serde_json::to_string(&state).map_err(|error| JobError::refused(error.to_string()))?;
            sql_query(PUT)
                .bind::<Text, _>(client.as_str())
                .bind::<Text, _>(&json)
                .bind::<Nullable<BigInt>, _>(state.failing_since_ms)
                .execute(connection)?;
            Ok(())
        }))
    }
}
