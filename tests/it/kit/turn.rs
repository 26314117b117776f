//! Who runs beside whom: most tests wait more than they work, and run beside each other; those that measure run alone.

use std::rc::Rc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

static RUNNING: Mutex<Running> = Mutex::new(Running { together: 0, alone: false });
static HAS_ENDED: Condvar = Condvar::new();

/// Which tests have a turn.
struct Running {
    together: usize,
    alone: bool,
}

/// The right to run until the last copy of it is dropped.
#[derive(Clone)]
pub(crate) struct Turn(#[expect(dead_code, reason = "held, not read")] Rc<Right>);

enum Right {
    /// Beside other tests.
    Shared,
    /// With no other service running.
    Alone,
}

impl Turn {
    /// Waits only while a test runs alone, never for one that waits to do so.
    pub(crate) fn shared() -> Self {
        let mut running = wait_while(|running| running.alone);
        running.together += 1;
        Self(Rc::new(Right::Shared))
    }

    /// Waits until no other test runs: those that run alone come after those that can run together, one after the other.
    pub(crate) fn alone() -> Self {
        let mut running = wait_while(|running| running.alone || running.together > 0);
        running.alone = true;
        Self(Rc::new(Right::Alone))
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        match self {
            Self::Shared => running.together -= 1,
            Self::Alone => running.alone = false,
        }
        HAS_ENDED.notify_all();
    }
}

fn wait_while(is_in_the_way: impl Fn(&Running) -> bool) -> MutexGuard<'static, Running> {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    HAS_ENDED.wait_while(running, |running| is_in_the_way(running)).unwrap_or_else(PoisonError::into_inner)
}
