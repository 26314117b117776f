//! The command line, as somebody at a terminal uses it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::events::Document;
use crate::kit::fixtures::Fixture;
use crate::kit::receiver::Receiver;
use crate::kit::service::{Service, command, free_port, run, text};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn explain_says_of_every_sample_what_is_expected() {
    let fixtures = Fixture::all();
    let records = Value::from_iter(fixtures.iter().map(|fixture| fixture.record.clone()));

    let output = run(&["explain", "-"], Some(&records.to_string()));

    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), fixtures.len(), "one line a record");
    let mut wrong = Vec::new();
    for (fixture, line) in fixtures.iter().zip(&lines) {
        let kinds = fixture.kinds();
        if !kinds.contains(&line["kind"].as_str().unwrap_or_default()) {
            wrong.push(format!("{}: {line}, expected {kinds:?}", fixture.name));
            continue;
        }
        // A sample that may be read in more than one way says nothing of the members.
        let members = if kinds == ["change"] { CHANGE_MEMBERS.as_slice() } else { &[] };
        for member in members {
            if line[*member] != fixture.expect[*member] {
                let expected = &fixture.expect[*member];
                wrong.push(format!("{} {member}: {}, expected {expected}", fixture.name, line[*member]));
            }
        }
        if line["kind"] == "invalid" && line["reason"].as_str().unwrap_or_default().is_empty() {
            wrong.push(format!("{}: no reason in {line}", fixture.name));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

const CHANGE_MEMBERS: [&str; 7] = ["op", "db", "collection", "id", "clients", "removed_clients", "deleted"];

#[test]
fn explain_reads_a_sample_file_as_it_lies() {
    let fixture = Fixture::named("a02_").remove(0);
    let output = run(&["explain", fixture.path.to_str().unwrap()], None);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let line: Value = serde_json::from_str(text(&output.stdout).trim()).unwrap();
    assert_eq!(line["id"], fixture.expect["id"]);
}

#[actix_web::test]
async fn send_brings_a_file_to_a_receiver_and_explain_says_the_same() {
    let service = Service::shared().start().await;
    let receiver = Receiver::healthy();
    service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    let mut document = Document::new(1, &["acme"]);
    let records = [document.create(), document.change(), document.delete()];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    let file = file.to_str().unwrap();

    let sent = run(&["send", file, "--url", service.api().url()], None);
    assert!(sent.status.success(), "{}", text(&sent.stderr));

    let arrivals = receiver.ledger().wait_for(3, SOON).await;
    let explained = run(&["explain", file, "--url", service.api().url()], None);
    assert!(explained.status.success(), "{}", text(&explained.stderr));
    let explained: Vec<(String, String, String)> = text(&explained.stdout)
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect(line);
            let member = |name: &str| line[name].as_str().unwrap().to_owned();
            let clients: Vec<&str> =
                line["clients"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
            (clients.join(" "), member("id"), member("op"))
        })
        .collect();
    let arrived: Vec<(String, String, String)> = arrivals
        .into_iter()
        .map(|arrival| {
            let change = arrival.change.unwrap();
            (arrival.client, change.id, change.op)
        })
        .collect();
    assert_eq!(arrived, explained);
}

#[actix_web::test]
async fn clients_can_be_set_listed_and_switched() {
    let service = Service::shared().start().await;
    let url = service.api().url();
    let list = || run(&["clients", "list", "--url", url], None);
    let set = run(&["clients", "set", "acme", "--webhook", "http://127.0.0.1:9/hook", "--url", url], None);
    assert!(set.status.success(), "{}", text(&set.stderr));
    let listed = text(&list().stdout);
    assert!(listed.contains("acme") && listed.contains("ACTIVE"), "{listed}");

    let disabled = run(&["clients", "disable", "acme", "--url", url], None);
    assert!(disabled.status.success(), "{}", text(&disabled.stderr));
    assert!(text(&list().stdout).contains("INACTIVE"));

    let unknown = run(&["clients", "disable", "nobody", "--url", url], None);
    assert_eq!(unknown.status.code(), Some(1), "{}", text(&unknown.stderr));
    assert!(text(&unknown.stderr).contains("nobody"));
}

#[test]
fn a_command_without_a_service_says_where_it_looked() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let output = run(&["clients", "list", "--url", &url], None);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&url), "{}", text(&output.stderr));
}

#[test]
fn a_wrong_setting_is_one_line_with_its_key_and_exit_2() {
    for (name, value) in [
        ("DISPATCHER_API_PORT", "many"),
        ("DISPATCHER_RETRY_BASE", "soon"),
        ("DISPATCHER_EGRESS_ALLOW", "10.0.0.0/99"),
        ("DISPATCHER_MODE", "both"),
        ("DISPATCHER_CONFIG", "/no/such/file.toml"),
    ] {
        let output = command(&["run"]).env(name, value).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(name), "{name} is named: {said}");
        assert_eq!(said.trim().lines().count(), 1, "one line: {said}");
    }
}

#[test]
fn an_unknown_key_in_a_config_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dispatcher.toml");
    std::fs::write(&file, "[delivery]\nclient_recrods = 10\n").unwrap();
    let output = command(&["run"]).env("DISPATCHER_CONFIG", &file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("client_recrods"), "{}", text(&output.stderr));
}

#[actix_web::test]
async fn a_data_folder_has_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::shared().data(folder.path()).start().await;
    let port = free_port().to_string();
    let second = command(&["run"])
        .env("DISPATCHER_DATA_DIR", folder.path())
        .env("DISPATCHER_API_PORT", port)
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2), "{}", text(&second.stderr));
    let path = folder.path().to_str().unwrap();
    assert!(text(&second.stderr).contains(path), "{}", text(&second.stderr));
    assert_eq!(service.api().get("/readyz").await.unwrap().status, 200, "the first one goes on");
}

#[test]
fn an_unknown_command_is_refused_with_exit_2_and_help_with_0() {
    assert_eq!(run(&["fly"], None).status.code(), Some(2));
    let help = run(&["--help"], None);
    assert_eq!(help.status.code(), Some(0));
    for name in ["run", "demo", "send", "receive", "explain", "clients"] {
        assert!(text(&help.stdout).contains(name), "{name} is in the help");
    }
}
