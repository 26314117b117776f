//! Wishes that an actor begins anew, which go to whichever replica has it.

use super::BoxFuture;
use crate::domain::replica::ReplicaName;

/// Which actor is to begin anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartWish {
    /// What it is.
    pub kind: String,
    /// Which of its kind; empty: the only one.
    pub id: String,
    /// Whose; `None`: of the replica that has it.
    pub replica: Option<ReplicaName>,
}

/// What a replica says to a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartAnswer {
    /// It begins anew.
    Asked,
    /// Its life is over, and nobody starts another.
    Over,
    /// It is not here.
    Unknown,
}

/// Why no replica has said that it has the actor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NobodyActed {
    /// All others have said that it is not theirs.
    #[error("no replica has this actor")]
    Unknown,
    /// The others cannot be asked.
    #[error("the other replicas cannot be asked: {0}")]
    Unreachable(String),
    /// Not all of them answered in time, and none that has it.
    #[error("not all replicas answered in time")]
    NoAnswer,
}

/// A wish of another replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeardWish {
    /// What is wished.
    pub wish: RestartWish,
    /// What the answer is given to.
    pub number: u64,
}

/// The way to the actors of other replicas. The defaults are for a service that is one process: there are no others.
pub trait ActorRestarts: Send + Sync {
    /// Asks all other replicas, for some seconds at most. Answered with the one that has the actor and what it says: `Asked` or `Over`.
    fn ask<'a>(
        &'a self,
        wish: &'a RestartWish,
    ) -> BoxFuture<'a, Result<(ReplicaName, RestartAnswer), NobodyActed>> {
        let _ = wish;
        Box::pin(async { Err(NobodyActed::Unknown) })
    }

    /// The next wish of another replica. Cancel-safe; for one listener.
    fn next(&self) -> BoxFuture<'_, HeardWish> {
        Box::pin(std::future::pending())
    }

    /// Answers it. Nobody knows who heard that.
    fn answer(&self, number: u64, answer: RestartAnswer) {
        let _ = (number, answer);
    }
}
