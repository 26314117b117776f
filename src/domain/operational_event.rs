//! What happened that the operator wants to know of: a webhook that fails, a client that is switched off, an actor that broke.

use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use super::client_state::{ClientState, Phase};
use super::config::{ClientId, SigningKey};
use super::delivery::{USER_AGENT, WebhookRequest};

/// Characters of a reason; more are cut off.
const REASON: usize = 300;

/// What happened. `as_str` is the word that everybody reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    /// A webhook fails so that it is left alone.
    Degraded,
    /// A webhook that had failed takes changes again.
    Recovered,
    /// A client is about to be switched off: a part of the time that it may fail has passed.
    DisableWarning,
    /// A client was switched off.
    Disabled,
    /// A client that was off, or whose config could not be used, goes on.
    Enabled,
    /// A payload is not tried any more.
    DeadLetter,
    /// An actor broke, and is started again.
    ActorRestarted,
    /// An actor broke too often.
    ActorFailed,
    /// More waits for a client than it may have waiting.
    Overflow,
    /// Source records were gone before they were read.
    SourceGap,
    /// Transfers were gone before they were delivered.
    TransferGap,
    /// An operator stopped a client's delivery.
    Paused,
    /// An operator let a client's delivery go on.
    Resumed,
    /// A resync or a replay ended, in whatever way.
    HeavyJobEnded,
}

impl Happening {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Degraded,
        Self::Recovered,
        Self::DisableWarning,
        Self::Disabled,
        Self::Enabled,
        Self::DeadLetter,
        Self::ActorRestarted,
        Self::ActorFailed,
        Self::Overflow,
        Self::SourceGap,
        Self::TransferGap,
        Self::Paused,
        Self::Resumed,
        Self::HeavyJobEnded,
    ];

    /// The word in the store, in the API, in the topic and at the operator's webhook.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Degraded => "degraded",
            Self::Recovered => "recovered",
            Self::DisableWarning => "disable_warning",
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
            Self::DeadLetter => "dead_letter",
            Self::ActorRestarted => "actor_restarted",
            Self::ActorFailed => "actor_failed",
            Self::Overflow => "overflow",
            Self::SourceGap => "source_gap",
            Self::TransferGap => "transfer_gap",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::HeavyJobEnded => "heavy_job_ended",
        }
    }
}

impl FromStr for Happening {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|happening| happening.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is no operational event"))
    }
}

/// Something that happened. Holds no secret and no body: it goes to whoever watches the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationalEvent {
    /// What.
    pub happening: Happening,
    /// To whom; `None`: not to a single client.
    pub client: Option<ClientId>,
    /// When, milliseconds since 1970.
    pub at_ms: i64,
    /// Why: a label such as `status_503`, or some words.
    pub reason: String,
    /// More of it, by name.
    pub details: Map<String, Value>,
}

impl OperationalEvent {
    /// It happened at this time, to nobody in particular, for no reason that is known.
    pub fn new(happening: Happening, at_ms: i64) -> Self {
        Self { happening, client: None, at_ms, reason: String::new(), details: Map::new() }
    }

    /// It happened to a client.
    #[must_use]
    pub fn of(self, client: &ClientId) -> Self {
        Self { client: Some(client.clone()), ..self }
    }

    /// Why it happened; the first 300 characters are kept.
    #[must_use]
    pub fn because(self, reason: &str) -> Self {
        Self { reason: reason.chars().take(REASON).collect(), ..self }
    }

    /// More of it.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// What the step from one state of a client to the next is to its operator, if anything.
    pub fn of_step(
        client: &ClientId,
        before: &ClientState,
        after: &ClientState,
        now_ms: i64,
    ) -> Option<Self> {
        use Phase::{Degraded, Disabled, Draining, Healthy, Paused};
        let lasted_ms = now_ms.saturating_sub(before.since_ms);
        let event = |happening| Self::new(happening, now_ms).of(client);
        match (before.phase, after.phase) {
            (Degraded, Degraded) | (Paused, Paused) => None,
            (_, Paused) => Some(event(Happening::Paused).because(&after.reason)),
            (Paused, _) => Some(event(Happening::Resumed).with("paused_for_ms", lasted_ms)),
            (_, Degraded) => Some(
                event(Happening::Degraded)
                    .because(&after.reason)
                    .with("failing_since_ms", after.failing_since_ms)
                    .with("next_attempt_at_ms", after.next_attempt_at_ms),
            ),
            (Degraded, Healthy | Draining) => {
                Some(event(Happening::Recovered).because(&before.reason).with("degraded_for_ms", lasted_ms))
            }
            (Disabled, Healthy | Draining) => {
                Some(event(Happening::Enabled).because(&before.reason).with("disabled_for_ms", lasted_ms))
            }
            _ => None,
        }
    }

    /// Stands for all of it: what is recorded twice, because nobody knows whether the first time was durable, is one event.
    pub fn fingerprint(&self) -> [u8; 16] {
        let client = self.client.as_ref().map(ClientId::as_str);
        let content = json!([self.happening.as_str(), client, self.at_ms, self.reason, self.details]);
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&Sha256::digest(content.to_string())[..16]);
        fingerprint
    }
}

/// An event with the number that the store gave it: it rises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedEvent {
    /// Its number.
    pub id: i64,
    /// What happened.
    pub event: OperationalEvent,
}

/// Where an operator is told of events.
#[derive(Debug, Clone)]
pub struct OperatorWebhook {
    /// http or https, with a host. May hold a token.
    pub url: Url,
    /// Signs the requests.
    pub key: Option<SigningKey>,
    /// For a whole request.
    pub timeout: std::time::Duration,
}

impl NumberedEvent {
    /// The form in which everybody gets it: the API, the topic, the operator's webhook.
    pub fn to_json(&self) -> Value {
        let OperationalEvent { happening, client, at_ms, reason, details } = &self.event;
        json!({
            "id": self.id,
            "type": happening.as_str(),
            "at_ms": at_ms,
            "client": client,
            "reason": reason,
            "details": details,
        })
    }

    /// The request that tells it to an operator: after Standard Webhooks, its id the same at every attempt.
    pub fn request(&self, webhook: &OperatorWebhook, now_ms: i64) -> WebhookRequest {
        let (id, body) = (format!("op_{}", self.id), self.to_json().to_string());
        let timestamp_s = now_ms.div_euclid(1000);
        let signature = webhook.key.as_ref().and_then(|key| key.sign(&id, timestamp_s, body.as_bytes()));
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("user-agent", USER_AGENT.to_owned()),
            ("webhook-id", id),
            ("webhook-timestamp", timestamp_s.to_string()),
        ];
        headers.extend(signature.map(|signature| ("webhook-signature", signature)));
        WebhookRequest {
            url: webhook.url.clone(),
            headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            body: body.into(),
            timeout: webhook.timeout,
        }
    }
}

#[cfg(test)]
mod tests;
