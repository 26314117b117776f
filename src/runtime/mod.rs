//! The actor kit, on actix: actors that survive their panics, and what it takes to watch and stop them.
//!
//! The supervisor of actix restarts an actor that stopped itself, but a panic takes actor, mailbox and
//! address with it, and nobody is told. [`supervise`] starts an actor under ours:
//!
//! - A panic in a handler, a hook, a timer or a future of the context restarts the actor after a back-off.
//!   The mailbox keeps its order and the address stays; only the message at work and the futures and timers
//!   of the context are lost. What an actor must not lose therefore lives in a store or with its parent.
//! - The actor value is used again: `restarting()` has to set the fields right, `started()` arms the timers.
//! - After too many failures it ends as [`Life::Failed`], which its [`Cell`] and the [`Registry`] go on showing.
//! - The [`Watchdog`] restarts an actor that is frozen, with its mailbox. A thread that makes no progress is lost: [`supervise_again`] starts
//!   its actors anew on another.
//!
//! ```
//! use std::sync::Arc;
//!
//! use actix::prelude::*;
//! use dispatcher::runtime::{Cell, Kit, RestartPolicy, supervise};
//!
//! struct Counter {
//!     cell: Cell,
//!     count: u32,
//! }
//!
//! impl Actor for Counter {
//!     type Context = Context<Self>;
//! }
//!
//! impl Supervised for Counter {
//!     fn restarting(&mut self, _: &mut Context<Self>) {
//!         self.count = 0;
//!     }
//! }
//!
//! #[derive(Message)]
//! #[rtype(result = "()")]
//! struct Add(u32);
//!
//! impl Handler<Add> for Counter {
//!     type Result = ();
//!
//!     fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) {
//!         self.cell.handling("Add");
//!         self.count = self.count.checked_add(number).expect("a bug, for the example");
//!         self.cell.publish(self.count.into());
//!     }
//! }
//!
//! System::new().block_on(async {
//!     let kit = Kit::new(Arc::new(|kind| println!("{kind} restarts")), RestartPolicy::default());
//!     let make = |cell| Counter { cell, count: 0 };
//!     let counter = supervise(&kit, &Arbiter::current(), "counter", "one", make);
//!     counter.addr.do_send(Add(u32::MAX));
//!     counter.addr.do_send(Add(1)); // breaks
//!     counter.addr.send(Add(2)).await.unwrap();
//!     let status = counter.cell.status();
//!     assert_eq!((status.restarts, status.published), (1, Some(Arc::new(2.into()))));
//! });
//! ```
//!
//! Three things that actix leaves to its user, which hold for every actor here (`tests/actix_facts.rs`):
//!
//! - A mailbox has no limit. Senders are held back by [`Permits`] or a [`ByteBudget`] that ride in the messages.
//! - A handler does one piece of work and sends itself the next: messages starve timers.
//! - A future that was cancelled by its handle in the very handler that panics takes its namesake of the next
//!   life along. Timers that `started()` arms are therefore left alone and check whether they still matter.

pub mod arbiters;
pub mod cell;
pub mod exit;
mod panics;
pub mod permits;
pub mod policy;
pub mod registry;
pub mod shutdown;
pub mod status;
pub mod supervisor;
pub mod watchdog;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use self::{
    arbiters::{Arbiters, Seat},
    cell::{Cell, Life, Phase},
    exit::ExitReason,
    panics::panic_text,
    permits::{ByteBudget, Permit, Permits},
    policy::RestartPolicy,
    registry::Registry,
    shutdown::{Shutdown, StopStep, Unfinished},
    status::{ActorStatus, LastCause},
    supervisor::{Supervised, supervise, supervise_again},
    watchdog::Watchdog,
};

/// Is told of an actor that broke by itself, and where that leads: `Restarting`, or `Failed`. Must not block.
pub type OnBroken = Arc<dyn Fn(&Cell, Life) + Send + Sync>;

/// What all actors of a process share. A clone is the same kit.
#[derive(Clone)]
pub struct Kit(Arc<Shared>);

struct Shared {
    on_restart: Arc<dyn Fn(&'static str) + Send + Sync>,
    on_broken: OnBroken,
    policy: RestartPolicy,
    registry: Registry,
    shutdown: Shutdown,
}

impl Kit {
    /// `on_restart` is called with the kind of the actor at each restart; it counts them.
    ///
    /// The first kit of a process installs a panic hook: it notes the place of panics that a supervisor will
    /// catch and log, and leaves all others to the hook that was there before.
    pub fn new(on_restart: Arc<dyn Fn(&'static str) + Send + Sync>, policy: RestartPolicy) -> Self {
        Self::observed(on_restart, Arc::new(|_, _| {}), policy)
    }

    /// The same, and `on_broken` is told of every actor that breaks.
    pub fn observed(
        on_restart: Arc<dyn Fn(&'static str) + Send + Sync>,
        on_broken: OnBroken,
        policy: RestartPolicy,
    ) -> Self {
        panics::install_hook();
        let (registry, shutdown) = (Registry::default(), Shutdown::default());
        Self(Arc::new(Shared { on_restart, on_broken, policy, registry, shutdown }))
    }

    /// All actors that were started with this kit.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// The one shutdown of the process.
    pub fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    fn policy(&self) -> &RestartPolicy {
        &self.0.policy
    }

    fn tell_broken(&self, cell: &Cell, life: Life) {
        (self.0.on_broken)(cell, life);
    }

    fn count_restart(&self, kind: &'static str) {
        self.0.registry.count_restart(kind);
        (self.0.on_restart)(kind);
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}

/// Locks, also after a panic of another holder: nothing here leaves a value half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
