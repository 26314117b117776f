use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::domain::config::{ClientConfig, read_value};
use crate::domain::decision::{Decision as Made, Subject};
use crate::domain::guard::{Decided, DecisionList};

const SETTINGS: RoutingSettings<'_> =
    RoutingSettings { revoke: true, mongo_prefix: "wnx", blocked: WhenBlocked::Skip };

/// The config that a client's name asks for.
fn config(client: &ClientId) -> Option<Arc<ClientConfig>> {
    let (status, deleted, value) = match client.as_str() {
        "unknown" => return None,
        "inactive" => (Status::Inactive, false, r#"{"webhook": "http://a.test"}"#),
        "deleted" => (Status::Active, true, r#"{"webhook": "http://a.test"}"#),
        "faulty" => (Status::Active, false, r#"{"webhook": "nonsense", "format": "extended"}"#),
        "extended" => (Status::Active, false, r#"{"webhook": "http://a.test", "format": "extended"}"#),
        "owned-inactive" => (Status::Inactive, false, r#"{"webhook": "http://a.test"}"#),
        "owned-faulty" => (Status::Active, false, "{}"),
        "elsewhere" | "owned-elsewhere" => {
            (Status::Active, false, r#"{"webhook": "http://a.test", "filter": {"include": ["financial.*"]}}"#)
        }
        "deletes" => (Status::Active, false, r#"{"webhook": "http://a.test", "filter": {"ops": ["d"]}}"#),
        _ => (Status::Active, false, r#"{"webhook": "http://a.test"}"#),
    };
    let owner = client.as_str().starts_with("owned").then(|| "bad".to_owned());
    Some(Arc::new(read_value(client, status, deleted, 1, 0, owner, value)))
}

/// The client of that config, with the owner `bad` blocked.
fn subscriber(client: &ClientId) -> Option<Subscriber> {
    let bad = Made::new(Subject::parse("bad").unwrap(), "ops", "", 0).unwrap();
    let decided = Decided { blocked: DecisionList::new([bad]), ..Decided::default() };
    config(client).map(|config| decided.judge(&config))
}

fn ids(names: &[&str]) -> Vec<ClientId> {
    names.iter().map(|name| ClientId::new(name)).collect()
}

/// One change and what is said of it: `client:send`, with `+before`, or `client:<reason>`.
struct Case {
    op: Op,
    has_after: bool,
    has_before: bool,
    clients: Vec<ClientId>,
    before_clients: Vec<ClientId>,
    removed_clients: Vec<ClientId>,
    is_client_config: bool,
}

impl Case {
    fn update(clients: &[&str], before: &[&str]) -> Self {
        let removed: Vec<_> = before.iter().copied().filter(|client| !clients.contains(client)).collect();
        Self {
            op: Op::Update,
            has_after: true,
            has_before: true,
            clients: ids(clients),
            before_clients: ids(before),
            removed_clients: ids(&removed),
            is_client_config: false,
        }
    }

    fn create(op: Op, clients: &[&str]) -> Self {
        Self { op, has_before: false, ..Self::update(clients, &[]) }
    }

    fn delete(clients: &[&str]) -> Self {
        Self { op: Op::Delete, has_after: false, ..Self::update(clients, clients) }
    }

    fn route(&self, settings: &RoutingSettings<'_>) -> Result<Vec<Decision>, SkipReason> {
        let input = RoutingInput {
            op: self.op,
            db: "wnx-identity",
            collection: "users",
            has_after: self.has_after,
            has_before: self.has_before,
            clients: &self.clients,
            before_clients: &self.before_clients,
            removed_clients: &self.removed_clients,
            is_client_config: self.is_client_config,
        };
        route(&input, subscriber, settings)
    }

    fn said(&self) -> String {
        self.said_with(&SETTINGS)
    }

    fn said_with(&self, settings: &RoutingSettings<'_>) -> String {
        let decisions = match self.route(settings) {
            Ok(decisions) => decisions,
            Err(reason) => return reason.as_str().to_owned(),
        };
        let words = decisions.iter().map(|Decision { client, verdict }| match verdict {
            Verdict::Skip(reason) => format!("{client}:{}", reason.as_str()),
            Verdict::Send { change, include_before, format } => format!(
                "{client}:{}{}{}",
                if *change == SentAs::Change { "change" } else { "revocation" },
                if *include_before { "+before" } else { "" },
                if *format == BodyFormat::Extended { "+extended" } else { "" },
            ),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn clients_of_the_image_get_the_change() {
    assert_eq!(Case::create(Op::Create, &["a", "b"]).said(), "a:change b:change");
    assert_eq!(Case::create(Op::Read, &["a"]).said(), "a:change");
    assert_eq!(Case::update(&["a"], &["a"]).said(), "a:change+before");
    assert_eq!(Case::delete(&["a"]).said(), "a:change+before");
}

#[test]
fn who_gains_a_document_sees_nothing_from_before() {
    assert_eq!(Case::update(&["a", "new"], &["a"]).said(), "a:change+before new:change");
}

#[test]
fn who_loses_a_document_is_told_by_a_delete() {
    assert_eq!(Case::update(&["a"], &["a", "lost"]).said(), "a:change+before lost:revocation+before");
    assert_eq!(Case::update(&[], &["lost"]).said(), "lost:revocation+before");
    let silent = RoutingSettings { revoke: false, ..SETTINGS };
    assert_eq!(Case::update(&["a"], &["a", "lost"]).said_with(&silent), "a:change+before lost:revoked");
}

#[test]
fn skips_are_told_by_reason() {
    assert_eq!(
        Case::create(Op::Create, &["unknown", "inactive", "deleted", "elsewhere", "deletes"]).said(),
        "unknown:no_config inactive:inactive deleted:deleted elsewhere:filtered deletes:filtered"
    );
    assert_eq!(Case::update(&[], &["inactive", "unknown"]).said(), "inactive:inactive unknown:no_config");
}

#[test]
fn clients_of_a_blocked_owner_get_nothing_or_it_is_held_for_them() {
    let case = Case::update(&["a", "owned", "owned-faulty"], &["a", "owned-lost"]);
    assert_eq!(
        case.said(),
        "a:change+before owned:owner_blocked owned-faulty:owner_blocked owned-lost:owner_blocked"
    );
    let hold = RoutingSettings { blocked: WhenBlocked::Hold, ..SETTINGS };
    assert_eq!(
        case.said_with(&hold),
        "a:change+before owned:change owned-faulty:change owned-lost:revocation+before"
    );
    // Only what the block alone keeps away counts as blocked.
    let others = Case::update(&["owned-inactive", "owned-elsewhere"], &[]);
    assert_eq!(others.said(), "owned-inactive:inactive owned-elsewhere:filtered");
}

#[test]
fn a_filter_judges_a_revocation_as_a_delete() {
    assert_eq!(Case::update(&["deletes"], &["deletes"]).said(), "deletes:filtered");
    assert_eq!(Case::update(&["a"], &["a", "deletes"]).said(), "a:change+before deletes:revocation+before");
}

#[test]
fn an_active_but_faulty_config_is_routed_in_its_form() {
    assert_eq!(
        Case::create(Op::Create, &["faulty", "extended"]).said(),
        "faulty:change+extended extended:change+extended"
    );
}

#[test]
fn some_changes_go_to_nobody() {
    let config = Case { is_client_config: true, ..Case::update(&["a"], &["a", "lost"]) };
    assert_eq!(config.said(), "client_config");
    let no_after = Case { has_after: false, ..Case::update(&["a"], &["a", "lost"]) };
    assert_eq!(no_after.said(), "no_after_image");
    assert_eq!(Case { has_after: false, ..Case::create(Op::Create, &["a"]) }.said(), "no_after_image");
    assert_eq!(Case { has_before: false, ..Case::delete(&[]) }.said(), "no_pre_image");
    assert_eq!(Case::delete(&[]).said(), "no_clients");
    assert_eq!(Case::update(&[], &[]).said(), "no_clients");
}

#[test]
fn an_update_without_pre_image_goes_out_without_before() {
    let case = Case { has_before: false, before_clients: vec![], ..Case::update(&["a"], &["a"]) };
    assert_eq!(case.said(), "a:change");
}

#[test]
fn a_client_that_comes_twice_is_named_once() {
    let mut case = Case::update(&["a", "b", "a"], &["a", "a", "lost", "lost"]);
    assert_eq!(case.said(), "a:change+before b:change lost:revocation+before");
    case.removed_clients = ids(&["a", "lost"]);
    assert_eq!(case.said(), "a:change+before b:change lost:revocation+before");
}

proptest! {
    #[test]
    fn every_client_is_named_exactly_once(
        op in prop::sample::select(vec![Op::Create, Op::Update, Op::Delete, Op::Read]),
        clients in prop::collection::vec("[a-d]|unknown|inactive", 0..8),
        before in prop::collection::vec("[a-d]|unknown|inactive", 0..8),
        revoke: bool,
    ) {
        let names: Vec<_> = clients.iter().map(String::as_str).collect();
        let before: Vec<_> = before.iter().map(String::as_str).collect();
        let case = Case { op, has_after: op != Op::Delete, ..Case::update(&names, &before) };
        if let Ok(decisions) = case.route(&RoutingSettings { revoke, ..SETTINGS }) {
            let named: Vec<_> = decisions.iter().map(|decision| &decision.client).collect();
            let wanted: HashSet<_> = case.clients.iter().chain(&case.removed_clients).collect();
            prop_assert_eq!(named.len(), wanted.len());
            prop_assert_eq!(named.into_iter().collect::<HashSet<_>>(), wanted);
            for Decision { client, verdict } in &decisions {
                if let Verdict::Send { include_before: true, .. } = verdict {
                    prop_assert!(case.before_clients.contains(client));
                }
            }
        }
    }
}
