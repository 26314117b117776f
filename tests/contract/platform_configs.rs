//! Configs in MongoDB that the platform changes as it likes, read by several replicas, with Redis or without.

use std::time::{Duration, Instant};

use dispatcher::backends::mongo::MongoOptions;
use dispatcher::backends::redis::{ConfigCopy, Redis, RedisOptions};
use dispatcher::domain::config::{ClientId, Secret, Status};
use dispatcher::metrics::Metrics;
use dispatcher::ports::client_configs::{ClientConfigs, ConfigHint, ConfigNotice, Put, StoredConfig};
use dispatcher::ports::clock::{Clock, SystemClock};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, doc};
use redis::AsyncCommands;
use tokio::runtime::Handle;

use crate::fixture::{client, soon};
use crate::platform::{Platform, Replica, document, hint};
use crate::services::{self, Service};

fn webhook(stored: &StoredConfig) -> &str {
    stored.config.delivery.as_ref().unwrap().webhook.as_str()
}

fn removed(document_id: &str) -> ConfigHint {
    ConfigHint { removed: true, ..hint(document_id, None) }
}

/// Asks for what is as of now: no copy that was made before will do.
async fn recheck_now(replica: &Replica, clients: &[&str]) -> Vec<StoredConfig> {
    tokio::time::sleep(Duration::from_millis(2)).await;
    recheck(replica, clients, SystemClock.now_ms()).await
}

/// Any copy will do.
async fn recheck_ever(replica: &Replica, clients: &[&str]) -> Vec<StoredConfig> {
    recheck(replica, clients, 0).await
}

async fn recheck(replica: &Replica, clients: &[&str], as_of_ms: i64) -> Vec<StoredConfig> {
    let clients = clients.iter().map(|id| client(id)).collect();
    replica.configs.recheck(clients, as_of_ms).await.unwrap()
}

