//! A transfer that the stash will never take becomes a dead letter of the log: it is visible there, and holds up nobody.

use std::time::Duration;

use super::delivery::DeliveryServices;
use crate::domain::operational_event::{Happening, OperationalEvent};
use crate::domain::transfer::Transfer;
use crate::ports::StoreError;
use crate::ports::event_log::{DeadLetter, NewRecord, STASH_REFUSED};

/// Documents of this collection may hold secrets: nothing of them is kept but their place.
const SECRET_TOPIC: &str = "-context.configs";

/// The wait after a store error; it doubles up to the second.
const WAIT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Keeps a transfer as a dead letter, however long the log is away. `why` is what the stash said.
pub(super) async fn keep_refused(services: &DeliveryServices, transfer: &Transfer, why: &str) {
    log::error!(
        "stash refuses a payload, kept as dead letter err={why} event={} client={}",
        transfer.event_id,
        transfer.client
    );
    services.metrics.stash_refused.inc();
    let event = OperationalEvent::new(Happening::DeadLetter, services.clock.now_ms())
        .of(&transfer.client)
        .because(STASH_REFUSED)
        .with("event_id", transfer.event_id.as_str())
        .with("document", &*transfer.document);
    services.events.record(event);
    let mut letter = dead_letter(transfer);
    let mut wait = WAIT.0;
    loop {
        match services.log.keep_dead(vec![letter.clone()]).await {
            Ok(()) => return,
            // Then at least its place is kept.
            Err(StoreError::Refused(_)) if letter.record.is_some() => letter.record = None,
            Err(StoreError::Refused(err)) => {
                log::error!("dead letter is refused, too err={err} event={}", transfer.event_id);
                return;
            }
            Err(err) => {
                if wait == WAIT.0 {
                    log::error!("dead letter waits for the log err={err} event={}", transfer.event_id);
                }
                services.metrics.store_errors.with_label_values(&["log"]).inc();
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(WAIT.1);
            }
        }
    }
}

fn dead_letter(transfer: &Transfer) -> DeadLetter {
    let topic = transfer.source.topic.clone();
    let record = (!topic.ends_with(SECRET_TOPIC)).then(|| NewRecord {
        topic,
        key: None,
        value: Some(transfer.body.clone()),
        headers: vec![
            ("client".to_owned(), transfer.client.as_str().to_owned().into()),
            ("event".to_owned(), transfer.event_id.as_str().to_owned().into()),
        ],
    });
    DeadLetter {
        position: transfer.source.clone(),
        timestamp_ms: transfer.ts_ms,
        reason: STASH_REFUSED.to_owned(),
        record,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::config::ClientId;
    use crate::domain::transfer::{
        DocumentHash, EventId, NewTransfer, Sequence, SourcePosition, TransferKind,
    };

    fn letter(topic: &str) -> DeadLetter {
        let content = NewTransfer {
            client: ClientId::new("a"),
            document: "d".into(),
            document_hash: DocumentHash([1; 16]),
            event_id: EventId::from_stored("evt_a"),
            kind: TransferKind::Live,
            source: SourcePosition { topic: topic.into(), partition: 0, offset: 7 },
            traceparent: None,
            ts_ms: 5,
            body: Bytes::from_static(b"{}"),
        };
        dead_letter(&Transfer { sequence: Sequence { incarnation: 1, partition: 0, offset: 3 }, content })
    }

    #[test]
    fn a_dead_letter_names_its_source_and_keeps_the_body_unless_it_may_be_secret() {
        let plain = letter("mongo.wnx-identity.users");
        assert_eq!((plain.position.offset, plain.timestamp_ms, plain.reason.as_str()), (7, 5, STASH_REFUSED));
        assert_eq!(plain.record.unwrap().value.unwrap(), "{}");
        assert_eq!(letter("mongo.wnx-context.configs").record, None);
    }
}
