use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::domain::fixtures::{self, names};
use crate::domain::intake::NewRecord;

/// What a fixture's `expect` says, of an event.
fn seen(event: &SourceEvent) -> Json {
    let of_subject = |kind: &str, op: Option<&str>, subject: &Subject, deleted: bool| {
        json!({
            "kind": kind, "op": op, "db": subject.db, "collection": subject.collection, "id": subject.id,
            "clients": [], "deleted": deleted, "removed_clients": [],
        })
    };
    match event {
        SourceEvent::Change(change) => json!({
            "kind": "change", "op": change.op.as_str(), "db": change.db, "collection": change.collection,
            "id": change.id, "clients": change.clients, "deleted": change.deleted,
            "removed_clients": change.removed_clients,
        }),
        SourceEvent::Tombstone(subject) => of_subject("tombstone", None, subject, true),
        SourceEvent::Skip(subject, reason) => of_subject("skip", reason.op(), subject, false),
        SourceEvent::Invalid(subject, _) => of_subject("invalid", None, subject, false),
    }
}

/// What a fixture's `expect.config` says, of a config document.
fn seen_config(document: &ConfigDocument) -> Json {
    let value: Json = serde_json::from_str(document.value.as_ref().unwrap().expose()).unwrap();
    let webhook = &value["webhook"];
    let is_url = webhook.as_str().is_some_and(|text| url::Url::parse(text).is_ok());
    let wanted = document.key.as_deref() == Some("CQRS") && document.status.as_deref() == Some("ACTIVE");
    json!({
        "key": document.key, "eid": document.eid, "status": document.status, "webhook": webhook,
        "authorization": value["authorization"],
        "usable": wanted && !document.deleted && document.eid.is_some() && is_url,
    })
}

#[test]
fn every_fixture_reads_as_expected() {
    let fixtures = fixtures::all();
    assert_eq!(fixtures.len(), 237);
    for fixture in fixtures {
        let event = read(&fixture.record, &names());
        let mut expected = fixture.expect.clone();
        let members = expected.as_object_mut().unwrap();
        let config = members.shift_remove("config");
        let is_partial = members.shift_remove("partial").is_some();
        members.shift_remove("snapshot");
        members.shift_remove("inferred_op");
        assert_eq!(seen(&event), expected, "{}: {event:?}", fixture.name);

        let SourceEvent::Change(change) = event else { continue };
        let has_image = change.before.is_some() || change.after.is_some();
        assert_eq!(change.op != Op::Delete && !has_image, is_partial, "{}", fixture.name);
        if let Some(config) = config {
            let seen = change.config_document().as_ref().map_or(Json::Null, seen_config);
            assert_eq!(seen, config, "{}", fixture.name);
            let is_other = config["key"] == "THEME";
            assert_eq!(change.is_client_config("wnx"), !is_other, "{}", fixture.name);
        } else {
            assert!(!change.is_client_config("wnx"), "{}", fixture.name);
        }
    }
}

fn record(topic: &str, key: Option<&str>, value: &str) -> SourceRecord {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    fixtures::source_record(NewRecord {
        topic: topic.into(),
        key: key.map(bytes),
        value: Some(bytes(value)),
        headers: Vec::new(),
    })
}

fn change(topic: &str, key: &str, value: &str) -> ChangeEvent {
    match read(&record(topic, Some(key), value), &names()) {
        SourceEvent::Change(change) => *change,
        other => panic!("{other:?}"),
    }
}

const USERS: &str = "mongo.wnx-identity.users";
const CONFIGS: &str = "mongo.wnx-context.configs";
const KEY: &str = r#"{"id":"\"a\""}"#;

