//! The guard: whose work is not done, and what that makes of a client.
//!
//! Routing and delivery get a client's config from here, together with what was decided about its owner: neither can forget to ask.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use super::config::{ClientConfig, ConfigFault, DeliverySettings, Status};
use super::decision::{Decision, Subject};

/// What becomes of a change for a client whose owner is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenBlocked {
    /// It is skipped, and counted.
    #[default]
    Skip,
    /// It is routed, and waits in the stash.
    Hold,
}

/// The decisions of a kind as of one moment. A copy costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecisionList(Arc<HashMap<Subject, Arc<Decision>>>);

impl DecisionList {
    /// The list of these.
    pub fn new(decisions: impl IntoIterator<Item = Decision>) -> Self {
        let named = decisions.into_iter().map(|made| (made.subject().clone(), Arc::new(made)));
        Self(Arc::new(named.collect()))
    }

    /// The decision about somebody; `None`: there is none.
    pub fn get(&self, subject: &str) -> Option<&Arc<Decision>> {
        self.0.get(subject)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What operators decided about clients and queues, as of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decided {
    /// The blocked owners.
    pub blocked: DecisionList,
    /// The paused clients.
    pub paused: DecisionList,
    /// The paused queues.
    pub queues: DecisionList,
}

impl Decided {
    /// The client of a config. One without an owner is never blocked.
    pub fn judge(&self, config: &Arc<ClientConfig>) -> Subscriber {
        Subscriber {
            blocked: config.owner.as_deref().and_then(|owner| self.blocked.get(owner)).cloned(),
            paused: self.paused.get(config.client.as_str()).cloned(),
            config: Arc::clone(config),
        }
    }
}

/// A client: its config, and what was decided about it and its owner. Made by [`Decided::judge`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    config: Arc<ClientConfig>,
    blocked: Option<Arc<Decision>>,
    paused: Option<Arc<Decision>>,
}

/// Where the changes of a client go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination<'a> {
    /// To its webhook.
    Webhook(&'a Arc<DeliverySettings>),
    /// They wait: its owner is blocked.
    Blocked(&'a Decision),
    /// They wait: the config is ACTIVE, and its value has a fault.
    Unusable(&'a ConfigFault),
    /// They wait: the config is INACTIVE.
    Inactive,
    /// Nowhere: the config is deleted.
    Gone,
}

impl Subscriber {
    /// Its config.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// The decision that blocks its owner.
    pub fn blocked(&self) -> Option<&Decision> {
        self.blocked.as_deref()
    }

    /// The decision that pauses it: its changes are routed, and wait.
    pub fn paused(&self) -> Option<&Decision> {
        self.paused.as_deref()
    }

    /// Whether its changes go to a webhook.
    pub fn is_served(&self) -> bool {
        self.paused.is_none() && matches!(self.destination(), Destination::Webhook(_))
    }

    /// Where its changes go.
    pub fn destination(&self) -> Destination<'_> {
        let config = &*self.config;
        match (config.deleted, config.status, &self.blocked, &config.delivery) {
            (true, ..) => Destination::Gone,
            (_, Status::Inactive, ..) => Destination::Inactive,
            (_, _, Some(decision), _) => Destination::Blocked(decision),
            (_, _, None, Err(fault)) => Destination::Unusable(fault),
            (_, _, None, Ok(settings)) => Destination::Webhook(settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::{ClientId, read_value};

    fn subscriber(owner: Option<&str>, status: Status, deleted: bool, value: &str) -> Subscriber {
        let blocked = Decision::new(Subject::parse("bad").unwrap(), "ops", "unpaid", 1).unwrap();
        let owner = owner.map(str::to_owned);
        let config = read_value(&ClientId::new("a"), status, deleted, 1, 0, owner, value);
        let decided = Decided { blocked: DecisionList::new([blocked]), ..Decided::default() };
        decided.judge(&Arc::new(config))
    }

    #[test]
    fn a_blocked_owner_has_no_webhook() {
        const USABLE: &str = r#"{"webhook": "http://a.test"}"#;
        let word = |owner, status, deleted, value| {
            let client = subscriber(owner, status, deleted, value);
            match client.destination() {
                Destination::Webhook(_) => "webhook",
                Destination::Blocked(_) => "blocked",
                Destination::Unusable(_) => "unusable",
                Destination::Inactive => "inactive",
                Destination::Gone => "gone",
            }
        };
        let bad = Some("bad");
        assert_eq!(word(bad, Status::Active, false, USABLE), "blocked");
        assert_eq!(word(bad, Status::Active, false, "{}"), "blocked");
        assert_eq!(word(bad, Status::Inactive, false, USABLE), "inactive");
        assert_eq!(word(bad, Status::Active, true, USABLE), "gone");
        for owner in [None, Some("good"), Some("BAD"), Some("")] {
            assert_eq!(word(owner, Status::Active, false, USABLE), "webhook");
            assert_eq!(word(owner, Status::Active, false, "{}"), "unusable");
        }
    }
}
