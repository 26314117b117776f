//! What happened that the operator wants to know of, numbered and kept for a while.

use super::{BoxFuture, StoreResult};
use crate::domain::config::ClientId;
use crate::domain::operational_event::{Happening, NumberedEvent, OperationalEvent};

/// Events on a page, at most.
pub const LARGEST_EVENT_PAGE: usize = 1_000;

/// Which events are listed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventOrder {
    /// Those with the lowest number.
    #[default]
    Oldest,
    /// Those with the highest.
    Newest,
}

/// Which events are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventPage {
    /// Only those that come behind this number in the order of the list.
    pub after: Option<i64>,
    /// Only this client's.
    pub client: Option<ClientId>,
    /// Only those that say this.
    pub happening: Option<Happening>,
    /// Which come first.
    pub order: EventOrder,
    /// How many, at most; at most [`LARGEST_EVENT_PAGE`].
    pub limit: usize,
}

/// Keeps operational events.
pub trait OperationalEvents: Send + Sync {
    /// Appends events, all or none, in order. They get the next numbers; whoever has seen one number sees all that are lower. One that is there
    /// already is left as it is.
    fn append(&self, events: Vec<OperationalEvent>) -> BoxFuture<'_, StoreResult<()>>;

    /// A page of them.
    fn list(&self, page: EventPage) -> BoxFuture<'_, StoreResult<Vec<NumberedEvent>>>;

    /// Removes those of before this time (milliseconds since 1970), and of the others all but the last `keep` numbers; a part at a time. Returns
    /// how many went.
    fn purge(&self, before_ms: i64, keep: u64) -> BoxFuture<'_, StoreResult<u64>>;

    /// The last number that this reader has read. One that was never seen before begins behind the newest event, and is known from now on.
    fn reader<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<i64>>;

    /// The reader has read everything up to this number. It never goes back.
    fn has_read<'a>(&'a self, name: &'a str, id: i64) -> BoxFuture<'a, StoreResult<()>>;
}

/// A log of others that events are copied to.
pub trait EventTopic: Send + Sync {
    /// Appends events in order, all or none. When it fails nobody knows: they are appended again.
    fn append(&self, events: Vec<NumberedEvent>) -> BoxFuture<'_, StoreResult<()>>;
}
