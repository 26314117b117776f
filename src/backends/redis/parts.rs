//! What each replica shows: two texts, and a list of those who wrote lately.

use std::sync::Arc;
use std::time::Duration;

use super::Redis;
use super::link::Away;
use crate::domain::replica::ReplicaName;
use crate::ports::dashboard_parts::{DashboardParts, LONGEST_PART, MOST_REPLICAS, PartTexts};
use crate::ports::{BoxFuture, StoreError, StoreResult};

/// The list outlives its members by this.
const LIST_KEPT_SECONDS: u64 = 3600;

/// The parts of all replicas.
pub struct Parts(Arc<Redis>);

impl Parts {
    /// In this Redis.
    pub fn new(redis: Arc<Redis>) -> Self {
        Self(redis)
    }

    /// At most one byte more than a text may have: then it is none.
    fn read(&self, key: &str) -> redis::Cmd {
        let mut read = redis::cmd("GETRANGE");
        read.arg(key).arg(0).arg(LONGEST_PART);
        read
    }
}

fn unavailable(away: Away) -> StoreError {
    StoreError::Unavailable(away.0)
}

/// What was read, if it can be a part.
fn text(bytes: Vec<u8>) -> Option<String> {
    if bytes.is_empty() || bytes.len() > LONGEST_PART { None } else { String::from_utf8(bytes).ok() }
}

impl DashboardParts for Parts {
    fn publish<'a>(
        &'a self,
        replica: &'a ReplicaName,
        part: PartTexts,
        ttl: Duration,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(async move {
            let PartTexts { now, base } = part;
            if now.len() > LONGEST_PART || base.as_ref().is_some_and(|base| base.len() > LONGEST_PART) {
                return Err(StoreError::Refused("too much to show".to_owned()));
            }
            let (keys, ttl_ms) = (&self.0.keys, u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
            let (base_key, list) = (keys.part_base(replica), keys.replicas());
            let mut commands = redis::pipe();
            commands.atomic();
            commands.cmd("SET").arg(keys.part(replica)).arg(now).arg("PX").arg(ttl_ms).ignore();
            if let Some(base) = base {
                commands.cmd("SET").arg(&base_key).arg(base).arg("PX").arg(ttl_ms).ignore();
            }
            commands.cmd("PEXPIRE").arg(&base_key).arg(ttl_ms);
            commands.cmd("SADD").arg(&list).arg(replica.as_str()).ignore();
            commands.cmd("EXPIRE").arg(&list).arg(LIST_KEPT_SECONDS).ignore();
            let (kept,): (bool,) = self
                .0
                .link
                .run(async |connection| commands.query_async(connection).await)
                .await
                .map_err(unavailable)?;
            Ok(kept)
        })
    }

    fn others<'a>(
        &'a self,
        replica: &'a ReplicaName,
    ) -> BoxFuture<'a, StoreResult<Vec<(ReplicaName, String)>>> {
        Box::pin(async move {
            let (keys, link) = (&self.0.keys, &self.0.link);
            // Those that are gone are taken off, so that there are not many more names than replicas.
            let mut listed = redis::cmd("SRANDMEMBER");
            listed.arg(keys.replicas()).arg(MOST_REPLICAS);
            let listed: Vec<Vec<u8>> = link.query(&listed).await.map_err(unavailable)?;
            let name = |bytes: &Vec<u8>| ReplicaName::parse(std::str::from_utf8(bytes).ok()?).ok();
            let others: Vec<_> = listed.iter().filter_map(name).filter(|name| name != replica).collect();
            let (mut found, mut gone) = (Vec::new(), redis::cmd("SREM"));
            gone.arg(keys.replicas());
            for other in others {
                // One at a time: all of them at once would be all of them in memory twice.
                let read: Vec<u8> = link.query(&self.read(&keys.part(&other))).await.map_err(unavailable)?;
                match text(read) {
                    Some(now) => found.push((other, now)),
                    None => drop(gone.arg(other.as_str())),
                }
            }
            if gone.args_iter().count() > 2 {
                // Whoever is there after all adds itself again.
                let _: i64 = link.query(&gone).await.map_err(unavailable)?;
            }
            Ok(found)
        })
    }

    fn base<'a>(&'a self, replica: &'a ReplicaName) -> BoxFuture<'a, StoreResult<Option<String>>> {
        Box::pin(async move {
            let read = self.read(&self.0.keys.part_base(replica));
            Ok(text(self.0.link.query(&read).await.map_err(unavailable)?))
        })
    }
}
