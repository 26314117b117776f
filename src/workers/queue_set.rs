//! The queues of a program: one enum, made by [`queues!`](crate::queues).

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::domain::job::QueueSpec;
use crate::ports::job_queue::{JobQueue, JobQueues};

/// All queues of a program. Made by [`queues!`](crate::queues), which checks them while it is compiled.
pub trait QueueSet: Copy + Eq + Debug + Send + Sync + 'static {
    /// Every queue, in the order of the enum.
    const ALL: &'static [Self];
    /// What each is, in the same order.
    const SPECS: &'static [QueueSpec];

    /// Its place in these.
    fn index(self) -> usize;

    /// What it is.
    fn spec(self) -> &'static QueueSpec {
        &Self::SPECS[self.index()]
    }
}

/// Makes the enum of a program's queues. What a queue is made of has no default, so nothing can be left out:
///
/// ```
/// # use std::time::Duration;
/// # use dispatcher::domain::{job::{QueueSpec, Retention, Workload}, retry::RetrySchedule};
/// dispatcher::queues! {
///     /// The queues of the shop.
///     pub enum ShopQueue {
///         /// Letters to customers.
///         Mail = QueueSpec {
///             name: "mail",
///             retention: Retention::Redrivable,
///             attempts: 5,
///             backoff: RetrySchedule {
///                 base: Duration::from_secs(5), factor: 2.0, cap: Duration::from_secs(900), jitter: 0.2,
///             },
///             timeout: Duration::from_secs(30),
///             concurrency_setting: "MAIL_WORKER_CONCURRENCY",
///             concurrency: 8,
///             workload: Workload::Light,
///         },
///     }
/// }
/// ```
///
/// Without its retention, or with a setting that is none, it does not compile:
///
/// ```compile_fail,E0063
/// # use std::time::Duration;
/// # use dispatcher::domain::{job::{QueueSpec, Retention, Workload}, retry::RetrySchedule};
/// dispatcher::queues! {
///     /// The queues of the shop.
///     pub enum ShopQueue {
///         /// Letters to customers.
///         Mail = QueueSpec {
///             name: "mail",
///             attempts: 5,
///             backoff: RetrySchedule {
///                 base: Duration::from_secs(5), factor: 2.0, cap: Duration::from_secs(900), jitter: 0.2,
///             },
///             timeout: Duration::from_secs(30),
///             concurrency_setting: "MAIL_WORKER_CONCURRENCY",
///             concurrency: 8,
///             workload: Workload::Light,
///         },
///     }
/// }
/// ```
///
/// ```compile_fail,E0080
/// # use std::time::Duration;
/// # use dispatcher::domain::{job::{QueueSpec, Retention, Workload}, retry::RetrySchedule};
/// dispatcher::queues! {
///     /// The queues of the shop.
///     pub enum ShopQueue {
///         /// Letters to customers.
///         Mail = QueueSpec {
///             name: "mail",
///             retention: Retention::Redrivable,
///             attempts: 5,
///             backoff: RetrySchedule {
///                 base: Duration::from_secs(5), factor: 2.0, cap: Duration::from_secs(900), jitter: 0.2,
///             },
///             timeout: Duration::from_secs(30),
///             concurrency_setting: "MAIL_CONCURRENCY",
///             concurrency: 8,
///             workload: Workload::Light,
///         },
///     }
/// }
/// ```
#[macro_export]
macro_rules! queues {
    ($(#[$meta:meta])* $vis:vis enum $set:ident { $($(#[$doc:meta])* $queue:ident = $spec:expr),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $set { $($(#[$doc])* $queue),+ }

        impl $crate::workers::QueueSet for $set {
            const ALL: &'static [Self] = &[$(Self::$queue),+];
            const SPECS: &'static [$crate::domain::job::QueueSpec] = &[$($spec),+];

            fn index(self) -> usize {
                self as usize
            }
        }

        const _: () = $crate::domain::job::check_queues(<$set as $crate::workers::QueueSet>::SPECS);
    };
}

/// The queues of a program, in a store.
pub struct OpenQueues<Q> {
    queues: Vec<Arc<dyn JobQueue>>,
    set: PhantomData<Q>,
}

impl<Q: QueueSet> OpenQueues<Q> {
    /// Opens all. Waits for nothing.
    pub fn new(store: &dyn JobQueues) -> Self {
        Self { queues: Q::SPECS.iter().map(|spec| store.queue(spec)).collect(), set: PhantomData }
    }

    /// One of them.
    pub fn get(&self, queue: Q) -> &Arc<dyn JobQueue> {
        &self.queues[queue.index()]
    }

    /// The one with this name.
    pub fn named(&self, name: &str) -> Option<&Arc<dyn JobQueue>> {
        self.queues.iter().find(|queue| queue.spec().name == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn JobQueue>> {
        self.queues.iter()
    }
}

impl<Q> Clone for OpenQueues<Q> {
    fn clone(&self) -> Self {
        Self { queues: self.queues.clone(), set: PhantomData }
    }
}
