//! The jobs of a queue: one enum, made by [`jobs!`](crate::jobs), and a type for the payload of each.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::QueueSet;
use crate::domain::config::ClientId;
use crate::domain::job::JobId;

/// What a job carries: ids, never bodies.
pub trait Payload: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Who the job is. The same work has the same id: adding it twice is one job.
    fn id(&self) -> JobId;

    /// For whom it is done. What is done for a client is not done while his owner is blocked; the kit sees to that.
    fn scope(&self) -> Scope<'_>;
}

/// For whom a job is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// For a client.
    Client {
        /// Which.
        client: &'a ClientId,
        /// His owner, when the payload names him; else it is the owner of his config.
        owner: Option<&'a str>,
    },
    /// To keep the service itself in order: runs for blocked owners, too.
    System,
    /// To look, and change nothing.
    Observability,
}

/// Why a job of the store is none of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// No job has this name: another version's, or a mistake.
    #[error("unknown job name")]
    Name,
    /// The payload is not that of the name.
    #[error("unreadable payload: {0}")]
    Payload(String),
}

/// All jobs of one queue. Made by [`jobs!`](crate::jobs).
pub trait Jobs: Sized + Send + Sync + 'static {
    /// The set that has the queue.
    type Queues: QueueSet;
    /// Where they are.
    const QUEUE: Self::Queues;
    /// Their names, in the order of the enum.
    const NAMES: &'static [&'static str];

    /// The name of this one.
    fn name(&self) -> &'static str;

    /// Its id.
    fn id(&self) -> JobId;

    /// For whom it is done.
    fn scope(&self) -> Scope<'_>;

    /// Its payload.
    ///
    /// # Errors
    /// When it is nothing that JSON can hold.
    fn data(&self) -> Result<Value, serde_json::Error>;

    /// A job of the store.
    ///
    /// # Errors
    /// When it is none of these.
    fn read(name: &str, data: Value) -> Result<Self, Unreadable>;
}

/// Makes the enum of a queue's jobs. Each has a payload type with an id and a scope.
///
/// ```
/// # use dispatcher::workers::{Payload, Scope};
/// # use dispatcher::domain::{config::ClientId, job::JobId};
/// # use dispatcher::workers::queues::Queue;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// pub struct Greet { client: ClientId }
///
/// impl Payload for Greet {
///     fn id(&self) -> JobId {
///         JobId::of_client("greet", &self.client)
///     }
///
///     fn scope(&self) -> Scope<'_> {
///         Scope::Client { client: &self.client, owner: None }
///     }
/// }
///
/// dispatcher::jobs! {
///     /// What is said to clients.
///     pub enum Greetings in Queue::Dispatcher {
///         /// Says hello.
///         Greet(Greet) = "GREET",
///     }
/// }
/// ```
///
/// A payload that does not say for whom it is does not compile, and neither do two jobs of one name:
///
/// ```compile_fail,E0046
/// # use dispatcher::workers::{Payload, Scope};
/// # use dispatcher::domain::{config::ClientId, job::JobId};
/// #[derive(serde::Serialize, serde::Deserialize)]
/// pub struct Greet { client: ClientId }
///
/// impl Payload for Greet {
///     fn id(&self) -> JobId {
///         JobId::of_client("greet", &self.client)
///     }
/// }
/// ```
///
/// ```compile_fail,E0080
/// # use dispatcher::workers::queues::{Disable, Queue, Retry};
/// dispatcher::jobs! {
///     /// Two jobs of one name.
///     pub enum Twins in Queue::Dispatcher {
///         /// One.
///         Retry(Retry) = "RETRY",
///         /// The other.
///         Disable(Disable) = "RETRY",
///     }
/// }
/// ```
#[macro_export]
macro_rules! jobs {
    (
        $(#[$meta:meta])* $vis:vis enum $jobs:ident in $set:ident :: $queue:ident {
            $($(#[$doc:meta])* $job:ident($payload:ty) = $name:literal),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis enum $jobs { $($(#[$doc])* $job($payload)),+ }

        impl $crate::workers::Jobs for $jobs {
            type Queues = $set;
            const QUEUE: $set = $set::$queue;
            const NAMES: &'static [&'static str] = &[$($name),+];

            fn name(&self) -> &'static str {
                match self { $(Self::$job(_) => $name),+ }
            }

            fn id(&self) -> $crate::domain::job::JobId {
                match self { $(Self::$job(payload) => $crate::workers::Payload::id(payload)),+ }
            }

            fn scope(&self) -> $crate::workers::Scope<'_> {
                match self { $(Self::$job(payload) => $crate::workers::Payload::scope(payload)),+ }
            }

            fn data(&self) -> ::std::result::Result<::serde_json::Value, ::serde_json::Error> {
                match self { $(Self::$job(payload) => ::serde_json::to_value(payload)),+ }
            }

            fn read(
                name: &str,
                data: ::serde_json::Value,
            ) -> ::std::result::Result<Self, $crate::workers::Unreadable> {
                match name {
                    $($name => ::serde_json::from_value(data)
                        .map(Self::$job)
                        .map_err(|err| $crate::workers::Unreadable::Payload(err.to_string())),)+
                    _ => Err($crate::workers::Unreadable::Name),
                }
            }
        }

        $(impl From<$payload> for $jobs {
            fn from(payload: $payload) -> Self {
                Self::$job(payload)
            }
        })+

        const _: () = $crate::domain::job::check_job_names(<$jobs as $crate::workers::Jobs>::NAMES);
    };
}
