//! Wishes that an actor of another replica begins anew, and the answers, by the channel of notices.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::{MAX_ID_BYTES, Redis, notices};
use crate::domain::replica::ReplicaName;
use crate::ports::BoxFuture;
use crate::ports::actor_restarts::{ActorRestarts, HeardWish, NobodyActed, RestartAnswer, RestartWish};
use crate::ports::dashboard_parts::MOST_REPLICAS;

/// How long the others may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// More wishes than this do not wait: whoever wished is told that nobody answered.
const MAX_WAITING: usize = 100;
/// The longest kind of an actor, in bytes.
const MAX_KIND_BYTES: usize = 64;

/// A wish on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wish {
    /// Its answers have the same.
    number: u64,
    /// Whose it is.
    by: ReplicaName,
    kind: String,
    id: String,
    replica: Option<ReplicaName>,
}

/// An answer on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reply {
    number: u64,
    by: ReplicaName,
    answer: Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Asked,
    Over,
    Unknown,
}

/// Wishes of others that wait to be done, and our own that wait for their answers.
#[derive(Default)]
pub(super) struct RestartQueue {
    waiting: Mutex<VecDeque<Wish>>,
    arrived: Notify,
    asked: Mutex<HashMap<u64, mpsc::Sender<(ReplicaName, Answer)>>>,
}

impl RestartQueue {
    pub(super) fn push(&self, wish: Wish) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = wish.kind.len() <= MAX_KIND_BYTES && wish.id.len() <= MAX_ID_BYTES;
        if fits && waiting.len() < MAX_WAITING {
            waiting.push_back(wish);
            self.arrived.notify_one();
        }
    }

    pub(super) fn heard(&self, Reply { number, by, answer }: Reply) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asked) = asked.get(&number) {
            // There is room for all replicas; one that says more than one thing is not listened to.
            let _ = asked.try_send((by, answer));
        }
    }

    async fn next(&self) -> Wish {
        loop {
            let first = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match first {
                Some(wish) => return wish,
                None => self.arrived.notified().await,
            }
        }
    }

    fn expect(&self, number: u64) -> Expected<'_> {
        let (sender, answers) = mpsc::channel(2 * MOST_REPLICAS);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(number, sender);
        Expected { queue: self, number, answers }
    }
}

/// The answers to a wish; nobody listens to them any more when it is dropped.
struct Expected<'a> {
    queue: &'a RestartQueue,
    number: u64,
    answers: mpsc::Receiver<(ReplicaName, Answer)>,
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.queue.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Expected<'_> {
    /// Waits for the one that has it, or until so many have answered.
    async fn of(&mut self, listeners: i64) -> Result<(ReplicaName, RestartAnswer), NobodyActed> {
        let mut answered = Vec::new();
        while i64::try_from(answered.len()).is_ok_and(|answered| answered < listeners) {
            let Some((by, answer)) = self.answers.recv().await else { break };
            match answer {
                Answer::Asked => return Ok((by, RestartAnswer::Asked)),
                Answer::Over => return Ok((by, RestartAnswer::Over)),
                Answer::Unknown if answered.contains(&by) => {}
                Answer::Unknown => answered.push(by),
            }
        }
        Err(NobodyActed::Unknown)
    }
}

/// The way to the actors of other replicas.
pub struct Restarts {
    redis: Arc<Redis>,
    here: ReplicaName,
}

impl Restarts {
    /// Of this replica, by this Redis.
    pub fn new(redis: Arc<Redis>, here: ReplicaName) -> Self {
        Self { redis, here }
    }
}

impl ActorRestarts for Restarts {
    fn ask<'a>(
        &'a self,
        wish: &'a RestartWish,
    ) -> BoxFuture<'a, Result<(ReplicaName, RestartAnswer), NobodyActed>> {
        Box::pin(async move {
            let RestartWish { kind, id, replica } = wish.clone();
            let number = fastrand::u64(..);
            let wish = Wish { number, by: self.here.clone(), kind, id, replica };
            let mut expected = self.redis.notices.restarts.expect(number);
            let mut publish = redis::cmd("PUBLISH");
            publish.arg(self.redis.keys.notices()).arg(notices::restart(&wish));
            let heard: i64 =
                self.redis.link.query(&publish).await.map_err(|away| NobodyActed::Unreachable(away.0))?;
            // This replica hears itself, too, and says at once that it has nothing.
            timeout(ANSWERS_WITHIN, expected.of(heard)).await.unwrap_or(Err(NobodyActed::NoAnswer))
        })
    }

    fn next(&self) -> BoxFuture<'_, HeardWish> {
        Box::pin(async move {
            loop {
                let Wish { number, by, kind, id, replica } = self.redis.notices.restarts.next().await;
                let is_for_us =
                    by != self.here && replica.as_ref().is_none_or(|replica| *replica == self.here);
                if is_for_us {
                    return HeardWish { wish: RestartWish { kind, id, replica }, number };
                }
                self.answer(number, RestartAnswer::Unknown);
            }
        })
    }

    fn answer(&self, number: u64, answer: RestartAnswer) {
        let answer = match answer {
            RestartAnswer::Asked => Answer::Asked,
            RestartAnswer::Over => Answer::Over,
            RestartAnswer::Unknown => Answer::Unknown,
        };
        self.redis.publish(notices::restarted(&Reply { number, by: self.here.clone(), answer }));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn name(text: &str) -> ReplicaName {
        ReplicaName::parse(text).unwrap()
    }

    fn wish(id: &str) -> Wish {
        Wish { number: 1, by: name("a"), kind: "delivery".to_owned(), id: id.to_owned(), replica: None }
    }

    #[test]
    fn wishes_wait_in_their_order_and_not_too_many() {
        let queue = RestartQueue::default();
        queue.push(wish("first"));
        queue.push(wish(&"x".repeat(MAX_ID_BYTES + 1)));
        for number in 0..MAX_WAITING + 5 {
            queue.push(wish(&number.to_string()));
        }
        assert_eq!(queue.next().now_or_never(), Some(wish("first")));
        assert_eq!(std::iter::from_fn(|| queue.next().now_or_never()).count(), MAX_WAITING - 1);
    }

    #[tokio::test]
    async fn the_one_that_has_it_answers_or_all_have_said_no() {
        let queue = RestartQueue::default();
        let says = |by: &str, answer| queue.heard(Reply { number: 7, by: name(by), answer });
        let mut expected = queue.expect(7);
        says("a", Answer::Unknown);
        says("a", Answer::Unknown);
        queue.heard(Reply { number: 8, by: name("c"), answer: Answer::Asked });
        assert!(expected.of(2).now_or_never().is_none(), "one that says it twice is one");
        says("a", Answer::Unknown);
        says("b", Answer::Over);
        assert_eq!(expected.of(3).await, Ok((name("b"), RestartAnswer::Over)));
        for by in ["a", "b"] {
            says(by, Answer::Unknown);
        }
        assert_eq!(expected.of(2).await, Err(NobodyActed::Unknown));
        drop(expected);
        says("a", Answer::Asked);
        assert!(queue.asked.lock().unwrap().is_empty());
    }
}
