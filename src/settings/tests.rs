use std::time::Duration;

use super::environment::VARIABLES;
use super::*;

pub(super) fn sources(file: Option<&std::path::Path>, variables: &[(&str, &str)]) -> Sources {
    Sources {
        file: file.map(Into::into),
        roles: None,
        environment: variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
    }
}

/// The message for a settings file with this text.
pub(super) fn mistake_in(text: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let message = Settings::load(&sources(Some(file.path()), &[])).unwrap_err().to_string();
    message.replace(&file.path().display().to_string(), "FILE")
}

pub(super) fn mistake_with(variables: &[(&str, &str)]) -> String {
    Settings::load(&sources(None, variables)).unwrap_err().to_string()
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let settings = Settings::load(&Sources::default()).unwrap();
    assert_eq!(settings.mode, Mode::Embedded);
    assert_eq!(settings.api.address().to_string(), "127.0.0.1:4010");
    assert!(settings.api.admin_token.is_none());
    assert_eq!(settings.source.transfer_group(), "dispatcher-transfer");
    assert_eq!(settings.delivery.total_bytes, 64 << 20);
    assert_eq!(settings.retry.cap, Duration::from_secs(900));
    assert_eq!(settings.egress.allow, EgressRule::default());
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_the_defaults() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "[api]\nport = 1\nhost = \"::1\"\n[delivery]\nclient_bytes = 4096\n[retry]\nfactor = 3\n",
    )
    .unwrap();
    let variables = [
        ("DISPATCHER_CONFIG", file.path().to_str().unwrap()),
        ("DISPATCHER_API_PORT", "2"),
        ("DISPATCHER_EGRESS_ALLOW", "127.0.0.0/8, *.internal,"),
        ("DISPATCHER_RETRY_BASE", ""),
        ("SOMETHING_ELSE", "x"),
    ];
    let settings = Settings::load(&sources(None, &variables)).unwrap();
    assert_eq!(settings.api.address().to_string(), "[::1]:2");
    assert_eq!(settings.delivery.client_bytes, 4096);
    assert!((settings.retry.factor - 3.0).abs() < f64::EPSILON);
    assert!(settings.egress.allow.permits("x.internal", "10.0.0.1".parse().unwrap()));
    assert!(settings.egress.allow.permits("x", "127.0.0.1".parse().unwrap()));
    assert_eq!(settings.retry.base, Duration::from_secs(5));
}

#[test]
fn each_variable_has_its_key_and_is_documented_beside_it() {
    let defaults = include_str!("../../config/default.toml");
    for variable in VARIABLES {
        assert!(defaults.contains(variable.name), "{}", variable.name);
        let broken = Settings::load(&sources(None, &[(variable.name, "\u{1}")]));
        // A log filter is read by the logger, a folder may have any name.
        let free = ["log.filter", "data_dir", "source.signal_collections"].contains(&variable.key);
        match broken {
            Err(err) => assert_eq!(err.key().split('[').next(), Some(variable.key), "{err}"),
            Ok(_) => assert!(free, "{}", variable.name),
        }
    }
}

