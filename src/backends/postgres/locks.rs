//! Leases with a fencing token. A row stays when its lease is given back, so that tokens go on rising. Each change is one
//! statement: it waits for the row, and looks at it as it is then, by the server's clock.

use std::sync::Arc;

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary};
use diesel_async::RunQueryDsl;

use super::database::Database;
use super::key;
use super::schema::locks;
use crate::ports::locks::{Lease, Locks};
use crate::ports::{BoxFuture, StoreResult};

const TAKE: &str = concat!(
    "INSERT INTO locks (key, token, deadline_ms) VALUES ($1, 1, ",
    store_now_ms!(),
    " + $2) ON CONFLICT (key) DO UPDATE SET token = locks.token + 1, deadline_ms = excluded.deadline_ms
    WHERE locks.deadline_ms <= ",
    store_now_ms!(),
    " RETURNING token"
);

/// The clock was set back since, or another server took over.
const SHORTEN: &str = concat!(
    "UPDATE locks SET deadline_ms = ",
    store_now_ms!(),
    " + $2 WHERE key = $1 AND deadline_ms > ",
    store_now_ms!(),
    " + $2"
);

const RENEW: &str =
    concat!("UPDATE locks SET deadline_ms = ", store_now_ms!(), " + $2 WHERE key = $1 AND token = $3");

#[derive(QueryableByName)]
struct Taken {
    #[diesel(sql_type = BigInt)]
    token: i64,
}

pub(super) struct PgLocks {
    database: Arc<Database>,
}

impl PgLocks {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl Locks for PgLocks {
    fn acquire<'a>(&'a self, key: &'a str, ttl_ms: i64) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let key = key.to_owned();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let name = super::key(&key)?;
                let taken: Option<Taken> = sql_query(TAKE)
                    .bind::<Binary, _>(name)
                    .bind::<BigInt, _>(ttl_ms)
                    .get_result(connection)
                    .await
                    .optional()?;
                if taken.is_none() {
                    sql_query(SHORTEN)
                        .bind::<Binary, _>(name)
                        .bind::<BigInt, _>(ttl_ms)
                        .execute(connection)
                        .await?;
                }
                Ok(taken.map(|Taken { token }| Lease { key, token }))
            })
        }))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let lease = lease.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let ours = sql_query(RENEW)
                    .bind::<Binary, _>(key(&lease.key)?)
                    .bind::<BigInt, _>(ttl_ms)
                    .bind::<BigInt, _>(lease.token)
                    .execute(connection)
                    .await?;
                Ok(ours == 1)
            })
        }))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, StoreResult<()>> {
        let lease = lease.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                // The next token is taken by nobody: the old holder cannot renew what it gave back.
                diesel::update(locks::table.find(key(&lease.key)?))
                    .filter(locks::token.eq(lease.token))
                    .set((locks::token.eq(lease.token + 1), locks::deadline_ms.eq(0)))
                    .execute(connection)
                    .await?;
                Ok(())
            })
        }))
    }
}
