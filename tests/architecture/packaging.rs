//! The Dockerfile and compose.yaml fit the settings and each other. No engine is needed, so nothing here is built or run.

use std::collections::BTreeMap;
#[cfg(feature = "cluster")]
use std::collections::BTreeSet;

use dispatcher::settings::Environment;
#[cfg(feature = "cluster")]
use dispatcher::settings::{Mode, Settings, Sources};
#[cfg(feature = "cluster")]
use serde_json::Value;

use crate::root;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

/// The lines below a line of compose.yaml, up to the next that is indented no deeper.
fn block<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().skip_while(|line| line.trim_start() != heading);
    let first = lines.next().unwrap_or_else(|| panic!("no line {heading:?}"));
    lines.take_while(|line| line.trim().is_empty() || depth(line) > depth(first)).collect()
}

/// `KEY: value` lines, comments left out, quotation marks taken off.
fn members<'a>(lines: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let members = lines.iter().map(|line| line.trim()).filter(|line| !line.starts_with('#'));
    let members = members.filter_map(|line| line.split_once(": "));
    members.map(|(key, value)| (key, value.trim_matches('"'))).collect()
}

/// What a variable has when nobody set the ones that it is made of: `${NAME:-default}`, `${NAME:?to be set}`.
fn substituted(value: &str) -> String {
    let Some(inside) = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
        return value.to_owned();
    };
    match (inside.split_once(":-"), inside.split_once(":?")) {
        (Some((_, default)), _) => default.to_owned(),
        (None, Some(_)) => "given".to_owned(),
        (None, None) => panic!("{value} has no default: say what it needs"),
    }
}

fn environment() -> Environment {
    let compose = read("compose.yaml");
    let members = members(&block(&compose, "x-environment: &environment"));
    members.into_iter().map(|(name, value)| (name.to_owned(), substituted(value))).collect()
}

#[cfg(feature = "cluster")]
fn settings() -> Settings {
    Settings::load(&Sources { environment: environment(), ..Sources::default() }).unwrap()
}

fn is_known(variable: &str) -> bool {
    let defaults = include_str!("../../config/default.toml");
    defaults.split(|c: char| !c.is_ascii_uppercase() && c != '_').any(|word| word == variable)
}

#[cfg(feature = "cluster")]
fn services(compose: &str) -> BTreeSet<&str> {
    let services = block(compose, "services:").into_iter();
    let names = services.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.trim().strip_suffix(':')).collect()
}

#[test]
fn the_environment_of_compose_is_one_that_the_settings_know() {
    let unknown: Vec<String> = environment().into_keys().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "no such settings: {unknown:?}");
}

#[test]
#[cfg(feature = "cluster")]
fn compose_starts_cluster_mode_with_its_own_stores() {
    let settings = settings();
    assert_eq!(settings.mode, Mode::Cluster);
    assert!(settings.api.admin_token.is_some());
    let compose = read("compose.yaml");
    let services = services(&compose);
    let kafka = settings.kafka.bootstrap_servers().unwrap();
    let mongo = settings.mongo.hosts().unwrap();
    for address in [&*kafka, &settings.redis.host, mongo.expose(), &settings.postgres.host] {
        let host = address.split(':').next().unwrap();
        assert!(services.contains(host), "{address} is none of {services:?}");
    }
    assert!(compose.contains(&format!("KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://{kafka}\n")));
}

#[test]
fn a_variable_that_stands_twice_in_compose_has_one_value() {
    let compose = read("compose.yaml");
    let mut values = BTreeMap::new();
    for (key, value) in members(&compose.lines().collect::<Vec<_>>()) {
        if key.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            assert_eq!(*values.entry(key).or_insert(value), value, "{key}");
        }
    }
    assert!(values.contains_key("POSTGRES_PASSWORD"));
}

#[test]
#[cfg(feature = "cluster")]
fn each_replica_has_a_port_of_its_own_on_this_machine() {
    let compose = read("compose.yaml");
    let inside = settings().api.port;
    let mut ports = BTreeSet::new();
    for service in services(&compose).into_iter().filter(|service| service.starts_with("dispatcher-")) {
        let block = block(&compose, &format!("{service}:")).join("\n");
        let (_, port) = block.split_once("ports: [\"127.0.0.1:").expect("published on this machine only");
        let (outside, rest) = port.split_once(':').unwrap();
        assert!(rest.starts_with(&format!("{inside}\"]")), "{service} listens on {inside}: {block}");
        assert!(ports.insert(outside.to_owned()), "{service}: {outside} is another's");
    }
    assert_eq!(ports.len(), 3);
    assert!(read("Dockerfile").contains(&format!("EXPOSE {inside}\n")));
}

