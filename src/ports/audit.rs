//! What operators did by the API.

use std::time::Duration;

use super::{BoxFuture, StoreResult};
use crate::domain::audit::{AuditEntry, NewAction};

/// Entries on a page, at most.
pub const LARGEST_AUDIT_PAGE: usize = 1_000;

/// Which entries are asked for: the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditPage {
    /// Only those with a lower number.
    pub before: Option<i64>,
    /// Only those of this token.
    pub by: Option<String>,
    /// Only this operation.
    pub action: Option<String>,
    /// Only on this.
    pub subject: Option<String>,
    /// How many, at most; at most [`LARGEST_AUDIT_PAGE`].
    pub limit: usize,
}

/// Keeps what operators did.
pub trait AuditLog: Send + Sync {
    /// Writes down that an action begins, now by the store's clock. Returns its number.
    fn begin(&self, action: NewAction) -> BoxFuture<'_, StoreResult<i64>>;

    /// Writes down with which HTTP status it was answered.
    fn end(&self, id: i64, status: u16) -> BoxFuture<'_, StoreResult<()>>;

    /// A page of them.
    fn list(&self, page: AuditPage) -> BoxFuture<'_, StoreResult<Vec<AuditEntry>>>;

    /// Removes at most `limit` entries that are older than this by the store's clock. Returns how many went.
    fn purge(&self, older_than: Duration, limit: usize) -> BoxFuture<'_, StoreResult<u64>>;
}
