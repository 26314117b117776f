//! Leases with a fencing token. A row stays when its lease is given back, so that tokens go on rising. Each change is one
//! statement: it waits for the row, and looks at it as it is then.

use std::sync::Arc;

use diesel::prelude::*;
use diesel::query_dsl::methods::FilterDsl;
use diesel_async::RunQueryDsl;

use super::database::Database;
use super::key;
use super::schema::locks;
use crate::ports::locks::{Lease, Locks};
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct PgLocks {
    database: Arc<Database>,
}

impl PgLocks {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl Locks for PgLocks {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        now_ms: i64,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let name = key.to_owned();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                let deadline_ms = now_ms.saturating_add(ttl_ms);
                let take = diesel::insert_into(locks::table)
                    .values((
                        locks::key.eq(super::key(&name)?),
                        locks::token.eq(1),
                        locks::deadline_ms.eq(deadline_ms),
                    ))
                    .on_conflict(locks::key)
                    .do_update()
                    .set((locks::token.eq(locks::token + 1), locks::deadline_ms.eq(deadline_ms)));
                let token: Option<i64> = FilterDsl::filter(take, locks::deadline_ms.le(now_ms))
                    .returning(locks::token)
                    .get_result(connection)
                    .await
                    .optional()?;
                Ok(token.map(|token| Lease { key: name, token, deadline_ms }))
            })
        }))
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now_ms: i64,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let mut lease = lease.clone();
        Box::pin(self.database.run(move |connection| {
            Box::pin(async move {
                lease.deadline_ms = now_ms.saturating_add(ttl_ms);
                let ours = diesel::update(locks::table.find(key(&lease.key)?))
                    .filter(locks::token.eq(lease.token))
                    .set(locks::deadline_ms.eq(lease.deadline_ms))
                    .execute(connection)
                    .await?;
                Ok((ours == 1).then_some(lease))
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
