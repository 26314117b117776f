//! To whom a change goes, and as what.

use std::collections::HashSet;

use super::change_event::{ChangeEvent, Op};
use super::config::{BodyFormat, ClientId, Status};
use super::guard::{Subscriber, WhenBlocked};

/// What routing looks at in a change. Clients may come twice.
#[derive(Debug, Clone, Copy)]
pub struct RoutingInput<'a> {
    /// The operation.
    pub op: Op,
    /// The database, with the platform's prefix.
    pub db: &'a str,
    /// The collection.
    pub collection: &'a str,
    /// Whether the document after the change is known. Never for a delete.
    pub has_after: bool,
    /// Whether the document before the change is known.
    pub has_before: bool,
    /// The clients that may see the document: of the image after the change, for a delete of the one before.
    pub clients: &'a [ClientId],
    /// The clients of the image before the change.
    pub before_clients: &'a [ClientId],
    /// The clients of the image before the change that are not in the one after.
    pub removed_clients: &'a [ClientId],
    /// Whether it is a document of this service's own configs: they hold secrets.
    pub is_client_config: bool,
}

impl<'a> RoutingInput<'a> {
    /// What routing looks at in this change. `mongo_prefix` is the platform's prefix of db names.
    pub fn of(event: &'a ChangeEvent, mongo_prefix: &str) -> Self {
        Self {
            op: event.op,
            db: &event.db,
            collection: &event.collection,
            has_after: event.after.is_some(),
            has_before: event.before.is_some(),
            clients: &event.clients,
            before_clients: &event.before_clients,
            removed_clients: &event.removed_clients,
            is_client_config: event.is_client_config(mongo_prefix),
        }
    }
}

/// What an operator decides about routing.
#[derive(Debug, Clone, Copy)]
pub struct RoutingSettings<'a> {
    /// Whether a client that lost access is told by a delete.
    pub revoke: bool,
    /// The platform's prefix of db names, `wnx`: filter patterns are written without it.
    pub mongo_prefix: &'a str,
    /// What becomes of changes for clients whose owner is blocked.
    pub blocked: WhenBlocked,
}

/// What becomes of a change for one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// For whom.
    pub client: ClientId,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// What becomes of a change for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is sent.
    Send {
        /// As what.
        change: SentAs,
        /// Whether the image before the change belongs into the body, as far as it is known.
        include_before: bool,
        /// The form of the body.
        format: BodyFormat,
    },
    /// It is not sent, and counted.
    Skip(SkipReason),
}

/// As what a client gets a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SentAs {
    /// As it is.
    Change,
    /// As a delete without `after`: the client lost access to the document.
    Revocation,
}

/// Why a change is not sent, to a client or to anybody. `as_str` is the `reason` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SkipReason {
    /// To anybody: a document of the service's own configs.
    ClientConfig,
    /// To anybody: the document after the change is not known; its delete follows.
    NoAfterImage,
    /// To anybody: a delete whose document before the change is not known, so neither are its clients.
    NoPreImage,
    /// To anybody: the document names no clients.
    NoClients,
    /// The client has no config.
    NoConfig,
    /// The client's config is soft-deleted.
    Deleted,
    /// The client's config is INACTIVE.
    Inactive,
    /// The client's filter does not want it.
    Filtered,
    /// The client lost access, and the setting `revoke` is off.
    Revoked,
    /// The client's owner is blocked.
    OwnerBlocked,
}

impl SkipReason {
    /// The label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientConfig => "client_config",
            Self::NoAfterImage => "no_after_image",
            Self::NoPreImage => "no_pre_image",
            Self::NoClients => "no_clients",
            Self::NoConfig => "no_config",
            Self::Deleted => "deleted",
            Self::Inactive => "inactive",
            Self::Filtered => "filtered",
            Self::Revoked => "revoked",
            Self::OwnerBlocked => "owner_blocked",
        }
    }
}

/// Decides for each client of a change, each named once, in the order of the document. `lookup` finds a
/// client; what it does not find is skipped, so whoever calls has looked well before.
///
/// # Errors
/// The change goes to nobody, whatever the configs say.
pub fn route(
    input: &RoutingInput<'_>,
    lookup: impl Fn(&ClientId) -> Option<Subscriber>,
    settings: &RoutingSettings<'_>,
) -> Result<Vec<Decision>, SkipReason> {
    check_event(input)?;
    let before: HashSet<_> = input.before_clients.iter().collect();
    let kept = input.clients.iter().map(|client| (client, SentAs::Change));
    let removed = input.removed_clients.iter().map(|client| (client, SentAs::Revocation));
    let mut seen = HashSet::new();
    let decisions = kept.chain(removed).filter(|(client, _)| seen.insert(*client)).map(|(client, change)| {
        let verdict = match admit(input, change, lookup(client).as_ref(), settings) {
            Ok(format) => {
                Verdict::Send { change, include_before: includes_before(input, &before, client), format }
            }
            Err(reason) => Verdict::Skip(reason),
        };
        Decision { client: client.clone(), verdict }
    });
    Ok(decisions.collect())
}

fn check_event(input: &RoutingInput<'_>) -> Result<(), SkipReason> {
    if input.is_client_config {
        return Err(SkipReason::ClientConfig);
    }
    match input.op {
        Op::Delete if !input.has_before => return Err(SkipReason::NoPreImage),
        Op::Create | Op::Update | Op::Read if !input.has_after => return Err(SkipReason::NoAfterImage),
        _ => {}
    }
    if input.clients.is_empty() && input.removed_clients.is_empty() {
        return Err(SkipReason::NoClients);
    }
    Ok(())
}

/// The form in which a client gets the change, or why it does not.
fn admit(
    input: &RoutingInput<'_>,
    change: SentAs,
    client: Option<&Subscriber>,
    settings: &RoutingSettings<'_>,
) -> Result<BodyFormat, SkipReason> {
    let op = match change {
        SentAs::Change => input.op,
        SentAs::Revocation if settings.revoke => Op::Delete,
        SentAs::Revocation => return Err(SkipReason::Revoked),
    };
    let client = client.ok_or(SkipReason::NoConfig)?;
    let config = client.config();
    if config.deleted {
        return Err(SkipReason::Deleted);
    }
    if config.status == Status::Inactive {
        return Err(SkipReason::Inactive);
    }
    if !config.filter.admits(input.db, input.collection, op, settings.mongo_prefix) {
        return Err(SkipReason::Filtered);
    }
    // The last question: what it counts is what the block alone keeps away.
    if client.blocked().is_some() && settings.blocked == WhenBlocked::Skip {
        return Err(SkipReason::OwnerBlocked);
    }
    // A config that is active but faulty is routed: delivery holds what it cannot send.
    Ok(config.format)
}

/// A client that gains a document never sees an image from before; a create has none.
fn includes_before(input: &RoutingInput<'_>, before: &HashSet<&ClientId>, client: &ClientId) -> bool {
    input.has_before && matches!(input.op, Op::Update | Op::Delete) && before.contains(client)
}

#[cfg(test)]
mod tests;
