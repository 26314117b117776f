//! The settings of cluster mode.

#[cfg(feature = "cluster")]
use std::time::Duration;

use super::tests::{mistake_in, mistake_with, sources};
use super::*;

/// The least that cluster mode needs.
const CLUSTER: [(&str, &str); 4] = [
    ("KAFKA_HOST", "kafka"),
    ("REDIS_HOST", "redis"),
    ("MONGO_HOST", "mongo:27017"),
    ("POSTGRES_HOST", "pg"),
];

fn with<'a>(variables: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    CLUSTER.iter().chain(variables).copied().collect()
}

#[cfg(feature = "cluster")]
fn cluster(variables: &[(&str, &str)]) -> Settings {
    Settings::load(&sources(None, &with(variables))).unwrap()
}

#[cfg(feature = "cluster")]
fn shown(url: Option<crate::domain::config::Secret>) -> String {
    url.unwrap().expose().to_owned()
}

fn options(settings: &Settings) -> Vec<(&str, &str)> {
    settings.kafka.options.iter().map(|(name, value)| (name.as_str(), value.expose())).collect()
}

#[test]
#[cfg(not(feature = "cluster"))]
fn a_build_without_it_refuses_cluster_mode() {
    let message = mistake_with(&with(&[]));
    assert!(
        message.starts_with("mode: this build has no cluster mode: build it with the feature"),
        "{message}"
    );
}

#[test]
fn embedded_mode_needs_none_of_it() {
    let settings =
        Settings::load(&sources(None, &with(&[("DISPATCHER_MODE", "embedded"), ("MONGO_HOST", "")])))
            .unwrap();
    assert_eq!(settings.mode, Mode::Embedded);
    assert!(settings.api.host.is_loopback());
}

#[test]
fn a_mistake_is_one_line_with_the_key_and_the_variable() {
    for (variables, message) in [
        (
            &[("KAFKA_HOST", "kafka:9092/x")][..],
            "kafka.host: must be a host, or host:port, without a scheme or a path (set in KAFKA_HOST)",
        ),
        (&[("KAFKA_PORT", "0")], "kafka.port: must be 1 to 65535 (set in KAFKA_PORT)"),
        (&[("KAFKA_PORT", "99999")], "kafka.port: is out of range (set in KAFKA_PORT)"),
        (
            &[("KAFKA_BROKERS", "a:9092,b c")],
            "kafka.brokers[1]: must be a host, or host:port, without a scheme or a path (set in KAFKA_BROKERS)",
        ),
        (
            &[("DISPATCHER_START", "yesterday")],
            "kafka.start: \"yesterday\" is neither now, earliest nor a time (write 2026-01-31T08:00:00Z) (set in DISPATCHER_START)",
        ),
        (
            &[("DISPATCHER_TRANSFER_TOPIC", "mongo.transfer")],
            "kafka.transfer_topic: must not begin with \"mongo.\": the source topics do (source.prefix), and it would be read as one (set in DISPATCHER_TRANSFER_TOPIC)",
        ),
        (
            &[("DISPATCHER_SOURCE_PREFIX", "cdc"), ("DISPATCHER_DEAD_TOPIC", "cdc.dead")],
            "kafka.dead_topic: must not begin with \"cdc.\": the source topics do (source.prefix), and it would be read as one (set in DISPATCHER_DEAD_TOPIC)",
        ),
        (
            &[("DISPATCHER_EVENTS_TOPIC", "dispatcher-dead")],
            "kafka.events_topic: must not be the topic of kafka.dead_topic (set in DISPATCHER_EVENTS_TOPIC)",
        ),
        (
            &[("DISPATCHER_TRANSFER_TOPIC", "a b")],
            "kafka.transfer_topic: must be letters, digits, '.', '_' and '-', at most 200 (set in DISPATCHER_TRANSFER_TOPIC)",
        ),
        (
            &[("REDIS_URL", "http://hunter2@x")],
            "redis.url: must begin with redis:// or rediss:// (set in REDIS_URL)",
        ),
        (
            &[("MONGO_URL", "mongo://hunter2@x")],
            "mongo.url: must begin with mongodb:// or mongodb+srv:// (set in MONGO_URL)",
        ),
        (
            &[("MONGO_HOST", "a:1,,b:2")],
            "mongo.host: must be host:port, several with commas (set in MONGO_HOST)",
        ),
        (
            &[("MONGO_QUERY", "?replicaSet=rs0")],
            "mongo.query: must be name=value pairs with & between them, without the ? (set in MONGO_QUERY)",
        ),
        (&[("MONGO_PASS", "hunter2")], "mongo.password: needs mongo.user (MONGO_USER) (set in MONGO_PASS)"),
        (
            &[("POSTGRES_URL", "pg://hunter2@x")],
            "postgres.url: must begin with postgres:// or postgresql:// (set in POSTGRES_URL)",
        ),
        (
            &[("POSTGRES_PASSWORD", "hunter2"), ("POSTGRES_PASSWORD_FILE", "/x")],
            "postgres.password: both POSTGRES_PASSWORD and POSTGRES_PASSWORD_FILE are set: keep one",
        ),
    ] {
        assert_eq!(mistake_with(&with(variables)), message);
    }
    for (text, message) in [
        ("[postgres]\nsslmode = \"maybe\"", "postgres.sslmode: "),
        ("[postgres]\npool_size = 0", "postgres.pool_size: must be 1 to 1000 (set in FILE)"),
        ("[kafka]\nsession_timeout = \"1s\"", "kafka.session_timeout: must be 3s to 5m (set in FILE)"),
        ("[queue]\nprefix = \"wnx:dsp:q\"", "queue.prefix: must not begin as the service's own keys"),
        ("[kafka]\ntopic = \"x\"", "kafka.topic: there is no such key (set in FILE)"),
    ] {
        let said = mistake_in(text);
        assert!(said.starts_with(message), "{said}");
    }
}

