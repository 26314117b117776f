//! The contract of the audit log.

use std::sync::Arc;
use std::time::Duration;

use dispatcher::domain::access::{AccessRole, Caller};
use dispatcher::domain::audit::{ActionOutcome, AuditEntry, NewAction};
use dispatcher::ports::audit::{AuditLog, AuditPage, LARGEST_AUDIT_PAGE};
use dispatcher::ports::clock::{Clock as _, SystemClock};

use crate::fixture::Backend;

fn action(by: &str, role: AccessRole, action: &str, subject: &str) -> NewAction {
    NewAction::new(Caller { name: by.into(), role }, action.into(), subject.to_owned())
}

fn all() -> AuditPage {
    AuditPage { limit: 100, ..AuditPage::default() }
}

async fn list(log: &Arc<dyn AuditLog>, page: AuditPage) -> Vec<AuditEntry> {
    log.list(page).await.unwrap()
}

pub(crate) async fn an_action_is_there_before_it_ends(backend: &impl Backend) {
    let log = backend.open().await.audit;
    assert_eq!(list(&log, all()).await, []);
    let before_ms = SystemClock.now_ms() - 60_000;
    let id = log.begin(action("wall", AccessRole::Viewer, "pause_client", "a%00%2F")).await.unwrap();
    let begun = list(&log, all()).await;
    assert_eq!(begun.len(), 1);
    let AuditEntry { at_ms, .. } = begun[0];
    assert!((before_ms..before_ms + 120_000).contains(&at_ms), "{at_ms}");
    let expected = AuditEntry {
        id,
        at_ms,
        by: "wall".into(),
        role: AccessRole::Viewer,
        action: "pause_client".into(),
        subject: "a%00%2F".into(),
        status: None,
    };
    assert_eq!(begun[0], expected);
    assert_eq!(ActionOutcome::of(begun[0].status), ActionOutcome::Unknown);

    log.end(id, 403).await.unwrap();
    assert_eq!(list(&log, all()).await, [AuditEntry { status: Some(403), ..expected }]);
    // An entry that was purged meanwhile.
    log.end(id + 1, 200).await.unwrap();
    assert_eq!(list(&log, all()).await.len(), 1);
}

pub(crate) async fn actions_are_filtered_and_paged(backend: &impl Backend) {
    let log = backend.open().await.audit;
    let mut ids = Vec::new();
    for (by, name, subject) in [
        ("ann", "pause_client", "a"),
        ("ann", "resume_client", "a"),
        ("bob", "pause_client", "b"),
        ("ann", "clean_queue", ""),
    ] {
        ids.push(log.begin(action(by, AccessRole::Operator, name, subject)).await.unwrap());
    }
    assert!(ids.is_sorted_by(|one, other| one < other), "{ids:?}");
    let found = async |page: AuditPage| {
        let entries = list(&log, page).await;
        entries.iter().map(|entry| ids.iter().position(|id| *id == entry.id).unwrap()).collect::<Vec<_>>()
    };
    let of = |text: &str| Some(text.to_owned());
    assert_eq!(found(all()).await, [3, 2, 1, 0]);
    assert_eq!(found(AuditPage { by: of("ann"), ..all() }).await, [3, 1, 0]);
    assert_eq!(found(AuditPage { action: of("pause_client"), ..all() }).await, [2, 0]);
    assert_eq!(found(AuditPage { subject: of("a"), ..all() }).await, [1, 0]);
    assert_eq!(found(AuditPage { subject: of(""), ..all() }).await, [3]);
    let both = AuditPage { by: of("bob"), action: of("pause_client"), subject: of("a"), ..all() };
    assert_eq!(found(both).await, [0; 0]);
    assert_eq!(found(AuditPage { limit: 2, ..all() }).await, [3, 2]);
    assert_eq!(found(AuditPage { before: Some(ids[2]), limit: 1, ..all() }).await, [1]);
    assert_eq!(found(AuditPage { limit: 0, ..all() }).await, [0; 0]);
    assert_eq!(found(AuditPage { limit: LARGEST_AUDIT_PAGE + 5, ..all() }).await.len(), 4);
}

pub(crate) async fn old_actions_go_and_numbers_never_come_again(backend: &impl Backend) {
    let log = backend.open().await.audit;
    let mut last = 0;
    for number in 0..5 {
        last = log.begin(action("ann", AccessRole::Operator, "x", &number.to_string())).await.unwrap();
    }
    assert_eq!(log.purge(Duration::from_secs(3600), 100).await.unwrap(), 0);
    // Older than nothing: of an earlier millisecond.
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(log.purge(Duration::ZERO, 2).await.unwrap(), 2);
    let left = list(&log, all()).await;
    assert_eq!(left.len(), 3);
    assert_eq!(left[0].id, last, "the oldest go first");
    assert_eq!(log.purge(Duration::ZERO, 100).await.unwrap(), 3);
    let next = log.begin(action("ann", AccessRole::Operator, "x", "")).await.unwrap();
    assert!(next > last);
}

pub(crate) async fn actions_outlive_a_restart(backend: &impl Backend) {
    let stores = backend.open().await;
    let id = stores.audit.begin(action("ann", AccessRole::Operator, "x", "y")).await.unwrap();
    stores.close().await;
    let log = backend.open().await.audit;
    log.end(id, 204).await.unwrap();
    let entries = list(&log, all()).await;
    assert_eq!((entries.len(), entries[0].id, entries[0].status), (1, id, Some(204)));
}
