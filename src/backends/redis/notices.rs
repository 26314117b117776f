//! Notices between replicas: what is heard waits here until it is asked for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Client, RedisResult};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::MAX_ID_BYTES;
use super::kicks::KickQueue;
use super::restarts::{Reply, RestartQueue, Wish};
use crate::domain::config::ClientId;
use crate::ports::client_configs::ConfigNotice;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// A connection that was cut without a word is found by this.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Beyond so many clients it is cheaper to read all configs again.
const MAX_WAITING: usize = 1000;

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// This client's config is another one.
    Config(ClientId),
    /// Operators decided something about clients or owners.
    Decisions,
    /// This client's owner is to try its webhook now.
    TryNow(ClientId),
    /// An actor is to begin anew.
    Restart(Wish),
    /// What a replica says to that.
    Restarted(Reply),
}

/// The notice that a client's config is another one.
pub(super) fn config(client: &ClientId) -> String {
    serde_json::json!({ "config": client }).to_string()
}

/// The notice that operators decided something.
pub(super) fn decisions() -> String {
    serde_json::json!("decisions").to_string()
}

/// The notice that a client's owner is to try its webhook now.
pub(super) fn try_now(client: &ClientId) -> String {
    serde_json::json!({ "try_now": client }).to_string()
}

/// The notice that an actor is to begin anew.
pub(super) fn restart(wish: &Wish) -> String {
    serde_json::json!({ "restart": wish }).to_string()
}

/// The notice of what a replica says to that.
pub(super) fn restarted(reply: &Reply) -> String {
    serde_json::json!({ "restarted": reply }).to_string()
}

fn read(payload: &[u8]) -> Option<Message> {
    // Escapes make an id longer, six bytes for one at most.
    if payload.len() > 7 * MAX_ID_BYTES { None } else { serde_json::from_slice(payload).ok() }
}

/// Notices that wait for their listener, each client once.
#[derive(Default)]
pub(super) struct NoticeQueue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    decisions: Notify,
    pub(super) kicks: KickQueue,
    pub(super) restarts: RestartQueue,
}

#[derive(Default)]
struct Waiting {
    missed: bool,
    changed: BTreeSet<ClientId>,
}

impl NoticeQueue {
    pub(super) fn push(&self, client: ClientId) {
        self.change(|waiting| {
            waiting.changed.insert(client);
            if waiting.changed.len() > MAX_WAITING {
                *waiting = Waiting { missed: true, changed: BTreeSet::new() };
            }
        });
    }

    pub(super) fn push_decisions(&self) {
        self.decisions.notify_one();
    }

    /// One that came before is not lost.
    pub(super) async fn decisions_changed(&self) {
        self.decisions.notified().await;
    }

    fn missed(&self) {
        self.push_decisions();
        self.change(|waiting| *waiting = Waiting { missed: true, changed: BTreeSet::new() });
    }

    fn change(&self, change: impl FnOnce(&mut Waiting)) {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.arrived.notify_one();
    }

    fn take(&self) -> Option<ConfigNotice> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut waiting.missed) {
            return Some(ConfigNotice::Missed);
        }
        waiting.changed.pop_first().map(ConfigNotice::Changed)
    }

    pub(super) async fn next(&self) -> ConfigNotice {
        loop {
            if let Some(notice) = self.take() {
                return notice;
            }
            self.arrived.notified().await;
        }
    }
}

/// Listens, and connects again and again, until it is aborted.
pub(super) async fn listen(client: Client, channel: String, queue: Arc<NoticeQueue>) {
    loop {
        if let Ok(Ok((sink, stream))) = timeout(CONNECT_WITHIN, subscribe(&client, &channel)).await {
            // What was said before is not repeated.
            queue.missed();
            hear(sink, stream, &queue).await;
        }
        sleep(LOOK_AGAIN_AFTER).await;
    }
}

async fn subscribe(client: &Client, channel: &str) -> RedisResult<(PubSubSink, PubSubStream)> {
    let (mut sink, stream) = client.get_async_pubsub().await?.split();
    sink.subscribe(channel).await?;
    Ok((sink, stream))
}

/// Until the connection ends or does not answer.
async fn hear(mut sink: PubSubSink, mut stream: PubSubStream, queue: &NoticeQueue) {
    let mut ask = interval(ASK_EVERY);
    ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = stream.next() => match message {
                Some(message) => match read(message.get_payload_bytes()) {
                    Some(Message::Config(client)) => queue.push(client),
                    Some(Message::Decisions) => queue.push_decisions(),
                    Some(Message::TryNow(client)) => queue.kicks.push(client),
                    Some(Message::Restart(wish)) => queue.restarts.push(wish),
                    Some(Message::Restarted(reply)) => queue.restarts.heard(reply),
                    None => {}
                },
                None => return,
            },
            _ = ask.tick() => {
                if !matches!(timeout(CONNECT_WITHIN, sink.ping::<redis::Value>()).await, Ok(Ok(_))) {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_notice_is_read_as_it_was_written() {
        for id in ["64c0a1e0f1a2b3c4d5e60001", "a \u{0}\"\n", &"\u{1}".repeat(MAX_ID_BYTES)] {
            let client = ClientId::new(id);
            assert_eq!(read(config(&client).as_bytes()), Some(Message::Config(client.clone())));
            assert_eq!(read(try_now(&client).as_bytes()), Some(Message::TryNow(client)));
        }
        assert_eq!(read(decisions().as_bytes()), Some(Message::Decisions));
        let long = format!("{{\"config\":\"{}\"}}", "a".repeat(7 * MAX_ID_BYTES));
        for payload in ["", "{}", "[]", "{\"config\":5}", "{\"other\":\"a\"}", "\"other\"", &long] {
            assert_eq!(read(payload.as_bytes()), None, "{payload}");
        }
    }

    #[test]
    fn a_client_waits_once_and_too_many_are_all() {
        let queue = NoticeQueue::default();
        let next = || queue.next().now_or_never();
        for client in ["b", "a", "b"] {
            queue.push(ClientId::new(client));
        }
        assert_eq!(next(), Some(ConfigNotice::Changed(ClientId::new("a"))));
        assert_eq!(next(), Some(ConfigNotice::Changed(ClientId::new("b"))));
        assert_eq!(next(), None);
        for client in 0..=MAX_WAITING {
            queue.push(ClientId::new(&client.to_string()));
        }
        assert_eq!((next(), next()), (Some(ConfigNotice::Missed), None));
    }
}