#[test]
#[cfg(feature = "cluster")]
fn what_cluster_mode_needs_is_asked_for_by_key_and_variable() {
    for (absent, key, variable) in [
        ("KAFKA_HOST", "kafka.brokers", "KAFKA_BROKERS"),
        ("REDIS_HOST", "redis.host", "REDIS_HOST"),
        ("MONGO_HOST", "mongo.host", "MONGO_HOST"),
        ("POSTGRES_HOST", "postgres.host", "POSTGRES_HOST"),
    ] {
        let message = mistake_with(&with(&[(absent, ""), ("DISPATCHER_MODE", "cluster")]));
        assert!(message.starts_with(&format!("{key}: cluster mode needs it: set ")), "{message}");
        assert!(message.contains(variable) && !message.contains('\n'), "{message}");
    }
}

#[test]
#[cfg(feature = "cluster")]
fn the_platforms_variables_name_all_stores() {
    let settings = cluster(&[
        ("KAFKA_PORT", "19092"),
        ("DISPATCHER_START", "2026-01-31T09:00:00+01:00"),
        ("REDIS_PASSWORD", "p@ss/word"),
        ("MONGO_HOST", "a:27017,b:27018"),
        ("MONGO_DB", "wenex"),
        ("MONGO_USER", "root"),
        ("MONGO_PASS", "a:b@c"),
        ("MONGO_QUERY", "replicaSet=rs0&authSource=admin"),
        ("POSTGRES_DB", "my db"),
        ("POSTGRES_USER", "me"),
        ("POSTGRES_PASSWORD", "?"),
    ]);
    assert_eq!(settings.mode, Mode::Cluster);
    assert_eq!(settings.api.address().to_string(), "0.0.0.0:4010");
    assert_eq!(settings.kafka.bootstrap_servers().unwrap(), "kafka:19092");
    assert_eq!(settings.kafka.start, Start::At(1_769_846_400_000));
    assert_eq!(settings.kafka.session_timeout, Duration::from_secs(10));
    assert_eq!(shown(settings.redis.url()), "redis://redis:6379/");
    #[cfg(feature = "cluster")]
    assert_eq!(shown(settings.queue_url().ok()), "redis://:p%40ss%2Fword@redis:6379/");
    assert_eq!(shown(settings.redis.password), "p@ss/word");
    assert_eq!(shown(settings.mongo.hosts()), "a:27017,b:27018");
    assert_eq!((settings.mongo.db.as_str(), settings.mongo.user.as_str()), ("wenex", "root"));
    assert_eq!(shown(settings.mongo.password), "a:b@c");
    assert_eq!(settings.mongo.query, "replicaSet=rs0&authSource=admin");
    assert_eq!((settings.postgres.db.as_str(), settings.postgres.user.as_str()), ("my db", "me"));
    assert_eq!(shown(settings.postgres.password), "?");
    assert_eq!(settings.queue.prefix, "bull");
}

