//! The contract of the client configs. The cases with documents in their hints are of a store behind which there is no
//! other; where the hint is only followed, the store's own tests tell what becomes of it.

use dispatcher::domain::config::Status;
use dispatcher::ports::client_configs::{ConfigHint, Put};

use crate::fixture::{Backend, client};

const T0: i64 = 1_764_435_600_000;

fn document(client: &str, version: i64, updated_at_ms: i64, webhook: &str) -> String {
    format!(
        r#"{{"_id":{{"$oid":"66aa0000cccc0000dddd0001"}},"key":"CQRS","eid":"{client}","status":"ACTIVE",
           "owner":"64e0c0de00000000000000a1","version":{version},"updated_at":{{"$date":{updated_at_ms}}},
           "deleted_at":null,"value":{{"webhook":"{webhook}"}}}}"#
    )
}

fn hint(document_id: &str, document: String) -> ConfigHint {
    ConfigHint { document_id: document_id.into(), document: Some(document), removed: false, ts_ms: T0 }
}

fn removed(document_id: &str, ts_ms: i64) -> ConfigHint {
    ConfigHint { document_id: document_id.into(), document: None, removed: true, ts_ms }
}

pub(crate) async fn put_creates_and_replaces(backend: &impl Backend) {
    let configs = backend.open().await.configs;
    let a = client("a \u{0}");
    assert!(configs.get(&a).await.unwrap().is_none());
    let value = r#"{"webhook":"http://a.test/","authorization":"Bearer x","unknown":[1]}"#;
    assert_eq!(configs.put(&a, Status::Active, value.into(), T0).await.unwrap(), Put::Created);
    let stored = configs.get(&a).await.unwrap().unwrap();
    assert_eq!((stored.value.as_str(), stored.config.version), (value, 1));
    assert_eq!((stored.config.status, stored.config.deleted), (Status::Active, false));
    assert_eq!(stored.config.updated_at_ms, T0);
    assert!(stored.config.delivery.is_ok());
    assert_eq!(configs.put(&a, Status::Inactive, "{}".into(), T0 + 1).await.unwrap(), Put::Replaced);
    let stored = configs.get(&a).await.unwrap().unwrap();
    assert_eq!((stored.config.status, stored.config.version), (Status::Inactive, 2));
    assert!(stored.config.delivery.is_err(), "no webhook");
}

pub(crate) async fn a_deleted_config_is_still_loaded(backend: &impl Backend) {
    let configs = backend.open().await.configs;
    assert!(!configs.delete(&client("a"), T0).await.unwrap());
    configs.put(&client("a"), Status::Active, "{}".into(), T0).await.unwrap();
    configs.put(&client("b"), Status::Active, "{}".into(), T0).await.unwrap();
    assert!(configs.delete(&client("a"), T0 + 1).await.unwrap());
    assert!(!configs.delete(&client("a"), T0 + 2).await.unwrap());
    let mut all: Vec<_> = configs
        .load()
        .await
        .unwrap()
        .iter()
        .map(|stored| (stored.config.client.as_str().to_owned(), stored.config.deleted))
        .collect();
    all.sort();
    assert_eq!(all, [("a".to_owned(), true), ("b".to_owned(), false)]);
    assert_eq!(configs.put(&client("a"), Status::Active, "{}".into(), T0 + 3).await.unwrap(), Put::Created);
    assert_eq!(configs.get(&client("a")).await.unwrap().unwrap().config.version, 3);
}

