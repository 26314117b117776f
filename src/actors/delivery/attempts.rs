//! What is remembered of attempts: of all the last few, in memory; of those that say something, in the store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use bytes::Bytes;

use super::WebhookDeliveryActor;
use super::lanes::{Entry, Origin};
use crate::domain::attempt::{Attempt, answer_text};
use crate::domain::config::{ClientId, DeliverySettings};
use crate::domain::delivery::{Answer, Outcome};
use crate::domain::transfer::EventId;
use crate::ports::webhook_sender::SendError;

/// Deliveries of a client that are remembered in memory.
const RECENT: usize = 20;

/// The last ordinary deliveries of a client: nothing is written of these.
#[derive(Default)]
pub(super) struct Recent(VecDeque<Delivered>);

/// A delivery, with what makes an [`Attempt`] of it when somebody asks.
struct Delivered {
    at_ms: i64,
    event_id: EventId,
    document: Arc<str>,
    attempt: u32,
    status: u16,
    latency: Duration,
    excerpt: Bytes,
    /// By which it was sent: the answer may show nothing of their secrets.
    settings: Arc<DeliverySettings>,
}

impl Delivered {
    fn attempt(&self, client: &ClientId) -> Attempt {
        Attempt {
            at_ms: self.at_ms,
            client: client.clone(),
            event_id: self.event_id.clone(),
            document: self.document.clone(),
            attempt: self.attempt,
            delivered: true,
            status: Some(self.status),
            reason: String::new(),
            latency_ms: u64::try_from(self.latency.as_millis()).unwrap_or(u64::MAX),
            answer: answer_text(&self.excerpt, &self.settings),
        }
    }
}

impl WebhookDeliveryActor {
    /// Remembers an attempt that has ended. A failure is recorded, and a delivery that follows one; others are many, and say little.
    pub(super) fn note_attempt(
        &mut self,
        entry: &Entry,
        result: &Result<Answer, SendError>,
        outcome: &Outcome,
        took: Duration,
        settings: Arc<DeliverySettings>,
    ) {
        let attempt = match entry.origin {
            Origin::Live { .. } => 1,
            Origin::Row { attempts, .. } => attempts.saturating_add(1),
        };
        let (at_ms, transfer) = (self.now_ms(), &entry.transfer);
        match (result, outcome) {
            (Ok(answer), Outcome::Delivered) => {
                let delivered = Delivered {
                    at_ms,
                    event_id: transfer.event_id.clone(),
                    document: transfer.document.clone(),
                    attempt,
                    status: answer.status,
                    latency: took,
                    excerpt: answer.excerpt.clone(),
                    settings,
                };
                if attempt > 1 || self.life.state.failing_since_ms.is_some() {
                    return self.services.attempts.record(delivered.attempt(self.client()));
                }
                if self.recent.0.len() == RECENT {
                    self.recent.0.pop_front();
                }
                self.recent.0.push_back(delivered);
            }
            _ => {
                let reason = match outcome {
                    Outcome::Failed(failure) => failure.reason.clone(),
                    Outcome::Gone | Outcome::Delivered => "status_410".to_owned(),
                };
                let answer = match result {
                    Ok(answer) => answer_text(&answer.excerpt, &settings),
                    Err(err) => answer_text(err.detail.as_bytes(), &settings),
                };
                self.services.attempts.record(Attempt {
                    at_ms,
                    client: self.client().clone(),
                    event_id: transfer.event_id.clone(),
                    document: transfer.document.clone(),
                    attempt,
                    delivered: false,
                    status: result.as_ref().ok().map(|answer| answer.status),
                    reason,
                    latency_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                    answer,
                });
            }
        }
    }
}

/// Asks for the last deliveries that nothing was written of, the newest first.
#[derive(Message)]
#[rtype(result = "Vec<Attempt>")]
pub struct RecentDeliveries;

impl Handler<RecentDeliveries> for WebhookDeliveryActor {
    type Result = Vec<Attempt>;

    fn handle(&mut self, _: RecentDeliveries, _: &mut Self::Context) -> Self::Result {
        self.recent.0.iter().rev().map(|delivered| delivered.attempt(self.client())).collect()
    }
}