/// Waits until Redis is there and its first notice was heard: read all.
async fn connected(replica: &Replica) {
    soon(async {
        while replica.redis.health().await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    while soon(replica.configs.next_notice()).await != ConfigNotice::Missed {}
}

async fn own(start: fn() -> Service) -> Service {
    tokio::task::spawn_blocking(start).await.unwrap()
}

#[tokio::test]
async fn old_events_bring_no_old_value_back() {
    let platform = Platform::new().await;
    let documents = platform.documents().await;
    let (one, two) = (platform.replica(), platform.replica());
    connected(&one).await;
    connected(&two).await;
    let version = |number: i32| document("d", "a", number, &format!("http://a{number}.test/"));
    documents.insert_one(version(1)).await.unwrap();
    let mut told = 0;
    for number in 1..=100 {
        documents.replace_one(doc! { "_id": "d" }, version(number)).await.unwrap();
        let old = version(1 + (number * 37) % number);
        let (first, second) = tokio::join!(
            one.configs.changed(hint("d", Some(&old))),
            two.configs.changed(hint("d", Some(&old)))
        );
        told += [first, second].into_iter().filter(|told| *told == Ok(Some(client("a")))).count();
        for replica in [&one, &two] {
            assert_eq!(recheck_ever(replica, &["a"]).await[0].config.version, i64::from(number));
        }
    }
    assert_eq!(told, 200, "each change is news to each replica");
    for number in 1..=100 {
        assert_eq!(one.configs.changed(hint("d", Some(&version(number)))).await, Ok(None), "{number}");
    }
    assert_eq!(webhook(&one.configs.get(&client("a")).await.unwrap().unwrap()), "http://a100.test/");
}

#[tokio::test]
async fn a_copy_that_was_read_earlier_or_is_older_does_not_replace() {
    let platform = Platform::new().await;
    let replica = platform.replica();
    connected(&replica).await;
    let copy = |read_at_ms, updated_at_ms, version, text: Option<&str>| ConfigCopy {
        read_at_ms,
        updated_at_ms,
        version,
        document: text.map(|text| Secret::new(format!("{{\"is\":\"{text}\"}}"))),
    };
    let a = client("a");
    for (written, stays) in [
        (copy(10, 5, 5, Some("first")), Some("first")),
        (copy(9, 9, 9, Some("read earlier")), Some("first")),
        (copy(11, 4, 9, Some("older")), Some("first")),
        (copy(11, 5, 4, Some("older")), Some("first")),
        (copy(11, 5, 5, Some("changed by hand")), Some("changed by hand")),
        (copy(10, 0, 0, None), Some("changed by hand")),
        (copy(12, 0, 0, None), None),
        (copy(11, 9, 9, Some("before it was removed")), None),
        (copy(13, 1, 1, Some("made again")), Some("made again")),
    ] {
        let name = format!("{:?}", written.document.as_ref().map(Secret::expose));
        replica.redis.keep_config_copies(&[(a.clone(), written)]).await;
        let found = replica.redis.config_copies(std::slice::from_ref(&a)).await.remove(0).unwrap();
        let stays = stays.map(|text| format!("{{\"is\":\"{text}\"}}"));
        assert_eq!(found.document.as_ref().map(Secret::expose), stays.as_deref(), "{name}");
    }
    // What somebody else wrote there is replaced.
    let key = format!("{}:dsp:config:a", platform.prefix);
    for odd in ["", "[]", "{}", "{\"read_at\":\"x\"}", "\u{0}"] {
        let mut keys = platform.keys().await;
        keys.set::<_, _, ()>(&key, odd).await.unwrap();
        assert!(replica.redis.config_copies(std::slice::from_ref(&a)).await[0].is_none(), "{odd}");
        replica.redis.keep_config_copies(&[(a.clone(), copy(1, 1, 1, Some("ours")))]).await;
        assert!(replica.redis.config_copies(std::slice::from_ref(&a)).await[0].is_some(), "{odd}");
        let seconds: i64 = keys.ttl(&key).await.unwrap();
        assert!(seconds > 60);
    }
}

#[tokio::test]
async fn a_client_made_after_it_was_looked_for_is_found() {
    let platform = Platform::new().await;
    let replica = platform.replica();
    connected(&replica).await;
    let long = "x".repeat(1 << 20);
    assert!(recheck_now(&replica, &["a", "b", &long]).await.is_empty());
    platform.documents().await.insert_one(document("d", "a", 1, "http://a.test/")).await.unwrap();
    assert!(recheck_ever(&replica, &["a", "b"]).await.is_empty(), "that there was none is remembered");
    let found = recheck_now(&replica, &["b", "a", &long]).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].config.client.as_str(), webhook(&found[0])), ("a", "http://a.test/"));
    let other = platform.replica();
    connected(&other).await;
    platform.documents().await.delete_many(doc! {}).await.unwrap();
    let found = recheck_ever(&other, &["a", "b"]).await;
    assert_eq!(webhook(&found[0]), "http://a.test/", "what one replica read, the others need not ask for");
    let mut keys = platform.keys().await;
    let ttl: i64 = keys.ttl(format!("{}:dsp:config:b", platform.prefix)).await.unwrap();
    assert!((1..=60).contains(&ttl), "{ttl}");
}

