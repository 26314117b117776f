//! The API against its own OpenAPI document: schemathesis (`tests/schemathesis`) asks for everything that the document allows, and for much that
//! it does not. Whatever is answered must be in the document, and never a 5xx.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use actix_web::http::Method;
use futures_util::future::join_all;
use serde_json::json;

use crate::kit::events::Document;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::{Service, text};
use crate::kit::wait::{eventually, holds};

const TOKEN: &str = "open-sesame";
const SOON: Duration = Duration::from_secs(30);

/// What is checked of each answer. That valid input is taken is not among it: many bounds (a webhook's address, a record's form) are said in words.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
    response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,\
    allow_header_conformance,ignored_auth";

/// Something of everything: clients that are well, that fail, that are gone; rows that wait and rows that were given up; a record that
/// cannot be read; a paused client and a blocked owner.
async fn world() -> (Service, [Receiver; 2]) {
    let service = Service::shared().env("DISPATCHER_ADMIN_TOKEN", TOKEN).start().await;
    let (good, bad) = (Receiver::start(|_| Answer::Status(200)), Receiver::start(|_| Answer::Status(503)));
    let api = service.api().with_token(TOKEN);
    for (client, receiver) in [("acme", &good), ("down", &bad), ("gone", &bad), ("odd /id%", &bad)] {
        api.put_client(client, json!({ "webhook": receiver.hook("in"), "headers": { "x-key": "hunter2" } }))
            .await;
    }
    let mut documents: Vec<_> =
        (0..5).map(|number| Document::new(number, &["acme", "down", "gone", "odd /id%"])).collect();
    let changes: Vec<_> = documents.iter_mut().map(Document::change).collect();
    api.send(&changes).await;
    let broken = json!({ "topic": "mongo.wnx-identity.users", "key": "{}", "value": "{\"op\":" });
    assert_eq!(api.post("/v1/events", &broken).await.unwrap().status, 202);
    assert_eq!(api.request(Method::POST, "/v1/clients/acme/pause", None).await.unwrap().status, 200);
    assert_eq!(api.request(Method::PUT, "/v1/blocked-owners/o1", None).await.unwrap().status, 200);
    let count = async |path: &str, list: &str| {
        let page = api.get(path).await.unwrap().json();
        page[list].as_array().unwrap().len()
    };
    eventually("rows that wait", SOON, async || {
        let rows = count("/v1/clients/gone/stash", "rows").await;
        holds(rows == 5, || rows.to_string())
    })
    .await;
    assert_eq!(api.request(Method::DELETE, "/v1/clients/gone", None).await.unwrap().status, 204);
    eventually("rows that were given up, and a record that cannot be read", SOON, async || {
        let letters = count("/v1/dead-letters", "dead_letters").await;
        let unread = count("/v1/dead-letters/source", "dead_letters").await;
        holds((letters, unread) == (5, 1), || format!("{letters}, {unread}"))
    })
    .await;
    (service, [good, bad])
}

/// The paths in parts of about one size. Each is asked by a process of its own: in one process schemathesis is no quicker with several threads, and
/// Python 3.11 reads source by one thread at a time only.
const PARTS: [&str; 3] = [
    "^/v1/clients",
    "^/v1/(dead-letters|queues|schedules)",
    "^(?!/v1/(clients|dead-letters|queues|schedules))",
];

/// Asks for a part of the paths.
fn ask(url: &str, part: &str, folder: &Path) -> Command {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/target/services/schemathesis/bin/schemathesis");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program, "run", &format!("{url}/v1/openapi.json"), "--url", url]);
    command.args(["--header", &format!("Authorization: Bearer {TOKEN}"), "--checks", CHECKS]);
    // A stream has no end.
    command.args(["--include-path-regex", part, "--exclude-path", "/v1/stream"]);
    command.args(["--phases", "coverage,fuzzing", "--max-examples", "4", "--generation-deterministic"]);
    command.args([
        "--request-timeout",
        "20",
        "--no-color",
        "--warnings",
        "off",
        "--suppress-health-check",
        "all",
    ]);
    // It leaves a folder where it runs.
    command.current_dir(folder);
    command
}

#[actix_web::test]
async fn every_answer_is_in_the_document() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemathesis");
    let installed = Command::new(format!("{folder}/install")).status().unwrap();
    assert!(installed.success(), "tests/schemathesis/install needs python3 with venv");
    let (mut service, _receivers) = world().await;
    let url = service.api().url().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    // The receivers live on this thread.
    let asked = PARTS.map(|part| {
        let mut command = ask(&url, part, folder.path());
        actix_web::web::block(move || command.output())
    });
    for outcome in join_all(asked).await {
        let outcome = outcome.unwrap().unwrap();
        assert!(outcome.status.success(), "{}\n{}", text(&outcome.stdout), text(&outcome.stderr));
    }
    eprintln!("schemathesis took {:?}", begin.elapsed());
    assert!(!service.has_ended());
    assert!(!service.log().contains("panicked"), "{}", service.log());
}