#[test]
fn the_time_is_the_first_that_is_known() {
    for (value, ts_ms) in [
        (r#"{"op":"c","after":"{}","ts_ms":3,"source":{"ts_ms":2}}"#, 3),
        (r#"{"op":"c","after":"{}","ts_ms":null,"source":{"ts_ms":2}}"#, 2),
        (r#"{"op":"c","after":"{}","ts_ms":"soon","source":{"ts_ms":0}}"#, 1_700_000_000_000),
        (r#"{"_id":"a","__ts_ms":5,"__source_ts_ms":4}"#, 5),
        (r#"{"_id":"a","__source_ts_ms":4}"#, 4),
    ] {
        assert_eq!(change(USERS, KEY, value).ts_ms, ts_ms, "{value}");
    }
    assert_eq!(fixtures::change("a01_create").ts_ms, 1_767_225_602_250);
    assert_eq!(fixtures::change("l01_cloudevents_create").ts_ms, 1_767_225_791_137);
    assert_eq!(fixtures::change("k01_smt_create").ts_ms, 1_700_000_000_000);
}

#[test]
fn the_source_name_is_the_connectors_else_the_prefix() {
    let named = r#"{"op":"c","after":"{}","source":{"name":"other","db":"d","collection":"c.d"}}"#;
    let event = change(USERS, KEY, named);
    assert_eq!(
        (event.source_name.as_str(), event.db.as_str(), event.collection.as_str()),
        ("other", "d", "c.d")
    );
    assert_eq!(change(USERS, KEY, r#"{"op":"c","after":"{}"}"#).source_name, "mongo");
}

#[test]
fn images_stand_where_the_operation_has_them() {
    let envelope = |op| {
        format!(r#"{{"op":"{op}","before":"{{\"clients\":[\"x\"]}}","after":"{{\"clients\":[\"y\"]}}"}}"#)
    };
    for (op, before, after, clients, removed) in [
        ("c", false, true, "y", None),
        ("r", false, true, "y", None),
        ("u", true, true, "y", Some("x")),
        ("d", true, false, "x", None),
    ] {
        let event = change(USERS, KEY, &envelope(op));
        assert_eq!((event.before.is_some(), event.after.is_some()), (before, after), "{op}");
        assert_eq!(event.clients, [ClientId::new(clients)], "{op}");
        assert_eq!(event.removed_clients, removed.map(ClientId::new).into_iter().collect::<Vec<_>>(), "{op}");
        assert_eq!(event.before_clients.is_empty(), !before, "{op}");
    }
}

#[test]
fn a_flattened_document_loses_what_flattening_added() {
    let value = r#"{"_id":"a","__v":0,"n":1.50,"__op":"c","__source_db":"d","__source_collection":"c"}"#;
    let event = change("elsewhere", KEY, value);
    assert_eq!((event.db.as_str(), event.collection.as_str(), event.op), ("d", "c", Op::Create));
    assert_eq!(event.after.unwrap().text(), r#"{"_id":"a","__v":0,"n":1.50}"#);

    let numbered = r#"{"_id":"a","clients":{"_1":"b","_10":"c","_0":"a"}}"#;
    let clients: Vec<_> = ["a", "b", "c"].map(ClientId::new).into();
    assert_eq!(change(USERS, KEY, numbered).clients, clients);
    let no_array = r#"{"_id":"a","clients":{"_0":"a","x":"b"}}"#;
    assert!(change(USERS, KEY, no_array).clients.is_empty());
}

#[test]
fn the_last_header_of_a_name_counts() {
    let mut flattened = record("elsewhere", Some(KEY), r#"{"_id":"a"}"#);
    for (name, value) in [("__op", "d"), ("__source_db", "d"), ("__source_collection", "c"), ("__op", "c")] {
        flattened.headers.push((name.to_string(), Bytes::from_static(value.as_bytes())));
    }
    let SourceEvent::Change(event) = read(&flattened, &names()) else { panic!() };
    assert_eq!((event.op, event.db.as_str()), (Op::Create, "d"));
}

#[test]
fn only_a_well_formed_traceparent_is_taken() {
    let well_formed = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (text, taken) in [
        (well_formed, true),
        ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
        ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
        ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
        ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", false),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nx: y", false),
        ("", false),
    ] {
        let mut record = fixtures::one("a01_create").record;
        record.headers.push(("traceparent".to_string(), Bytes::from_static(text.as_bytes())));
        let SourceEvent::Change(event) = read(&record, &names()) else { panic!() };
        assert_eq!(event.traceparent.as_deref(), taken.then_some(text));
    }
}

#[test]
fn a_document_of_the_config_collection_is_a_config_unless_all_images_say_otherwise() {
    let theme = r#"{\"key\":\"THEME\"}"#;
    let cqrs = r#"{\"key\":\"CQRS\"}"#;
    let keyless = "{}";
    for (before, after, is_config) in [
        (theme, theme, false),
        (cqrs, theme, true),
        (theme, cqrs, true),
        (theme, keyless, true),
        (keyless, keyless, true),
    ] {
        let value = format!(r#"{{"op":"u","before":"{before}","after":"{after}"}}"#);
        let event = change(CONFIGS, KEY, &value);
        assert_eq!(event.is_client_config("wnx"), is_config, "{value}");
        assert!(!event.is_client_config("w"));
        assert!(!change(USERS, KEY, &value).is_client_config("wnx"));
    }
    let partial = r#"{"op":"u","updateDescription":{"updatedFields":"{\"key\":\"THEME\"}"},"after":null}"#;
    assert!(change(CONFIGS, KEY, partial).is_client_config("wnx"));
    assert!(change(CONFIGS, KEY, r#"{"op":"d","before":null}"#).is_client_config("wnx"));
}

#[test]
fn a_dead_letter_is_secret_when_it_may_be_a_config() {
    let subject = |topic| match read(&record(topic, None, "{"), &names()) {
        SourceEvent::Invalid(subject, _) => subject,
        other => panic!("{other:?}"),
    };
    assert!(subject(CONFIGS).may_hold_secrets("wnx"));
    assert!(subject("elsewhere").may_hold_secrets("wnx"));
    assert!(!subject(USERS).may_hold_secrets("wnx"));
}

#[test]
fn a_config_document_is_read_in_every_dialect_and_shows_no_secret() {
    let text = r#"{"key":"CQRS","eid":{"$oid":"64c0a1e0f1a2b3c4d5e60001"},"owner":"o","status":"ACTIVE",
        "version":{"$numberLong":"7"},"updated_at":{"$date":{"$numberLong":"1767225600000"}},
        "value":{"timeout_ms":{"$numberInt":"5000"},"authorization":"hush"}}"#;
    let document = ConfigDocument::read(text).unwrap();
    assert_eq!(document.eid, Some(ClientId::new("64c0a1e0f1a2b3c4d5e60001")));
    assert_eq!((document.version, document.updated_at_ms), (Some(7), Some(1_767_225_600_000)));
    assert_eq!(document.owner.as_deref(), Some("o"));
    let value = document.value.as_ref().unwrap().expose();
    assert_eq!(value, r#"{"timeout_ms":5000,"authorization":"hush"}"#);
    assert!(!format!("{document:?}").contains("hush"));
    let event = fixtures::change("p01_config_create");
    assert!(!format!("{event:?}").contains("test-token"));
    assert_eq!(ConfigDocument::read("[]"), None);
}

#[test]
fn ids_may_be_long_and_hold_nul() {
    let long = format!("\u{0}{}", "x".repeat(3000));
    let id = serde_json::to_string(&serde_json::to_string(&long).unwrap()).unwrap();
    let event = change(USERS, &format!(r#"{{"id":{id}}}"#), r#"{"op":"d","before":null}"#);
    assert_eq!(event.id, long);
}

#[test]
fn a_record_that_tells_no_collection_is_invalid() {
    let event = read(&record("elsewhere", Some(KEY), r#"{"op":"c","after":"{}"}"#), &names());
    assert!(matches!(event, SourceEvent::Invalid(..)), "{event:?}");
    let wrapped = r#"{"schema":{},"payload":"x"}"#;
    let event = read(&record(USERS, Some(KEY), wrapped), &names());
    assert!(matches!(event, SourceEvent::Invalid(..)), "{event:?}");
}

#[test]
fn many_clients_cost_no_square() {
    let clients: Vec<_> = (0..200_000).map(|number| format!("c{number}")).collect();
    let image = serde_json::to_string(&json!({ "clients": clients }).to_string()).unwrap();
    let event = change(USERS, KEY, &format!(r#"{{"op":"u","before":{image},"after":{image}}}"#));
    assert_eq!((event.clients.len(), event.removed_clients.len()), (200_000, 0));
}

proptest! {
    #[test]
    fn no_bytes_make_read_panic(value in prop::collection::vec(any::<u8>(), 0..200), key in "\\PC{0,40}") {
        let mut record = record(USERS, Some(&key), "");
        record.value = Some(value.into());
        read(&record, &names());
    }

    /// Fixtures with a few bytes changed get further into the reader than noise does.
    #[test]
    fn no_damage_makes_read_panic(
        index in 0_usize..237,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        thread_local! {
            static FIXTURES: Vec<fixtures::Fixture> = fixtures::all();
        }
        let mut record = FIXTURES.with(|all| all[index].record.clone());
        let mut value = record.value.as_deref().unwrap_or_default().to_vec();
        prop_assume!(!value.is_empty() && value.len() < 100_000);
        for (place, byte) in damage {
            let at = place.index(value.len());
            value[at] = byte;
        }
        record.value = Some(value.into());
        if let SourceEvent::Change(event) = read(&record, &names()) {
            let images = [&event.before, &event.after];
            for image in images.into_iter().flatten() {
                image.members();
            }
        }
    }
}