#[tokio::test]
async fn ids_are_text_or_object_ids() {
    let platform = Platform::new().await;
    let documents = platform.documents().await;
    let replica = platform.replica();
    let (text, object) = ("64c0a1e0f1a2b3c4d5e60001", "64c0a1e0f1a2b3c4d5e60002");
    let (id, eid) = (ObjectId::new(), ObjectId::parse_str(object).unwrap());
    let mut as_object = document("2", object, 1, "http://object.test/");
    as_object.extend(doc! { "_id": id, "eid": eid, "owner": eid });
    documents.insert_one(&as_object).await.unwrap();
    documents.insert_one(document("1", text, 1, "http://text.test/")).await.unwrap();
    let found = recheck_now(&replica, &[text, object]).await;
    let mut webhooks: Vec<_> = found.iter().map(webhook).collect();
    webhooks.sort_unstable();
    assert_eq!(webhooks, ["http://object.test/", "http://text.test/"]);
    assert_eq!(found.iter().filter(|found| found.config.owner.as_deref() == Some(object)).count(), 1);
    let changed = replica.configs.changed(hint(&id.to_hex(), Some(&as_object))).await;
    assert_eq!(changed, Ok(Some(client(object))));
    assert_eq!(replica.configs.changed(hint("1", None)).await, Ok(Some(client(text))), "without an image");
    let value = r#"{"webhook":"http://put.test/"}"#.to_owned();
    let put = replica.configs.put(&client(object), Status::Inactive, value, 1_764_435_600_005).await;
    assert_eq!(put, Ok(Put::Replaced));
    let stored = documents.find_one(doc! { "_id": id }).await.unwrap().unwrap();
    assert_eq!(stored.get("eid"), Some(&Bson::ObjectId(eid)), "its form stays");
    assert_eq!(stored.get("version"), Some(&Bson::Int32(2)));
    assert_eq!(stored.get("clients"), as_object.get("clients"), "what is not ours stays");
    assert_eq!(documents.count_documents(doc! {}).await.unwrap(), 2);
}

#[tokio::test]
async fn a_change_is_told_to_every_replica() {
    let platform = Platform::new().await;
    let (one, two) = (platform.replica(), platform.replica());
    connected(&one).await;
    connected(&two).await;
    let read = document("d", "a", 1, "http://a.test/");
    platform.documents().await.insert_one(&read).await.unwrap();
    let start = Instant::now();
    assert_eq!(one.configs.changed(hint("d", Some(&read))).await, Ok(Some(client("a"))));
    for replica in [&one, &two] {
        assert_eq!(soon(replica.configs.next_notice()).await, ConfigNotice::Changed(client("a")));
    }
    assert!(start.elapsed() < Duration::from_secs(1));
    let config = two.configs.get(&client("a")).await.unwrap().unwrap().config;
    assert_eq!(two.configs.deactivate(&config, 0).await, Ok(true));
    assert_eq!(soon(one.configs.next_notice()).await, ConfigNotice::Changed(client("a")));
    let stored = one.configs.get(&client("a")).await.unwrap().unwrap();
    assert_eq!(
        stored.config.updated_at_ms, config.updated_at_ms,
        "a clock that is behind makes nothing older"
    );
    assert!(!stored.config.is_active() && stored.config.is_newer_than(&config));
}

#[tokio::test]
async fn a_change_by_hand_counts_whatever_its_date() {
    let platform = Platform::new().await;
    let documents = platform.documents().await;
    let replica = platform.replica();
    connected(&replica).await;
    let read = document("d", "a", 7, "http://a.test/");
    documents.insert_one(&read).await.unwrap();
    assert_eq!(replica.configs.changed(hint("d", Some(&read))).await, Ok(Some(client("a"))));
    documents.update_one(doc! {}, doc! { "$set": { "status": "INACTIVE" } }).await.unwrap();
    assert_eq!(replica.configs.changed(hint("d", Some(&read))).await, Ok(Some(client("a"))));
    assert!(!recheck_now(&replica, &["a"]).await[0].config.is_active());
    let set = doc! { "$set": { "status": "ACTIVE", "version": 1, "updated_at": null } };
    documents.update_one(doc! {}, set).await.unwrap();
    assert_eq!(replica.configs.changed(hint("d", None)).await, Ok(Some(client("a"))));
    assert!(recheck_now(&replica, &["a"]).await[0].config.is_active());
}

