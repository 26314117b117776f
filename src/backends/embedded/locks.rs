//! Leases with a fencing token. A row stays when its lease is given back, so that tokens go on rising.

use std::sync::Arc;

use diesel::prelude::*;

use super::database::Database;
use super::schema::locks;
use crate::ports::locks::{Lease, Locks};
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct SqliteLocks {
    database: Arc<Database>,
}

impl SqliteLocks {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl Locks for SqliteLocks {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        now_ms: i64,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let key = key.to_owned();
        Box::pin(self.database.write(move |connection| {
            let deadline_ms = now_ms.saturating_add(ttl_ms);
            let held: Option<(i64, i64)> = locks::table
                .find(&key)
                .select((locks::token, locks::deadline_ms))
                .first(connection)
                .optional()?;
            let token = match held {
                Some((_, deadline_ms)) if deadline_ms > now_ms => return Ok(None),
                Some((token, _)) => token + 1,
                None => 1,
            };
            diesel::insert_into(locks::table)
                .values((locks::key.eq(&key), locks::token.eq(token), locks::deadline_ms.eq(deadline_ms)))
                .on_conflict(locks::key)
                .do_update()
                .set((locks::token.eq(token), locks::deadline_ms.eq(deadline_ms)))
                .execute(connection)?;
            Ok(Some(Lease { key, token, deadline_ms }))
        }))
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now_ms: i64,
        ttl_ms: i64,
    ) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let mut lease = lease.clone();
        Box::pin(self.database.write(move |connection| {
            lease.deadline_ms = now_ms.saturating_add(ttl_ms);
            let ours = diesel::update(locks::table.find(&lease.key))
                .filter(locks::token.eq(lease.token))
                .set(locks::deadline_ms.eq(lease.deadline_ms))
                .execute(connection)?;
            Ok((ours == 1).then_some(lease))
        }))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, StoreResult<()>> {
        let lease = lease.clone();
        Box::pin(self.database.write(move |connection| {
            // The next token is taken by nobody: the old holder cannot renew what it gave back.
            diesel::update(locks::table.find(&lease.key))
                .filter(locks::token.eq(lease.token))
                .set((locks::token.eq(lease.token + 1), locks::deadline_ms.eq(0)))
                .execute(connection)?;
            Ok(())
        }))
    }
}
