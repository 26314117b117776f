//! Commits what is settled, and copies the committed offsets beside the rows.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Patience, Run};
use crate::actors::delivery_fleet::Committed;
use crate::ports::stash::Ownership;

/// A commit waits this long for company: it costs a disk flush.
const COMMIT_EVERY: Duration = Duration::from_millis(10);

impl Run {
    /// Commits until the stage is stopped, and once more then.
    pub(super) async fn commit(&self) {
        let windows = &self.stage.windows;
        let mut patience = Patience::new("commit of settled transfers");
        loop {
            let last = tokio::select! {
                () = self.stage.stop.cancelled() => true,
                () = windows.settled() => false,
            };
            if !last {
                tokio::time::sleep(COMMIT_EVERY).await;
            }
            self.commit_settled(&mut patience).await;
            let enough = self.stage.unsettled_per_partition / 2;
            self.places.borrow_mut().relieve(|partition| windows.unsettled(partition) > enough);
            if last {
                return;
            }
        }
    }

    async fn commit_settled(&self, patience: &mut Patience) {
        let windows = &self.stage.windows;
        loop {
            // Anew at each attempt: a partition that is another's by now is no longer ours to commit.
            let due = windows.to_commit();
            if due.is_empty() {
                return;
            }
            let offsets = due.iter().map(|(partition, (_, next))| (*partition, *next)).collect();
            match self.consumer.commit(offsets).await {
                Ok(()) => {
                    windows.committed(&due);
                    return patience.over();
                }
                Err(err) => {
                    self.stage.metrics.store_errors.with_label_values(&["log"]).inc();
                    if !err.is_transient() {
                        log::error!("commit of settled transfers is refused err={err}");
                        return due.values().for_each(|(ownership, _)| windows.lose(*ownership));
                    }
                    patience.after(&err).await;
                }
            }
        }
    }

    /// Copies what is committed, until nothing more will be. Apart from the commits, which go on while the stash is away.
    pub(super) async fn copy(&self, last_commit: &CancellationToken) {
        let mut patience = Patience::new("copy of committed offsets");
        loop {
            let last = tokio::select! {
                () = last_commit.cancelled() => true,
                () = self.stage.windows.something_committed() => false,
            };
            for (partition, (ownership, next)) in self.stage.windows.to_copy() {
                self.copy_committed(&mut patience, ownership, next).await;
                self.stage.fleet.do_send(Committed(partition));
            }
            patience.over();
            if last {
                return;
            }
        }
    }

    pub(super) async fn copy_committed(&self, patience: &mut Patience, ownership: Ownership, next: i64) {
        while self.stage.windows.holds(ownership)
            && let Err(err) = self.stage.stash.committed(ownership, next).await
        {
            if !err.is_transient() {
                log::warn!("committed offset was not copied err={err} partition={}", ownership.partition);
                return self.stage.windows.lose(ownership);
            }
            self.stage.metrics.store_errors.with_label_values(&["stash"]).inc();
            patience.after(&err).await;
        }
    }
}
