//! Which roles some replica has.

use super::Redis;
use crate::ports::{StoreError, StoreResult};

/// A replica says it three times as often.
const KEPT_SECONDS: u64 = 15;

impl Redis {
    /// Says for 15 s that somebody has these roles. While Redis is away nobody hears it.
    pub async fn keep_roles(&self, roles: &[&str]) {
        let mut commands = redis::pipe();
        for role in roles {
            commands.cmd("SET").arg(self.keys.role(role)).arg(1).arg("EX").arg(KEPT_SECONDS).ignore();
        }
        // The next time comes soon.
        let _ = self.link.pipeline(&commands).await;
    }

    /// Those of the roles that somebody has.
    ///
    /// # Errors
    /// Redis is away.
    pub async fn held_roles<'a>(&self, roles: &[&'a str]) -> StoreResult<Vec<&'a str>> {
        let mut command = redis::cmd("MGET");
        for role in roles {
            command.arg(self.keys.role(role));
        }
        let held: Vec<Option<String>> =
            self.link.query(&command).await.map_err(|away| StoreError::Unavailable(away.0))?;
        Ok(roles.iter().zip(held).filter_map(|(role, held)| held.map(|_| *role)).collect())
    }
}