#[tokio::test]
async fn a_removed_document_is_known_by_its_id() {
    let platform = Platform::new().await;
    let documents = platform.documents().await;
    let (one, two) = (platform.replica(), platform.replica());
    connected(&one).await;
    connected(&two).await;
    for name in ["a", "b"] {
        documents.insert_one(document(name, name, 1, "http://a.test/")).await.unwrap();
    }
    assert_eq!(one.configs.load().await.unwrap().len(), 2);
    documents.delete_many(doc! {}).await.unwrap();
    assert_eq!(one.configs.changed(removed("a")).await, Ok(Some(client("a"))));
    assert_eq!(one.configs.changed(removed("a")).await, Ok(None));
    assert_eq!(one.configs.changed(removed("of another key")).await, Ok(None));
    assert!(one.configs.get(&client("a")).await.unwrap().is_none());
    // A replica that has never seen it asks Redis.
    assert_eq!(two.configs.changed(removed("a")).await, Ok(None), "it is forgotten");
    assert_eq!(two.configs.changed(removed("b")).await, Ok(Some(client("b"))));
}

#[tokio::test]
async fn a_document_that_moves_changes_both_clients() {
    let platform = Platform::new().await;
    let documents = platform.documents().await;
    let replica = platform.replica();
    connected(&replica).await;
    documents.insert_one(document("d", "a", 1, "http://a.test/")).await.unwrap();
    replica.configs.load().await.unwrap();
    let moved = document("d", "b", 2, "http://b.test/");
    documents.replace_one(doc! { "_id": "d" }, &moved).await.unwrap();
    assert_eq!(replica.configs.changed(hint("d", Some(&moved))).await, Ok(Some(client("b"))));
    let mut told = vec![soon(replica.configs.next_notice()).await, soon(replica.configs.next_notice()).await];
    told.sort_by_key(|notice| format!("{notice:?}"));
    assert_eq!(told, ["a", "b"].map(|name| ConfigNotice::Changed(client(name))));
    assert!(replica.configs.get(&client("a")).await.unwrap().is_none());
    let old = document("d", "a", 1, "http://a.test/");
    assert_eq!(replica.configs.changed(hint("d", Some(&old))).await, Ok(None), "an old event");
}

#[tokio::test]
async fn of_two_documents_the_newest_counts() {
    let platform = Platform::new().await;
    let documents = platform.documents().await;
    let replica = platform.replica();
    let a = client("a");
    for (id, version) in [("new", 2), ("old", 1)] {
        documents.insert_one(document(id, "a", version, &format!("http://{id}.test/"))).await.unwrap();
    }
    documents.insert_one(doc! { "_id": "broken", "key": "CQRS", "eid": 5 }).await.unwrap();
    let all = replica.configs.load().await.unwrap();
    assert_eq!((all.len(), webhook(&all[0])), (1, "http://new.test/"));
    assert_eq!(replica.configs.deactivate(&all[0].config, 1).await, Ok(true));
    let stored = replica.configs.get(&a).await.unwrap().unwrap();
    assert!(!stored.config.is_active(), "the older one does not take its place");
    assert_eq!(replica.configs.delete(&a, 1).await, Ok(true));
    assert!(replica.configs.get(&a).await.unwrap().unwrap().config.deleted, "both are");
}

#[tokio::test]
async fn a_config_that_lacks_members_is_written_all_the_same() {
    let platform = Platform::new().await;
    let documents = platform.documents().await;
    let (one, two) = (platform.replica(), platform.replica());
    let a = client("a");
    documents.insert_one(document("d", "a", 1, "http://a.test")).await.unwrap();
    let lacks = doc! { "$unset": { "version": "", "deleted_at": "", "updated_at": "", "owner": "" } };
    documents.update_one(doc! {}, lacks).await.unwrap();
    let tried = one.configs.get(&a).await.unwrap().unwrap().config;
    assert_eq!(two.configs.deactivate(&tried, 1).await, Ok(true));
    assert_eq!(one.configs.deactivate(&tried, 1).await, Ok(false));
    let value = r#"{"webhook":"http://a.test/","n":[1,1.5,null,{"$date":"2026-01-01T00:00:00Z"}]}"#;
    assert_eq!(one.configs.put(&a, Status::Active, value.into(), 2).await, Ok(Put::Replaced));
    let config = two.configs.get(&a).await.unwrap().unwrap().config;
    assert!(config.is_usable() && config.version == 2, "{config:?}");
    for value in ["hunter2", r#"{"a":{"$oid":"hunter2"}}"#, r#"{"$hunter2":1}"#] {
        let refused = one.configs.put(&a, Status::Active, value.into(), 9).await.unwrap_err();
        assert!(!refused.is_transient(), "{value}: {refused}");
        assert!(!refused.to_string().contains("\"hunter2"), "{refused}");
    }
}