#[test]
#[cfg(feature = "cluster")]
fn debezium_reads_what_the_service_expects() {
    let settings = settings();
    let connector: Value = serde_json::from_str(&read("docker/mongo-source.json")).unwrap();
    let member = |name: &str| connector[name].as_str().unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(member("topic.prefix"), settings.source.prefix);
    assert_eq!(member("capture.mode"), "change_streams_update_full_with_pre_image");
    assert!(member("collection.include.list").starts_with(&format!("{}-", settings.mongo.prefix)));
    let mongo = settings.mongo.hosts().unwrap();
    let expected = format!("mongodb://{}/?{}", mongo.expose(), settings.mongo.query);
    assert_eq!(member("mongodb.connection.string"), expected);
    let set = settings.mongo.query.strip_prefix("replicaSet=").unwrap();
    assert!(read("compose.yaml").contains(&format!("\"--replSet\", \"{set}\"")));
    assert!(read("docker/mongo-init.js").contains(&format!("_id: \"{set}\"")));
}

#[test]
fn what_compose_mounts_and_names_is_there() {
    let compose = read("compose.yaml");
    let named: Vec<&str> =
        compose.split(['"', '@', ' ']).filter_map(|word| word.strip_prefix("/docker/")).collect();
    assert!(named.len() >= 2, "{named:?}");
    for file in named {
        assert!(root().join("docker").join(file).is_file(), "docker/{file}");
    }
    for (key, image) in members(&compose.lines().collect::<Vec<_>>()) {
        assert!(key != "image" || image == "dispatcher" || image.contains(':'), "{image} has no version");
    }
}

#[test]
fn the_dockerfile_names_what_is_there() {
    let dockerfile = read("Dockerfile");
    let manifest = read("Cargo.toml");
    let version = manifest.split("rust-version = \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(dockerfile.contains(&format!("FROM rust:{version}-")), "the image of Rust {version}");
    assert!(dockerfile.contains("\nFROM gcr.io/distroless/cc-debian12:nonroot\n"), "no root, no shell");
    let binary = "/build/target/release/dispatcher /usr/local/bin/dispatcher\n";
    assert!(dockerfile.contains(binary) && dockerfile.contains("ENTRYPOINT [\"/usr/local/bin/dispatcher\"]"));
    for line in dockerfile.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("COPY") if !line.contains("--from=") => {
                let sources: Vec<&str> = words.collect();
                for source in &sources[..sources.len() - 1] {
                    assert!(root().join(source).exists(), "{line}: no {source}");
                }
            }
            Some("ENV") if line.contains("DISPATCHER_") => {
                let names: Vec<&str> = words.filter_map(|word| Some(word.split_once('=')?.0)).collect();
                assert!(names.iter().all(|name| is_known(name)), "{names:?}");
            }
            _ => {}
        }
    }
    for place in ["DISPATCHER_DATA_DIR=/data ", "VOLUME /data\n", "WORKDIR /data\n"] {
        assert!(dockerfile.contains(place), "{place:?}");
    }
    assert!(read(".dockerignore").lines().any(|line| line == "target"), "the build folder stays outside");
}

/// The tools take what stands before the first `_` as the version: of two migrations with one version only one ever runs.
#[test]
fn no_two_migrations_have_one_version() {
    for folder in ["postgres", "sqlite", "sqlite-queues"] {
        let mut versions = BTreeMap::new();
        for file in crate::files_below(&root().join("migrations").join(folder), "sql") {
            let name = file.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
            let version: String = name.split('_').next().unwrap().replace('-', "");
            let first = versions.entry(version).or_insert_with(|| name.clone());
            assert_eq!(*first, name, "migrations/{folder}");
        }
        assert!(!versions.is_empty(), "migrations/{folder}");
    }
}

#[test]
fn values_with_defaults_are_read() {
    assert_eq!(substituted("${A:-x}"), "x");
    assert_eq!(substituted("${A:-}"), "");
    assert_eq!(substituted("${A:?say it}"), "given");
    assert_eq!(substituted("plain"), "plain");
    assert_eq!(block("a:\n  b: 1\n\n  c: 2\nd:\n", "a:"), ["  b: 1", "", "  c: 2"]);
}
