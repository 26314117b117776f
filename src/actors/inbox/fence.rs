//! What separates an actor on a lost thread from the one that took its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nothing that is done behind a raised fence counts. A clone is the same fence; it stays up once it is.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<AtomicBool>);

impl Fence {
    /// Raises it.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
