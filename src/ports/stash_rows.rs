//! The rows of the stash as an operator sees them. The stash itself is for those who deliver.

use super::{BoxFuture, StoreResult};
use crate::domain::config::ClientId;
use crate::domain::dead_row::GivenUp;
use crate::domain::stash_view::{RowQuery, RowView};
use crate::domain::transfer::EventId;

/// Rows on a page, at most.
pub const LARGEST_ROW_PAGE: usize = 1_000;

/// Looks at rows, and removes what was given up.
pub trait StashRows: Send + Sync {
    /// Rows in the order of their sequence, at most [`LARGEST_ROW_PAGE`].
    fn rows(&self, query: RowQuery) -> BoxFuture<'_, StoreResult<Vec<RowView>>>;

    /// One row; `None`: there is none of this event.
    fn row<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<RowView>>>;

    /// The webhook body that a row carries.
    fn body<'a>(
        &'a self,
        client: &'a ClientId,
        event: &'a EventId,
    ) -> BoxFuture<'a, StoreResult<Option<bytes::Bytes>>>;

    /// Removes at most `limit` rows of a client that were given up, first failed before `until_ms` (milliseconds since 1970): the earliest
    /// first. Returns how many went.
    fn purge_given_up<'a>(
        &'a self,
        client: &'a ClientId,
        kind: GivenUp,
        until_ms: i64,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<u64>>;
}