#[tokio::test]
async fn without_redis_mongodb_is_asked_and_notices_come_again() {
    let redis = own(services::own_redis).await;
    let platform = Platform::new().await.with_redis(&redis);
    let documents = platform.documents().await;
    let replica = platform.replica();
    connected(&replica).await;
    let read = document("d", "a", 1, "http://a.test/");
    documents.insert_one(&read).await.unwrap();
    for stop in [Service::kill as fn(&Service), Service::freeze] {
        stop(&redis);
        // The first to ask finds out.
        recheck_now(&replica, &["a"]).await;
        let start = Instant::now();
        assert_eq!(webhook(&recheck_ever(&replica, &["a", "b"]).await[0]), "http://a.test/");
        assert_eq!(replica.configs.load().await.unwrap().len(), 1);
        assert!(replica.configs.get(&client("a")).await.unwrap().is_some());
        documents.update_one(doc! {}, doc! { "$inc": { "version": 1 } }).await.unwrap();
        assert_eq!(replica.configs.changed(hint("d", Some(&read))).await, Ok(Some(client("a"))));
        // Whoever waited for Redis each time would take longer.
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        assert!(replica.redis.health().await.is_err());
        assert!(replica.metrics.copies_dropped.with_label_values(&["config"]).get() > 0);
        assert_eq!(soon(replica.configs.next_notice()).await, ConfigNotice::Changed(client("a")), "its own");
        // Whichever it was.
        redis.kill();
        redis.start_again();
        connected(&replica).await;
        let other = platform.replica();
        connected(&other).await;
        documents.update_one(doc! {}, doc! { "$inc": { "version": 1 } }).await.unwrap();
        assert_eq!(other.configs.changed(hint("d", Some(&read))).await, Ok(Some(client("a"))));
        assert_eq!(soon(replica.configs.next_notice()).await, ConfigNotice::Changed(client("a")));
    }
}

#[tokio::test]
async fn redis_may_come_back_empty() {
    let redis = own(services::own_redis).await;
    let platform = Platform::new().await.with_redis(&redis);
    let documents = platform.documents().await;
    let replica = platform.replica();
    connected(&replica).await;
    documents.insert_one(document("d", "a", 1, "http://a.test/")).await.unwrap();
    replica.configs.load().await.unwrap();
    redis::cmd("FLUSHALL").exec_async(&mut platform.keys().await).await.unwrap();
    assert_eq!(recheck_ever(&replica, &["a", "b"]).await.len(), 1);
    replica.configs.load().await.unwrap();
    let ids = format!("{}:dsp:config-ids", platform.prefix);
    let client_of: String = platform.keys().await.hget(ids, "d").await.unwrap();
    assert_eq!(client_of, "a");
    redis::cmd("FLUSHALL").exec_async(&mut platform.keys().await).await.unwrap();
    documents.delete_many(doc! {}).await.unwrap();
    let changed = replica.configs.changed(removed("d")).await;
    assert_eq!(changed, Ok(Some(client("a"))), "this replica has seen it");
}