pub(crate) async fn a_config_is_switched_off_while_it_is_what_was_tried(backend: &impl Backend) {
    let configs = backend.open().await.configs;
    let (a, now_ms) = (client("a"), T0 + 5);
    let put = |webhook: &str| {
        let value = format!(r#"{{"webhook":"{webhook}","authorization":"Bearer x"}}"#);
        configs.put(&a, Status::Active, value, T0)
    };
    put("http://a.test").await.unwrap();
    let tried = configs.get(&a).await.unwrap().unwrap().config;
    put("http://b.test").await.unwrap();
    assert!(!configs.deactivate(&tried, now_ms).await.unwrap(), "another webhook by now");
    put("http://a.test").await.unwrap();
    assert!(!configs.deactivate(&tried, now_ms).await.unwrap(), "another version by now");
    let tried = configs.get(&a).await.unwrap().unwrap().config;
    assert!(configs.deactivate(&tried, now_ms).await.unwrap());
    let stored = configs.get(&a).await.unwrap().unwrap();
    assert_eq!((stored.config.status, stored.config.version), (Status::Inactive, tried.version + 1));
    assert_eq!(stored.config.updated_at_ms, now_ms);
    assert_eq!(stored.value, r#"{"webhook":"http://a.test","authorization":"Bearer x"}"#);
    assert!(!configs.deactivate(&tried, now_ms).await.unwrap(), "inactive by now");
    assert!(!configs.deactivate(&stored.config, now_ms).await.unwrap(), "was not active");
    configs.delete(&a, now_ms).await.unwrap();
    assert!(!configs.deactivate(&tried, now_ms).await.unwrap(), "deleted by now");
}

pub(crate) async fn an_older_document_does_not_replace(backend: &impl Backend) {
    let configs = backend.open().await.configs;
    let new = document("a", 2, T0 + 10, "http://new.test/");
    assert_eq!(configs.changed(hint("1", new.clone())).await.unwrap(), Some(client("a")));
    for old in
        [new, document("a", 1, T0 + 10, "http://old.test/"), document("a", 9, T0 + 9, "http://old.test/")]
    {
        assert_eq!(configs.changed(hint("1", old)).await.unwrap(), None);
    }
    let stored = configs.get(&client("a")).await.unwrap().unwrap();
    assert_eq!(stored.config.delivery.as_ref().unwrap().webhook.as_str(), "http://new.test/");
    assert_eq!(stored.config.owner.as_deref(), Some("64e0c0de00000000000000a1"));
    // The owner stays when the value is put; what was put is newer than the document.
    let value = r#"{"webhook":"http://put.test/"}"#;
    configs.put(&client("a"), Status::Active, value.into(), T0 + 20).await.unwrap();
    let older = document("a", 3, T0 + 19, "http://old.test/");
    assert_eq!(configs.changed(hint("1", older)).await.unwrap(), None);
    let stored = configs.get(&client("a")).await.unwrap().unwrap();
    assert_eq!(stored.config.owner.as_deref(), Some("64e0c0de00000000000000a1"));
    assert_eq!(stored.value, value);
}

pub(crate) async fn of_undated_documents_the_later_in_the_log_is_newer(backend: &impl Backend) {
    let configs = backend.open().await.configs;
    let undated = |webhook: &str, ts_ms| {
        let document =
            format!(r#"{{"key":"CQRS","eid":"a","status":"ACTIVE","value":{{"webhook":"{webhook}"}}}}"#);
        ConfigHint { ts_ms, ..hint("1", document) }
    };
    for webhook in ["http://a.test/", "http://b.test/"] {
        assert_eq!(configs.changed(undated(webhook, T0)).await.unwrap(), Some(client("a")));
    }
    assert_eq!(configs.changed(undated("http://old.test/", T0 - 1)).await.unwrap(), None);
    let stored = configs.get(&client("a")).await.unwrap().unwrap();
    assert_eq!(stored.config.delivery.as_ref().unwrap().webhook.as_str(), "http://b.test/");
}

pub(crate) async fn a_removed_document_deletes_its_client(backend: &impl Backend) {
    let configs = backend.open().await.configs;
    configs.changed(hint("1", document("a", 1, T0, "http://a.test/"))).await.unwrap();
    assert_eq!(configs.changed(removed("2", T0 + 1)).await.unwrap(), None);
    assert_eq!(configs.changed(removed("1", T0 - 1)).await.unwrap(), None, "older than the document");
    assert_eq!(configs.changed(removed("1", T0 + 1)).await.unwrap(), Some(client("a")));
    assert!(configs.get(&client("a")).await.unwrap().unwrap().config.deleted);
    // The change that made the document comes again: it stays deleted.
    let again = hint("1", document("a", 1, T0, "http://a.test/"));
    assert_eq!(configs.changed(again).await.unwrap(), None);
}

pub(crate) async fn a_document_may_change_its_client(backend: &impl Backend) {
    let configs = backend.open().await.configs;
    configs.changed(hint("1", document("a", 1, T0, "http://a.test/"))).await.unwrap();
    let moved = hint("1", document("b", 2, T0 + 1, "http://b.test/"));
    assert_eq!(configs.changed(moved).await.unwrap(), Some(client("b")));
    assert!(configs.get(&client("a")).await.unwrap().unwrap().config.deleted);
    assert!(!configs.get(&client("b")).await.unwrap().unwrap().config.deleted);
    assert_eq!(configs.changed(removed("1", T0 + 2)).await.unwrap(), Some(client("b")));
}

pub(crate) async fn what_is_no_client_config_is_passed_over(backend: &impl Backend) {
    let configs = backend.open().await.configs;
    for document in [r#"{"key":"THEME","eid":"a"}"#, r#"{"key":"CQRS"}"#, "[", "\u{0}"] {
        assert_eq!(configs.changed(hint("1", document.to_owned())).await.unwrap(), None, "{document}");
    }
    let no_image = ConfigHint { removed: false, ..removed("1", T0) };
    assert_eq!(configs.changed(no_image).await.unwrap(), None);
    assert!(configs.load().await.unwrap().is_empty());
}

pub(crate) async fn configs_outlive_a_restart(backend: &impl Backend) {
    let stores = backend.open().await;
    let value = r#"{"webhook":"http://a.test/"}"#;
    stores.configs.put(&client("a"), Status::Active, value.into(), T0).await.unwrap();
    stores.close().await;
    let stores = backend.open().await;
    assert_eq!(stores.configs.get(&client("a")).await.unwrap().unwrap().value, value);
}
