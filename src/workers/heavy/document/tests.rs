use crate::domain::config::{Status, read_value};
use crate::domain::guard::Decided;

use super::*;

const DOCUMENT: &str = r#"{"_id": {"$oid": "64c0a1e0f1a2b3c4d5e60001"},"n": {"$numberLong": "5"},"clients": ["a",{"$oid": "64c0a1e0f1a2b3c4d5e60002"}]}"#;

fn routes(value: &'static str) -> DocumentRoutes {
    DocumentRoutes {
        names: SourceNames { prefix: "mongo".into(), signal_collections: vec!["signals".into()] },
        mongo_prefix: "wnx".into(),
        revoke: true,
        blocked: WhenBlocked::Skip,
        client: Arc::new(move |client| {
            let config = read_value(client, Status::Active, false, 1, 0, None, value);
            (client.as_str() == "a").then(|| Decided::default().judge(&Arc::new(config)))
        }),
    }
}

fn collection(name: &str) -> CollectionName {
    CollectionName { db: "wnx-identity".into(), collection: name.into() }
}

fn sight<'a>(collection: &'a CollectionName, text: Option<&'a str>) -> Sight<'a> {
    Sight { collection, id: r#"{"$oid": "64c0a1e0f1a2b3c4d5e60001"}"#, text, ts_ms: 7 }
}

const USABLE: &str = r#"{"webhook": "http://a.test"}"#;

#[test]
fn the_body_is_that_of_a_snapshot_read() {
    let users = collection("users");
    let sent = routes(USABLE).transfer("run", &ClientId::new("a"), sight(&users, Some(DOCUMENT))).unwrap();
    assert_eq!(
        sent.body,
        r#"{"id":"64c0a1e0f1a2b3c4d5e60001","ts_ms":7,"op":"r","topic":"wnx-identity.users","source":{"name":"mongo","db":"wnx-identity","collection":"users"},"after":{"id":"64c0a1e0f1a2b3c4d5e60001","n":5,"clients":["a","64c0a1e0f1a2b3c4d5e60002"]}}"#
    );
    assert_eq!(sent.kind, TransferKind::Resync);
    assert_eq!(&*sent.document, "wnx-identity.users:64c0a1e0f1a2b3c4d5e60001");
    assert_eq!(sent.document_hash, DocumentHash::of("wnx-identity", "users", "64c0a1e0f1a2b3c4d5e60001"));
}

#[test]
fn what_is_gone_is_a_delete_without_images() {
    let users = collection("users");
    let sent = routes(USABLE).transfer("run", &ClientId::new("a"), sight(&users, None)).unwrap();
    assert_eq!(
        sent.body,
        r#"{"id":"64c0a1e0f1a2b3c4d5e60001","ts_ms":7,"op":"d","topic":"wnx-identity.users","source":{"name":"mongo","db":"wnx-identity","collection":"users"}}"#
    );
}

#[test]
fn whose_it_is_stands_in_it() {
    let users = collection("users");
    let routes = routes(USABLE);
    for (client, is_his) in [("a", true), ("64c0a1e0f1a2b3c4d5e60002", true), ("b", false)] {
        assert_eq!(routes.is_of(&ClientId::new(client), sight(&users, Some(DOCUMENT))), is_his, "{client}");
    }
    assert!(!routes.is_of(&ClientId::new("a"), sight(&users, None)));
}

#[test]
fn what_is_not_for_him_says_why() {
    let skip = |value, client: &str, name: &str| {
        let (collection, client) = (collection(name), ClientId::new(client));
        routes(value).transfer("run", &client, sight(&collection, Some(DOCUMENT))).unwrap_err()
    };
    assert_eq!(skip(USABLE, "b", "users"), Unsent::Skip(SkipReason::NoConfig));
    assert_eq!(skip(USABLE, "a", "signals"), Unsent::Unreadable);
    let filtered = r#"{"webhook": "http://a.test", "filter": {"exclude": ["identity.users"]}}"#;
    assert_eq!(skip(filtered, "a", "users"), Unsent::Skip(SkipReason::Filtered));
    assert_eq!(routes(filtered).admits(&ClientId::new("a"), &collection("users")), Ok(false));
    assert_eq!(routes(filtered).admits(&ClientId::new("b"), &collection("users")), Err(SkipReason::NoConfig));
}

#[test]
fn configs_of_clients_go_to_nobody() {
    let configs = CollectionName { db: "wnx-context".into(), collection: "configs".into() };
    let (routes, client) = (routes(USABLE), ClientId::new("a"));
    let config = r#"{"_id": "1","key": "CQRS","clients": ["a"]}"#;
    for text in [Some(config), None] {
        let sent = routes.transfer("run", &client, sight(&configs, text));
        assert_eq!(sent, Err(Unsent::Skip(SkipReason::ClientConfig)), "{text:?}");
    }
}

#[test]
fn topics_are_named_as_debezium_names_them() {
    assert_eq!(routes(USABLE).topic(&collection("a.b c/ä")), "mongo.wnx-identity.a.b_c__");
}