#[test]
fn a_mistake_in_the_file_is_one_line_with_the_key() {
    for (text, message) in [
        ("[api]\nprot = 1", "api.prot: there is no such key (set in FILE)"),
        ("[appi]", "appi: there is no such key (set in FILE)"),
        ("api = 3", "api: expected a section, found a whole number (set in FILE)"),
        ("[api]\nport = \"x\"", "api.port: expected a whole number, found a string (set in FILE)"),
        ("[api]\nport = true", "api.port: expected a whole number, found true or false (set in FILE)"),
        ("[api]\nport = 70000", "api.port: is out of range (set in FILE)"),
        ("[api]\nhost = \"here\"", "api.host: invalid IP address syntax (set in FILE)"),
        (
            "[api]\nadmin_token = \"a b\"",
            "api.admin_token: only visible ASCII characters without spaces fit into a header (set in FILE)",
        ),
        ("mode = \"both\"", "mode: expected auto, embedded or cluster, found \"both\" (set in FILE)"),
        (
            "[retry]\nbase = \"soon\"",
            "retry.base: \"soon\" is no duration (write 500ms, 5s, 15min or 3d) (set in FILE)",
        ),
        (
            "roles = [\"ingest\", \"all\"]",
            "roles: \"all\" is no role (there are ingest, transfer, retry, schedule, heavy, web) (set in FILE)",
        ),
        ("roles = []", "roles: must name one role at least (set in FILE)"),
        (
            "roles = [\"web\"]",
            "roles: embedded mode has one process, which does everything: leave it out, or name all of them (set in FILE)",
        ),
        ("[workers]\ndispatcher-heavy = 0", "workers.dispatcher-heavy: must be 1 to 1000 (set in FILE)"),
        ("[workers]\ndispatcher = -1", "workers.dispatcher: is out of range (set in FILE)"),
        ("[workers]\nmail = 1", "workers.mail: there is no such key (set in FILE)"),
        (
            "[stash]\nttl = \"1s\"",
            "stash.ttl: must be 1m to 9years 11months 27days 21h 50m 24s (set in FILE)",
        ),
        ("[retry]\nbase = 5", "retry.base: expected a string, found a whole number (set in FILE)"),
        ("[attempts]\nkept = 10001", "attempts.kept: must be 0 to 10000 (set in FILE)"),
        ("[attempts]\nkept = -1", "attempts.kept: is out of range (set in FILE)"),
        (
            "[operator]\nwebhook = \"mailto:hunter2\"",
            "operator.webhook: must be an http or https address with a host, without user and password (set in FILE)",
        ),
        (
            "[operator]\nsecret = \"hunter2\"",
            "operator.secret: is not base64 (with or without `whsec_` before it) (set in FILE)",
        ),
        (
            "[operator]\nsecret = \"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3\"",
            "operator.secret: needs operator.webhook (DISPATCHER_OPERATOR_WEBHOOK) (set in FILE)",
        ),
        ("[retry]\njitter = 1.5", "retry.jitter: must be 0 to 0.9 (set in FILE)"),
        ("[retry]\ncap = \"1s\"", "retry.cap: must not be below retry.base (set in FILE)"),
        ("[transfer]\npartitions = 0", "transfer.partitions: must be 1 to 1024 (set in FILE)"),
        (
            "[delivery]\nconnect_timeout = \"2min\"",
            "delivery.connect_timeout: must be 10ms to 1m (set in FILE)",
        ),
        (
            "[delivery]\ntotal_bytes = \"8MB\"",
            "delivery.total_bytes: \"8MB\" is no size (write 16KiB, 8MiB or 1GiB) (set in FILE)",
        ),
        (
            "[egress]\nallow = [\"10.0.0.0/8\", \"10.0.0.0/99\"]",
            "egress.allow: \"10.0.0.0/99\" is no network (10.0.0.0/8), address, name or *.name (set in FILE)",
        ),
        ("[egress]\nallow = [1]", "egress.allow[0]: expected a string (set in FILE)"),
        (
            "[tls]\nca_file = \"/nowhere/ca.pem\"",
            "tls.ca_file: cannot read /nowhere/ca.pem: No such file or directory (os error 2) (set in FILE)",
        ),
    ] {
        assert_eq!(mistake_in(text), message);
    }
}

#[test]
fn a_mistake_in_a_token_names_its_key_and_shows_no_secret() {
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let token = |name: &str, role: &str, hash: &str| {
        format!("[[api.tokens]]\nname = \"{name}\"\nrole = \"{role}\"\nsha256 = \"{hash}\"\n")
    };
    let other = hash.replace('9', "8");
    for (text, message) in [
        ("[api]\ntokens = 3".to_owned(), "api.tokens: expected sections, [[api.tokens]]"),
        ("[api]\ntokens = [3]".to_owned(), "api.tokens[0]: expected a section with name, role and sha256"),
        ("[[api.tokens]]\nname = \"a\"".to_owned(), "api.tokens[0].role: is missing"),
        ("[[api.tokens]]\nname = 1".to_owned(), "api.tokens[0].name: expected a string"),
        (token("a", "admin", hash), "api.tokens[0].role: must be viewer or operator"),
        (
            token("a b", "viewer", hash),
            "api.tokens[0].name: must be letters, digits, '.', '_' and '-', at most 64",
        ),
        (
            token("admin", "viewer", hash),
            "api.tokens[0].name: this name is taken: admin has api.admin_token, loopback is who needs no token",
        ),
        (
            token("a", "viewer", "hunter2"),
            "api.tokens[0].sha256: must be the SHA-256 of the token, 64 hex digits",
        ),
        (token("a", "viewer", hash) + "secret = \"hunter2\"", "api.tokens[0].secret: there is no such key"),
        (
            token("a", "viewer", hash) + &token("a", "operator", &other),
            "api.tokens[1].name: is that of another token",
        ),
        (
            token("a", "viewer", hash) + &token("b", "operator", hash),
            "api.tokens[1].sha256: is that of another token",
        ),
        // The SHA-256 of "test".
        (
            "[api]\nadmin_token = \"test\"\n".to_owned() + &token("a", "viewer", hash),
            "api.tokens[0].sha256: is that of another token",
        ),
    ] {
        assert_eq!(mistake_in(&text), format!("{message} (set in FILE)"));
    }
}

