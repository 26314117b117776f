//! The receiver through its routes.

use std::io;
use std::sync::Arc;

use actix_web::test::{TestRequest, call_service, init_service};
use clap::Parser;
use serde_json::{Value, json};

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    options: ReceiveOptions,
}

fn options(arguments: &[&str]) -> Result<ReceiveOptions, String> {
    let arguments = ["receive"].iter().chain(arguments);
    Cli::try_parse_from(arguments).map(|cli| cli.options).map_err(|error| error.to_string())
}

#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Printed {
    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }

    fn json(&self) -> Vec<Value> {
        self.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A webhook of document `document`, event `evt_<offset>`.
fn webhook(document: &str, offset: i64) -> TestRequest {
    let body =
        json!({ "id": document, "ts_ms": 1, "op": "u", "topic": "shop.carts", "after": { "n": offset } });
    TestRequest::post()
        .uri("/hook")
        .insert_header(("webhook-id", format!("evt_{offset}")))
        .insert_header(("webhook-sequence", format!("1-3-{offset}")))
        .set_payload(body.to_string())
}

/// Sends the requests one after the other. Returns the statuses and what was printed, the summary last.
async fn received(arguments: &[&str], requests: Vec<TestRequest>) -> (Vec<u16>, Printed) {
    let printed = Printed::default();
    let receiver = web::Data::new(Receiver::new(options(arguments).unwrap(), Box::new(printed.clone())));
    let app = init_service(App::new().configure(|config| routes(config, receiver.clone()))).await;
    let mut statuses = Vec::new();
    for request in requests {
        statuses.push(call_service(&app, request.to_request()).await.status().as_u16());
    }
    receiver.print(&receiver.summary());
    (statuses, printed)
}

#[actix_rt::test]
async fn a_line_says_what_arrived() {
    let (statuses, printed) = received(&["--show-body"], vec![webhook("7\u{1b}[2J", 12)]).await;
    assert_eq!(statuses, [200]);
    let lines = printed.lines();
    assert_eq!(
        lines[0].split_once(' ').unwrap().1,
        "evt_12 1-3-12 u shop.carts 7\\u{1b}[2J signature none -> 200"
    );
    assert!(lines[1].starts_with("  {\"id\":\"7\\u001b[2J\",\"ts_ms\":1,"), "{}", lines[1]);
    assert_eq!(lines[2], "webhooks 1, events 1 (accepted 1), documents 1");
}

#[actix_rt::test]
async fn failures_duplicates_and_order_are_told_apart() {
    let requests = vec![webhook("a", 1), webhook("a", 1), webhook("a", 3), webhook("a", 1), webhook("a", 2)];
    let (statuses, printed) = received(&["--json", "--fail", "503:1"], requests).await;
    assert_eq!(statuses, [503, 200, 200, 200, 200]);
    let lines = printed.json();
    let said: Vec<_> = lines[..5]
        .iter()
        .map(|line| (line["attempt"].as_u64().unwrap(), &line["duplicate"], &line["out_of_order"]))
        .collect();
    let (yes, no) = (&Value::Bool(true), &Value::Bool(false));
    // A repeat after a failure is no duplicate, and a repeated older event is not out of order.
    assert_eq!(said, [(1, no, no), (2, no, no), (1, no, no), (3, yes, no), (1, no, yes)]);
    assert_eq!(
        lines[5]["summary"],
        json!({
            "webhooks": 5, "events": 3, "accepted": 3, "documents": 1, "duplicates": 1, "out_of_order": 1,
            "outdated": 1, "bodies_changed": 0, "bad_signatures": 0,
        })
    );
}

#[actix_rt::test]
async fn documents_and_paths_have_orders_of_their_own() {
    let requests = vec![webhook("a", 5), webhook("b", 4), webhook("a", 3).uri("/other"), webhook("a", 6)];
    let (_, printed) = received(&["--json"], requests).await;
    let summary = &printed.json()[4]["summary"];
    assert_eq!((&summary["out_of_order"], &summary["documents"]), (&json!(0), &json!(3)));
}

#[actix_rt::test]
async fn a_changed_body_is_noticed() {
    let requests = vec![webhook("a", 1), webhook("a", 1).set_payload("other")];
    let (_, printed) = received(&["--json"], requests).await;
    assert_eq!(printed.json()[1]["body_changed"], json!(true));
    assert_eq!(printed.json()[2]["summary"]["bodies_changed"], json!(1));
}

#[actix_rt::test]
async fn what_is_no_change_is_received_too() {
    let requests = vec![TestRequest::post().uri("/"), TestRequest::post().uri("/x").set_payload("no json")];
    let (statuses, printed) = received(&["--json", "--show-body"], requests).await;
    assert_eq!(statuses, [200, 200]);
    let line = &printed.json()[1];
    assert_eq!(
        (&line["webhook_id"], &line["topic"], &line["body"]),
        (&Value::Null, &Value::Null, &json!("no json"))
    );
}

#[actix_rt::test]
async fn only_posts_are_webhooks() {
    let (statuses, printed) = received(&[], vec![TestRequest::get().uri("/hook")]).await;
    assert_eq!(statuses, [405]);
    assert_eq!(printed.lines().len(), 2, "only the summary");
}

#[actix_rt::test]
async fn signatures_are_checked() {
    let (ours, former, foreign) = ("whsec_b3Vycw==", "whsec_Zm9ybWVy", "whsec_Zm9yZWlnbg==");
    let now = chrono::Utc::now().timestamp();
    let signed = |secret: &str, timestamp: i64, signed_body: &[u8]| {
        let signature =
            standardwebhooks::Webhook::new(secret).unwrap().sign("evt_1", timestamp, signed_body).unwrap();
        TestRequest::post()
            .uri("/")
            .insert_header(("webhook-id", "evt_1"))
            .insert_header(("webhook-timestamp", timestamp.to_string()))
            .insert_header(("webhook-signature", format!("v1,AAAA {signature}")))
            .set_payload("{}")
    };
    let requests = || {
        vec![
            signed(ours, now, b"{}"),
            signed(former, now, b"{}"),
            signed(foreign, now, b"{}"),
            signed(ours, now, b"[]"),
            signed(ours, now - 301, b"{}"),
            signed(ours, now + 330, b"{}"),
            TestRequest::post().uri("/"),
        ]
    };
    let said = |printed: &Printed| -> Vec<String> {
        printed.json()[..7].iter().map(|line| line["signature"].as_str().unwrap().to_owned()).collect()
    };
    let (_, printed) = received(&["--json", "--secret", ours, "--secret", former], requests()).await;
    assert_eq!(said(&printed), ["ok", "ok", "bad", "bad", "bad", "bad", "none"]);
    assert_eq!(printed.json()[7]["summary"]["bad_signatures"], json!(4));
    let (_, printed) = received(&["--json"], requests()).await;
    assert_eq!(said(&printed)[0], "unchecked");
}

#[test]
fn options_are_checked_and_secrets_stay_hidden() {
    let options_given =
        options(&["--secret", "whsec_b3Vycw==", "--fail", "500:3", "--delay", "20s"]).unwrap();
    assert_eq!(options_given.delay, Duration::from_secs(20));
    assert!(!format!("{options_given:?}").contains("b3Vycw"));
    for (arguments, said) in [
        (["--secret", "not base64!"], "a secret is base64"),
        (["--fail", "500"], "expected STATUS:COUNT"),
        (["--fail-every", "0"], "--fail-every"),
        (["--status", "100"], "no status from 200 to 599"),
        (["--delay", "soon"], "--delay"),
    ] {
        let error = options(&arguments).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}
