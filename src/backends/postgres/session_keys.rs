//! The key of browsers' sessions.

use std::sync::Arc;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::database::Database;
use super::schema::session_key;
use crate::ports::session_keys::{SessionKey, SessionKeys};
use crate::ports::{BoxFuture, StoreError, StoreResult};

pub(super) struct PgSessionKeys {
    database: Arc<Database>,
}

impl PgSessionKeys {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl SessionKeys for PgSessionKeys {
    fn session_key(&self, fresh: SessionKey) -> BoxFuture<'_, StoreResult<SessionKey>> {
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                diesel::insert_into(session_key::table)
                    .values((session_key::id.eq(1), session_key::key.eq(fresh.as_slice())))
                    .on_conflict_do_nothing()
                    .execute(connection)
                    .await?;
                let key: Vec<u8> =
                    session_key::table.find(1).select(session_key::key).first(connection).await?;
                let broken = |_| StoreError::Refused("stored session key is broken".into());
                Ok(key.try_into().map_err(broken)?)
            })
        }))
    }
}
