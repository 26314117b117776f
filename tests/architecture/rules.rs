//! The import rule, room by room, and the length of files.

use std::collections::BTreeSet;
use std::path::Path;

use crate::source::{Root, Source};
use crate::{files_below, root};

/// Which of our modules a room may name besides its own. Rooms that are not listed put things together: they may
/// name all.
const ROOMS: [(&str, &[&str]); 9] = [
    ("domain", &[]),
    ("ports", &["domain"]),
    ("runtime", &[]),
    ("metrics", &[]),
    ("settings", &["domain", "backends"]),
    ("backends", &["domain", "ports", "metrics"]),
    ("workers", &["domain", "ports", "runtime", "metrics"]),
    ("actors", &["domain", "ports", "runtime", "workers", "metrics"]),
    ("web", &["domain", "ports", "runtime", "workers", "actors", "metrics"]),
];

/// Crates that stay in their rooms: a driver that leaks is a port that is missing.
const DRIVERS: [(&str, &[&str]); 16] = [
    ("diesel", &["backends/embedded", "backends/postgres"]),
    ("diesel_migrations", &["backends/embedded", "backends/postgres"]),
    ("diesel_async", &["backends/postgres"]),
    ("rdkafka", &["backends/kafka"]),
    ("mongodb", &["backends/mongo"]),
    ("redis", &["backends/redis", "backends/bullmq"]),
    ("bullmq", &["backends/bullmq"]),
    ("rustix", &["ports/clock", "backends/embedded"]),
    ("libsqlite3_sys", &["backends/embedded"]),
    ("awc", &["backends/http", "commands"]),
    ("actix_tls", &["backends/http"]),
    ("webpki_roots", &["backends/http", "backends/postgres", "commands"]),
    ("rustls", &["backends/http", "backends/postgres", "commands", "app", "main"]),
    ("actix", &["runtime", "actors", "app"]),
    ("actix_web_prom", &["web"]),
    ("clap", &["commands", "main"]),
];

/// What the pure rooms may use: no I/O, no async runtime, no clock.
const PURE: [&str; 18] = [
    "base64",
    "bytes",
    "chrono",
    "chrono_tz",
    "croner",
    "data_encoding",
    "futures_util",
    "http",
    "humantime",
    "ipnet",
    "serde",
    "serde_json",
    "sha2",
    "standardwebhooks",
    "std",
    "core",
    "thiserror",
    "url",
];

/// A file may be this long, tests, comments and blank lines not counted.
const LINES: usize = 400;

/// What is wrong with a file; `path` is below `src/`.
fn faults(path: &Path, text: &str) -> Vec<String> {
    let parts: Vec<String> =
        path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let room = parts[0].as_str();
    let is_module_root = parts.last().is_some_and(|last| last == "mod");
    let depth = if is_module_root { parts.len() - 1 } else { parts.len() };
    let source = Source::read(text);
    let mut faults = Vec::new();
    if source.lines() > LINES {
        faults.push(format!("{} lines of code: find the second idea in it", source.lines()));
    }
    let allowed = ROOMS.iter().find(|(name, _)| *name == room).map(|(_, allowed)| *allowed);
    for root in source.roots(depth) {
        match root {
            Root::Ours(name) => {
                if allowed.is_some_and(|allowed| name != room && !allowed.contains(&name.as_str())) {
                    faults.push(format!("names crate::{name}, which {room} may not"));
                }
            }
            Root::Other(name) => faults.extend(crate_fault(&parts.join("/"), room, &name)),
        }
    }
    faults
}

fn crate_fault(path: &str, room: &str, name: &str) -> Option<String> {
    if let Some((_, rooms)) = DRIVERS.iter().find(|(driver, _)| *driver == name) {
        let at_home = rooms.iter().any(|room| path == *room || path.starts_with(&format!("{room}/")));
        return (!at_home).then(|| format!("uses {name}, which belongs to {rooms:?}"));
    }
    let is_pure_room = matches!(room, "domain" | "ports");
    (is_pure_room && dependencies().contains(name) && !PURE.contains(&name))
        .then(|| format!("uses {name}: {room} is pure"))
}

/// The crates of the manifest, as code names them. Names that a module of ours has are left out.
fn dependencies() -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, section) = manifest.split_once("[dependencies]").unwrap();
    let section = section.split("\n[").next().unwrap();
    let names =
        section.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.replace('-', "_"));
    names.filter(|name| name != "config").collect()
}

#[test]
fn imports_point_one_way_and_files_stay_short() {
    let src = root().join("src");
    let mut faults = Vec::new();
    for path in files_below(&src, "rs") {
        let below = path.strip_prefix(&src).unwrap();
        let is_test = below.iter().any(|part| part == "tests.rs" || part == "tests");
        if !is_test {
            let text = std::fs::read_to_string(&path).unwrap();
            faults.extend(
                self::faults(below, &text)
                    .into_iter()
                    .map(|fault| format!("src/{}: {fault}", below.display())),
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_room_is_there() {
    for (room, _) in ROOMS {
        let src = root().join("src");
        let there = src.join(room).is_dir() || src.join(format!("{room}.rs")).is_file();
        assert!(there, "src/{room} is gone: change the rule with the house");
    }
}

#[test]
fn a_panic_unwinds_in_release_builds() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, release) = manifest.split_once("[profile.release]").unwrap();
    let release = release.split("\n[").next().unwrap();
    assert!(release.contains("panic = \"unwind\""), "the supervisor lives on unwinding");
}

#[test]
fn finds_what_is_forbidden() {
    for (path, text, said) in [
        ("domain/retry.rs", "use crate::ports::clock::Clock;", "crate::ports"),
        ("domain/retry.rs", "use tokio::time::sleep;", "uses tokio"),
        ("domain/extended_json/reader.rs", "use super::super::super::web::x;", "crate::web"),
        ("ports/stash.rs", "fn f(x: crate::backends::embedded::Y) {}", "crate::backends"),
        ("ports/stash.rs", "use diesel::prelude::*;", "uses diesel"),
        ("runtime/cell.rs", "use crate::domain::x;", "crate::domain"),
        ("backends/http/mod.rs", "use crate::{domain::a, actors::b};", "crate::actors"),
        ("backends/http/mod.rs", "use diesel::x;", "uses diesel"),
        ("actors/fleet.rs", "use crate::backends::embedded::x;", "crate::backends"),
        ("web/mod.rs", "use super::backends::embedded::x;", "crate::backends"),
        ("web/status.rs", "use awc::Client;", "uses awc"),
    ] {
        let found = faults(Path::new(path), text);
        assert!(found.len() == 1 && found[0].contains(said), "{path}: {text}: {found:?}");
    }
    let long = "fn f() {}\n".repeat(LINES + 1);
    assert_eq!(faults(Path::new("web/mod.rs"), &long).len(), 1);
}

#[test]
fn lets_pass_what_is_allowed() {
    for (path, text) in [
        ("domain/routing.rs", "use super::config::ClientId; use serde::Serialize; use std::sync::Arc;"),
        ("domain/document/mod.rs", "use super::extended_json::x; use crate::domain::y;"),
        ("backends/embedded/mod.rs", "use crate::ports::x; use diesel::prelude::*; use tokio::sync::mpsc;"),
        ("commands/send.rs", "use crate::settings::x; use awc::Client; use clap::Args;"),
        ("app.rs", "use crate::{actors::x, backends::y, web::z};"),
    ] {
        assert_eq!(faults(Path::new(path), text), [""; 0], "{path}: {text}");
    }
}
