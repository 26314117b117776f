//! Who runs beside whom: tests that measure time or load the machine run alone.

use std::rc::Rc;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static TURN: RwLock<()> = RwLock::new(());

/// The right to run until the last copy of it is dropped.
#[derive(Clone)]
pub(crate) struct Turn(#[expect(dead_code, reason = "held, not read")] Rc<Guard>);

enum Guard {
    /// Beside other tests.
    Shared(#[expect(dead_code, reason = "held, not read")] RwLockReadGuard<'static, ()>),
    /// With no other service running.
    Alone(#[expect(dead_code, reason = "held, not read")] RwLockWriteGuard<'static, ()>),
}

impl Turn {
    pub(crate) fn shared() -> Self {
        Self(Rc::new(Guard::Shared(TURN.read().unwrap_or_else(PoisonError::into_inner))))
    }

    pub(crate) fn alone() -> Self {
        Self(Rc::new(Guard::Alone(TURN.write().unwrap_or_else(PoisonError::into_inner))))
    }
}