async fn works_soon(replica: &Replica) {
    let start = Instant::now();
    soon(async { while replica.configs.get(&client("a")).await.is_err() {} }).await;
    // The driver looks every 10 s by itself, and twice a second while somebody asks.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn without_mongodb_everything_waits_and_goes_on_by_itself() {
    let mongo = own(services::own_mongo).await;
    let platform = Platform::new().await.with_mongo(&mongo);
    let replica = platform.replica();
    let read = document("d", "a", 1, "http://a.test/");
    platform.documents().await.insert_one(&read).await.unwrap();
    assert!(replica.configs.health().await.is_ok());
    mongo.kill();
    let a = client("a");
    let start = Instant::now();
    let (load, get, changed, recheck, put, off, health) = tokio::join!(
        replica.configs.load(),
        replica.configs.get(&a),
        replica.configs.changed(hint("d", Some(&read))),
        replica.configs.recheck(vec![ClientId::new("a")], i64::MAX),
        replica.configs.put(&a, Status::Active, "{}".into(), 1),
        replica.configs.delete(&a, 1),
        replica.configs.health(),
    );
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    let errors = [load.err(), get.err(), changed.err(), recheck.err(), put.err(), off.err(), health.err()];
    for err in errors {
        let err = err.unwrap();
        assert!(err.is_transient(), "{err}");
        assert!(err.to_string().len() < 400, "{err}");
    }
    mongo.start_again();
    works_soon(&replica).await;
    mongo.freeze();
    let start = Instant::now();
    assert!(replica.configs.get(&a).await.unwrap_err().is_transient());
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    mongo.thaw();
    works_soon(&replica).await;
    assert_eq!(replica.configs.changed(hint("d", Some(&read))).await, Ok(Some(a)));
}

#[tokio::test]
async fn a_server_tells_what_it_is() {
    let platform = Platform::new().await;
    let replica = platform.replica();
    platform.documents().await.insert_one(document("d", "a", 1, "http://a.test/")).await.unwrap();
    let others = platform.client().await.database(&format!("{}x-other", platform.prefix));
    others.collection("c").insert_one(doc! {}).await.unwrap();
    let server = replica.configs.server().await.unwrap();
    assert!(server.version.starts_with(|first: char| first.is_ascii_digit()), "{server:?}");
    let found = replica.configs.pre_images().await.unwrap();
    let names: Vec<_> = found.iter().map(|found| (found.collection.as_str(), found.enabled)).collect();
    assert_eq!(names, [(format!("{}-context.configs", platform.prefix).as_str(), false)]);
    assert_eq!(replica.configs.can_write().await, Ok(true));
    assert_eq!(platform.documents().await.count_documents(doc! {}).await.unwrap(), 1);
    connected(&replica).await;
    let now_ms = SystemClock.now_ms();
    assert!(server.clock_ms.is_some_and(|clock_ms| (now_ms - clock_ms).abs() < 10_000), "{server:?}");
    let server = replica.redis.server().await.unwrap();
    assert!(server.version.starts_with(|first: char| first.is_ascii_digit()), "{server:?}");
    assert_eq!(server.eviction, "noeviction");
    assert!((now_ms - server.clock_ms).abs() < 10_000, "{server:?}");
}

#[tokio::test]
async fn passwords_open_and_are_never_told() {
    let redis = own(services::own_redis).await;
    let platform = Platform::new().await.with_redis(&redis);
    let mut keys = platform.keys().await;
    redis::cmd("CONFIG").arg(&["SET", "requirepass", "hunter2"]).exec_async(&mut keys).await.unwrap();
    let ask = async |password: &str| {
        let options = RedisOptions { password: Some(Secret::new(password)), ..platform.redis_options() };
        let redis = Redis::open(&options, Metrics::new(), Handle::current()).unwrap();
        loop {
            let health = redis.health().await;
            if !format!("{health:?}").contains("not connected yet") {
                return health;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert_eq!(soon(ask("hunter2")).await, Ok(()));
    let err = soon(ask("hunter3")).await.unwrap_err();
    assert!(err.is_transient() && !err.to_string().contains("hunter"), "{err}");
    let options = RedisOptions { url: Secret::new("redis:/hunter2"), ..platform.redis_options() };
    let err = Redis::open(&options, Metrics::new(), Handle::current()).err().unwrap();
    assert!(!format!("{err} {err:?} {options:?}").contains("hunter2"));

    let options = MongoOptions {
        user: Some("nobody".into()),
        password: Some(Secret::new("hunter2")),
        ..platform.mongo_options()
    };
    let err = platform.replica_with(&options).configs.health().await.unwrap_err();
    assert!(err.is_transient() && !err.to_string().contains("hunter2"), "{err}");
}
