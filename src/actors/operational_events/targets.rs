//! Where operational events are handed on to.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::forwarder::{Refusal, Target};
use crate::domain::delivery::{self, FailureClass, Outcome};
use crate::domain::operational_event::{NumberedEvent, OperatorWebhook};
use crate::ports::LocalBoxFuture;
use crate::ports::clock::Clock;
use crate::ports::operational_events::EventTopic;
use crate::ports::webhook_sender::{WebhookSender, WebhookSenders};

/// An event that the operator's webhook refuses by its own fault this often is passed over: the next ones matter too.
const REFUSED_AT_MOST: u32 = 10;

/// The topic.
pub struct ToTopic(pub Arc<dyn EventTopic>);

impl Target for ToTopic {
    const NAME: &'static str = "topic";

    fn take(&self, events: Vec<NumberedEvent>) -> LocalBoxFuture<'_, Result<usize, Refusal>> {
        Box::pin(async move {
            let count = events.len();
            let appended = self.0.append(events).await;
            appended.map(|()| count).map_err(|err| Refusal { why: err.to_string(), wait: None })
        })
    }
}

/// The operator's webhook: one request an event.
pub struct ToWebhook {
    webhook: OperatorWebhook,
    sender: Rc<dyn WebhookSender>,
    clock: Arc<dyn Clock>,
    /// How often the event at hand was refused by its own fault.
    refused: Cell<u32>,
}

impl ToWebhook {
    /// Connects when there is something to tell.
    pub fn new(webhook: OperatorWebhook, senders: &dyn WebhookSenders, clock: Arc<dyn Clock>) -> Self {
        Self { webhook, sender: senders.open(), clock, refused: Cell::new(0) }
    }
}

impl Target for ToWebhook {
    const NAME: &'static str = "webhook";

    fn take(&self, events: Vec<NumberedEvent>) -> LocalBoxFuture<'_, Result<usize, Refusal>> {
        Box::pin(async move {
            let Some(event) = events.first() else { return Ok(0) };
            let request = event.request(&self.webhook, self.clock.now_ms());
            let Some(answer) = self.sender.send(request, Rc::new(|| true)).await else {
                return Err(Refusal { why: "not started".to_owned(), wait: None });
            };
            let outcome = delivery::classify(answer.as_ref().map_err(|err| err.reason), self.clock.now_ms());
            let failure = match outcome {
                Outcome::Delivered => {
                    self.refused.set(0);
                    return Ok(1);
                }
                Outcome::Gone => return Err(Refusal { why: "status_410".to_owned(), wait: None }),
                Outcome::Failed(failure) => failure,
            };
            if failure.class == FailureClass::Payload {
                self.refused.set(self.refused.get() + 1);
                if self.refused.get() >= REFUSED_AT_MOST {
                    log::error!(
                        "operational event is passed over: the operator's webhook refuses it err={} event={}",
                        failure.reason,
                        event.id
                    );
                    self.refused.set(0);
                    return Ok(1);
                }
            }
            Err(Refusal { why: failure.reason, wait: failure.retry_after })
        })
    }
}
