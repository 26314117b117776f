//! A transfer that broke this actor more than once is given up, before the actor goes on: it would break it again, and hold up all others.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;

use super::answers::dead_letter;
use super::{Rows, WebhookDeliveryActor};
use crate::actors::refused::keep_refused;
use crate::actors::stash::write_all;
use crate::domain::delivery::FailureClass;
use crate::domain::stash::{NewRow, RowFailure, StashWrite};
use crate::domain::transfer::Transfer;
use crate::ports::stash::StashBatch;
use crate::ports::{StoreError, StoreResult};

/// The reason of the dead letter.
const REASON: &str = "kills_actor";

/// The wait before the store is asked again that did not take them.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl WebhookDeliveryActor {
    /// Makes dead letters of these. The actor looks again what is known of its client when they are durable.
    pub(super) fn give_up(&mut self, killers: Vec<Arc<Transfer>>, ctx: &mut Context<Self>) {
        let (services, fence) = (self.services.clone(), self.inbox.fence().clone());
        let (client, ownership) = (self.client().clone(), self.ownership());
        self.rows_are(Rows { dead: true, ..self.inbox.standing().rows });
        let failure = RowFailure {
            class: FailureClass::Payload,
            reason: REASON.to_owned(),
            status: None,
            next_attempt_at_ms: self.now_ms(),
        };
        let row_failure = failure.clone();
        let write = async move {
            let mut results = Vec::new();
            for transfer in &killers {
                let row = NewRow { transfer: transfer.clone(), failure: None, claim: None };
                let dead =
                    StashWrite::Dead { event_id: transfer.event_id.clone(), failure: row_failure.clone() };
                let writes = vec![StashWrite::Insert(row), dead];
                let batch = StashBatch { client: client.clone(), ownership, lease: None, writes };
                let written = write_all(&services.stash_writes, vec![batch], &fence).await.pop();
                results.push(match written {
                    Some(Err(StoreError::Refused(why))) => {
                        keep_refused(&services, transfer, &why).await;
                        Ok(())
                    }
                    Some(written) => written,
                    None => Ok(()),
                });
            }
            (killers, results)
        };
        ctx.spawn(write.into_actor(self).map(move |(killers, results), actor, ctx| {
            let given_up: StoreResult<Vec<()>> = results.into_iter().collect();
            match given_up {
                Ok(_) => {
                    killers.iter().for_each(|transfer| actor.is_given_up(transfer, &failure));
                    actor.load(ctx);
                }
                Err(StoreError::Fenced(_)) if actor.inbox.fence().is_up() => {}
                Err(StoreError::Fenced(why)) => {
                    log::warn!("stash write is fenced err={why} client={}", actor.client());
                    actor.services.windows.lose(ownership);
                }
                Err(err) => {
                    log::error!("dead letter waits for the stash err={err} client={}", actor.client());
                    ctx.run_later(TRY_AGAIN, |actor, ctx| actor.load(ctx));
                }
            }
        }));
    }

    fn is_given_up(&self, transfer: &Transfer, failure: &RowFailure) {
        let client = self.client();
        log::error!("payload is a dead letter reason={REASON} event={} client={client}", transfer.event_id);
        self.services.metrics.stashed.with_label_values(&[REASON]).inc();
        let attempts = 0; // that came to an end
        self.services.events.record(dead_letter(transfer, failure, attempts, self.now_ms()));
        self.inbox.settle(transfer.sequence);
    }
}
