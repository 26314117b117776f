//! Clients are looked up before a change for them is skipped: their config may have been made, or switched on, a moment before,
//! and be on its way to the table still.

use std::collections::{HashMap, HashSet};

use super::SourceStage;
use crate::actors::config_cache::{ConfigSnapshot, Learn};
use crate::domain::change_event::{SourceEvent, SourceRecord};
use crate::domain::config::ClientId;
use crate::ports::{StoreError, StoreResult};

/// How far the clocks of those who write records and of this machine may differ, and a config be late.
const MARGIN_MS: i64 = 5_000;

/// So many clients are remembered; beyond it they are looked up once more.
const REMEMBERED: usize = 100_000;

/// What was looked up.
#[derive(Default)]
pub(super) struct Lookup {
    /// When, milliseconds since 1970, of clients of whom the table is right.
    looked_up: HashMap<ClientId, i64>,
}

impl Lookup {
    /// Whether what is known of the client is older than this, and says that it gets nothing.
    fn is_due(&self, configs: &ConfigSnapshot, client: &ClientId, as_of_ms: i64) -> bool {
        let gets_nothing = configs.stored(client).is_none_or(|config| !config.is_active());
        gets_nothing
            && configs.read_at_ms(client) < as_of_ms
            && self.looked_up.get(client).is_none_or(|at| *at < as_of_ms)
    }
}

impl SourceStage {
    /// Brings the table up to date, as far as it would have changes of this batch skipped that it may be too old for.
    ///
    /// # Errors
    /// The configs cannot be read: nothing may be skipped, so the batch waits.
    pub(super) async fn look_up(
        &self,
        lookup: &mut Lookup,
        records: &[SourceRecord],
        events: &[SourceEvent],
    ) -> StoreResult<()> {
        let configs = self.table.snapshot();
        let (mut due, mut as_of_ms) = (HashSet::new(), i64::MIN);
        for (record, event) in records.iter().zip(events) {
            let SourceEvent::Change(change) = event else { continue };
            let needed_ms = record.timestamp_ms.saturating_add(MARGIN_MS);
            for client in change.clients.iter().chain(&change.removed_clients) {
                if lookup.is_due(&configs, client, needed_ms) {
                    as_of_ms = as_of_ms.max(needed_ms);
                    due.insert(client.clone());
                }
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        // No more is promised of what comes back: it may be a copy that was read then.
        let read_at_ms = self.clock.now_ms().min(as_of_ms);
        let mut found = self.configs.recheck(due.iter().cloned().collect(), as_of_ms).await?;
        found.retain(|stored| configs.stored(&stored.config.client) != Some(&stored.config));
        if !found.is_empty() {
            let learnt = self.config_cache.send(Learn { configs: found, read_at_ms }).await;
            learnt.map_err(|err| StoreError::Unavailable(format!("config cache: {err}")))?;
        }
        if lookup.looked_up.len() + due.len() > REMEMBERED {
            lookup.looked_up.clear();
        }
        lookup.looked_up.extend(due.into_iter().map(|client| (client, read_at_ms)));
        Ok(())
    }
}