#[test]
fn a_broken_file_is_named_without_showing_its_lines() {
    let message = mistake_in("[api]\nadmin_token = \"hunter2\n");
    assert!(message.starts_with("FILE: TOML parse error at line 2"), "{message}");
    assert!(!message.contains("hunter2") && !message.contains('\n'), "{message}");
}

#[test]
fn a_mistake_in_the_environment_names_the_variable() {
    for (variables, message) in [
        (
            &[("DISPATCHER_API_PORT", "x")][..],
            "api.port: expected a whole number, found \"x\" (set in DISPATCHER_API_PORT)",
        ),
        (
            &[("DISPATCHER_EGRESS_ALLOW", "10.0.0.0/8,/")],
            "egress.allow: \"/\" is no network (10.0.0.0/8), address, name or *.name (set in DISPATCHER_EGRESS_ALLOW)",
        ),
        (
            &[("DISPATCHER_CONFIG", "/nowhere.toml")],
            "DISPATCHER_CONFIG: cannot read /nowhere.toml: No such file or directory (os error 2)",
        ),
        (
            &[("DISPATCHER_ADMIN_TOKEN", "a"), ("DISPATCHER_ADMIN_TOKEN_FILE", "/x")],
            "api.admin_token: both DISPATCHER_ADMIN_TOKEN and DISPATCHER_ADMIN_TOKEN_FILE are set: keep one",
        ),
        (
            &[("DISPATCHER_ADMIN_TOKEN_FILE", "/nowhere")],
            "api.admin_token: cannot read /nowhere: No such file or directory (os error 2) (set in DISPATCHER_ADMIN_TOKEN_FILE)",
        ),
    ] {
        assert_eq!(mistake_with(variables), message);
    }
}

#[test]
fn a_secret_is_read_from_its_file_and_never_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hunter2\n").unwrap();
    let path = file.path().to_str().unwrap();
    let settings = Settings::load(&sources(None, &[("DISPATCHER_ADMIN_TOKEN_FILE", path)])).unwrap();
    assert_eq!(settings.api.admin_token.as_ref().unwrap().expose(), "hunter2");
    assert!(!format!("{settings:?}").contains("hunter2"));

    std::fs::write(file.path(), "\n").unwrap();
    assert!(mistake_with(&[("DISPATCHER_ADMIN_TOKEN_FILE", path)]).contains("is empty"));
    let message = mistake_with(&[("DISPATCHER_ADMIN_TOKEN", "hunter 2")]);
    assert!(!message.contains("hunter"), "{message}");
}

#[test]
fn nothing_of_the_operators_webhook_shows() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3\n").unwrap();
    let variables = [
        ("DISPATCHER_OPERATOR_WEBHOOK", "https://ops.test/in?key=hunter2"),
        ("DISPATCHER_OPERATOR_SECRET_FILE", file.path().to_str().unwrap()),
    ];
    let settings = Settings::load(&sources(None, &variables)).unwrap();
    assert_eq!(settings.operator.url().unwrap().query(), Some("key=hunter2"));
    assert!(settings.operator.secret.is_some());
    let shown = format!("{settings:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("MDEy"), "{shown}");
    let message = mistake_with(&[("DISPATCHER_OPERATOR_WEBHOOK", "https://hunter2@ops.test/")]);
    assert!(message.starts_with("operator.webhook: ") && !message.contains("hunter2"), "{message}");
}

#[test]
fn who_sets_what_is_not_used_is_told() {
    let environment = Environment::from_iter(
        [
            ("CLEANER_STASH_LOGS_TTL", "3d"),
            ("OTLP_PORT", "4317"),
            ("OTLP_HOST", ""),
            ("DISPATCHER_START", "now"),
            ("REDIS_HOST", "redis"),
            ("DISPATCHER_MODE", "embedded"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    assert_eq!(unused(&environment, Mode::Embedded), ["OTLP_PORT", "DISPATCHER_START"]);
    assert_eq!(unused(&environment, Mode::Cluster), ["OTLP_PORT"]);
}

#[test]
fn the_roles_of_the_command_line_win() {
    let cluster = [
        ("DISPATCHER_ROLES", "ingest, heavy"),
        ("KAFKA_HOST", "k"),
        ("REDIS_HOST", "r"),
        ("MONGO_HOST", "m"),
        ("POSTGRES_HOST", "p"),
    ];
    let mut sources = sources(None, &cluster);
    if cfg!(feature = "cluster") {
        let settings = Settings::load(&sources).unwrap();
        assert_eq!(settings.roles.list(), [Role::Ingest, Role::Heavy]);
    }
    sources.roles = Some(vec!["lead".to_owned()]);
    let message = Settings::load(&sources).unwrap_err().to_string();
    assert!(
        message.starts_with("roles: \"lead\" is no role") && message.ends_with("(set in --roles)"),
        "{message}"
    );
}