#[test]
#[cfg(feature = "cluster")]
fn a_url_or_a_list_wins_over_host_and_port() {
    let settings = cluster(&[
        ("DISPATCHER_API_HOST", "127.0.0.1"),
        ("KAFKA_BROKERS", "a:1, b"),
        ("REDIS_URL", "rediss://r:1/2"),
        ("MONGO_URL", "mongodb+srv://m"),
        ("POSTGRES_URL", "postgresql://p/x"),
    ]);
    assert!(settings.api.host.is_loopback());
    assert_eq!(settings.kafka.bootstrap_servers().unwrap(), "a:1,b");
    assert_eq!(shown(settings.redis.url()), "rediss://r:1/2");
    assert_eq!(shown(settings.mongo.hosts()), "mongodb+srv://m");
    assert!(settings.postgres.is_named());
    let v6 = cluster(&[("REDIS_HOST", "::1")]);
    assert_eq!(shown(v6.redis.url()), "redis://[::1]:6379/");
}

#[test]
#[cfg(feature = "cluster")]
fn no_secret_is_ever_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hunter2\n").unwrap();
    let path = file.path().to_str().unwrap();
    let settings = cluster(&[
        ("REDIS_URL", "redis://:hunter2@r/"),
        ("REDIS_PASSWORD", "hunter2"),
        ("MONGO_USER", "u"),
        ("MONGO_PASS_FILE", path),
        ("POSTGRES_PASSWORD_FILE", path),
        ("DISPATCHER_KAFKA__SASL_PASSWORD_FILE", path),
    ]);
    assert_eq!(shown(settings.mongo.password.clone()), "hunter2");
    assert_eq!(options(&settings), [("sasl.password", "hunter2")]);
    assert!(!format!("{settings:?}").contains("hunter2"));
    for variable in ["REDIS_PASSWORD", "MONGO_URL", "POSTGRES_PASSWORD"] {
        let message = mistake_with(&with(&[(variable, "hunter2\t")]));
        assert!(message.contains("control characters") && !message.contains("hunter"), "{message}");
    }
}

#[test]
#[cfg(feature = "cluster")]
fn what_the_guarantees_rest_on_cannot_be_set_for_librdkafka() {
    let refused = |name: &str| format!("kafka.options.{name}: the service sets this one itself");
    for text in ["[kafka.options]\ngroup.id = \"x\"", "[kafka.options]\n\"group.id\" = \"x\""] {
        assert_eq!(mistake_in(text), format!("{} (set in FILE)", refused("group.id")));
    }
    let message = mistake_with(&[("DISPATCHER_KAFKA__ENABLE_AUTO_COMMIT", "true")]);
    let origin = " (set in DISPATCHER_KAFKA__ENABLE_AUTO_COMMIT)";
    assert_eq!(message, refused("enable.auto.commit") + origin);
}

#[test]
fn a_setting_of_librdkafka_that_cannot_be_one_is_refused() {
    for (text, message) in [
        (
            "[kafka.options]\ndebug = [\"x\"]",
            "kafka.options.debug: expected a string, a number, or true or false (set in FILE)",
        ),
        ("[kafka]\noptions = 1", "kafka.options: expected a section (set in FILE)"),
        (
            "[kafka.options]\n\"a b\" = 1",
            "kafka.options.a b: is no name of a librdkafka setting (set in FILE)",
        ),
    ] {
        assert_eq!(mistake_in(text), message);
    }
    for (variables, message) in [
        (
            &[("DISPATCHER_KAFKA__", "x")][..],
            "kafka.options.: is no name of a librdkafka setting (set in DISPATCHER_KAFKA__)",
        ),
        (
            &[("DISPATCHER_KAFKA__SASL_PASSWORD_FILE", "/nowhere")],
            "kafka.options.sasl.password: cannot read /nowhere: No such file or directory (os error 2) (set in DISPATCHER_KAFKA__SASL_PASSWORD_FILE)",
        ),
        (
            &[("DISPATCHER_KAFKA__SASL_PASSWORD_FILE", "/x"), ("DISPATCHER_KAFKA__SASL_PASSWORD", "hunter2")],
            "kafka.options.sasl.password: both DISPATCHER_KAFKA__SASL_PASSWORD and DISPATCHER_KAFKA__SASL_PASSWORD_FILE are set: keep one",
        ),
    ] {
        assert_eq!(mistake_with(variables), message);
    }
}

#[test]
fn settings_of_librdkafka_pass_and_the_environment_wins() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text =
        "[kafka.options]\nsecurity.protocol = \"ssl\"\n\"linger.ms\" = 5\nsocket.keepalive.enable = true\n";
    std::fs::write(file.path(), text).unwrap();
    let variables =
        [("DISPATCHER_KAFKA__SECURITY_PROTOCOL", "SASL_SSL"), ("DISPATCHER_KAFKA__SASL_USERNAME", "")];
    let settings = Settings::load(&sources(Some(file.path()), &variables)).unwrap();
    assert_eq!(
        options(&settings),
        [("linger.ms", "5"), ("security.protocol", "SASL_SSL"), ("socket.keepalive.enable", "true")]
    );
}
