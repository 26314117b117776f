//! Leases with a fencing token. A row stays when its lease is given back, so that tokens go on rising.

use std::sync::Arc;

use diesel::prelude::*;

use super::database::Database;
use super::schema::locks;
use crate::ports::clock::Clock;
use crate::ports::locks::{Lease, Locks};
use crate::ports::{BoxFuture, StoreResult};

pub(super) struct SqliteLocks {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

impl SqliteLocks {
    pub(super) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    fn in_ms(&self, ttl_ms: i64) -> (i64, i64) {
        let now_ms = self.clock.now_ms();
        (now_ms, now_ms.saturating_add(ttl_ms))
    }
}

impl Locks for SqliteLocks {
    fn acquire<'a>(&'a self, key: &'a str, ttl_ms: i64) -> BoxFuture<'a, StoreResult<Option<Lease>>> {
        let (key, (now_ms, deadline_ms)) = (key.to_owned(), self.in_ms(ttl_ms));
        Box::pin(self.database.write(move |connection| {
            let held: Option<(i64, i64)> = locks::table
                .find(&key)
                .select((locks::token, locks::deadline_ms))
                .first(connection)
                .optional()?;
            let token = match held {
                Some((_, held_until_ms)) if held_until_ms > now_ms => {
                    if held_until_ms > deadline_ms {
                        // The clock was set back.
                        diesel::update(locks::table.find(&key))
                            .set(locks::deadline_ms.eq(deadline_ms))
                            .execute(connection)?;
                    }
                    return Ok(None);
                }
                Some((token, _)) => token + 1,
                None => 1,
            };
            diesel::insert_into(locks::table)
                .values((locks::key.eq(&key), locks::token.eq(token), locks::deadline_ms.eq(deadline_ms)))
                .on_conflict(locks::key)
                .do_update()
                .set((locks::token.eq(token), locks::deadline_ms.eq(deadline_ms)))
                .execute(connection)?;
            Ok(Some(Lease { key, token }))
        }))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl_ms: i64) -> BoxFuture<'a, StoreResult<bool>> {
        let (lease, (_, deadline_ms)) = (lease.clone(), self.in_ms(ttl_ms));
        Box::pin(self.database.write(move |connection| {
            let ours = diesel::update(locks::table.find(&lease.key))
                .filter(locks::token.eq(lease.token))
                .set(locks::deadline_ms.eq(deadline_ms))
                .execute(connection)?;
            Ok(ours == 1)
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
