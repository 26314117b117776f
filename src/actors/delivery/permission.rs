//! By what a request must still be allowed at the moment it goes out: whoever was stopped for a while may have lost everything.

use std::sync::Arc;
use std::time::Duration;

use super::DeliveryServices;
use crate::actors::inbox::Inbox;
use crate::ports::stash::DrainLease;

/// How soon it is looked again whether requests may go out. Only while something waits for it.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(250);

/// A drain lease, with the time until which requests may start under it, by the clock that nobody sets back. For an owner by another log
/// it ends in the store when the last of them has; the next one by this log has waited until nothing more may start by `may_send`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldLease {
    pub(super) lease: DrainLease,
    pub(super) until_boot_ms: i64,
}

/// The permission of one request.
pub(super) struct Permission {
    services: Arc<DeliveryServices>,
    inbox: Arc<Inbox>,
    /// Of a row: until when one may start under the lease by which it was read.
    until_boot_ms: i64,
}

impl Permission {
    /// To send a change as it came.
    pub(super) fn of_change(services: Arc<DeliveryServices>, inbox: Arc<Inbox>) -> Self {
        Self { services, inbox, until_boot_ms: i64::MAX }
    }

    /// To send a row under this lease.
    pub(super) fn of_row(
        services: Arc<DeliveryServices>,
        inbox: Arc<Inbox>,
        lease: Option<HeldLease>,
    ) -> Self {
        let until_boot_ms = lease.map_or(i64::MIN, |held| held.until_boot_ms);
        Self { services, inbox, until_boot_ms }
    }

    /// Whether the request may start now.
    pub(super) fn holds(&self) -> bool {
        let now_boot_ms = self.services.clock.boot_ms();
        now_boot_ms < self.until_boot_ms
            && !self.inbox.fence().is_up()
            && self.services.windows.may_send(self.inbox.ownership(), now_boot_ms)
    }
}
