//! The oracle is worth what it refuses: each promise broken alone must be found.

use std::time::Instant;

use super::*;
use crate::kit::ledger::Change;

fn pair(client: &str, id: &str, version: u64) -> Pair {
    Pair { client: client.into(), topic: "wnx-identity.users".into(), id: id.into(), version }
}

fn arrival(client: &str, id: &str, version: u64) -> Arrival {
    let now = Instant::now();
    Arrival {
        at: now,
        answered: Some(now),
        sender: None,
        client: client.into(),
        headers: BTreeMap::from([
            ("webhook-id".into(), format!("evt_{client}_{id}_{version}")),
            ("webhook-sequence".into(), format!("1-0-{}", version * 10)),
        ]),
        body: format!("body {id} {version}").into(),
        change: Some(Change {
            topic: "wnx-identity.users".into(),
            id: id.into(),
            op: "u".into(),
            version: Some(version),
        }),
    }
}

fn sent(pairs: &[(&str, &str, u64)]) -> Sent {
    let acknowledged = pairs.iter().map(|(client, id, version)| pair(client, id, *version)).collect();
    Sent { acknowledged, in_doubt: vec![] }
}

fn judge(sent: &Sent, arrivals: &[Arrival]) -> Vec<String> {
    violations(sent, arrivals, |_| 0)
}

#[track_caller]
fn assert_found(found: &[String], what: &str) {
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(what), "{found:?}");
}

#[test]
fn a_good_run_has_no_violation() {
    let sent = sent(&[("a", "x", 1), ("a", "x", 2), ("a", "y", 1), ("b", "x", 1)]);
    let arrivals = [
        arrival("a", "x", 1),
        arrival("b", "x", 1),
        arrival("a", "y", 1),
        arrival("a", "x", 2),
        // A crash: everything from the first change on comes again.
        arrival("a", "x", 1),
        arrival("a", "x", 2),
    ];
    assert_eq!(judge(&sent, &arrivals), Vec::<String>::new());
}

#[test]
fn finds_a_change_that_never_arrived() {
    let sent = sent(&[("a", "x", 1), ("a", "x", 2)]);
    assert_found(&judge(&sent, &[arrival("a", "x", 1)]), "did not arrive");
}

#[test]
fn a_change_may_be_missing_when_its_row_is_visible() {
    let sent = sent(&[("a", "x", 1), ("a", "x", 2), ("b", "x", 1)]);
    let arrivals = [arrival("a", "x", 1), arrival("b", "x", 1)];
    assert!(violations(&sent, &arrivals, |client| usize::from(client == "a")).is_empty());
    assert_found(&violations(&sent, &arrivals, |client| usize::from(client == "b")), "did not arrive");
}

#[test]
fn finds_a_change_that_arrived_only_at_another_client() {
    let sent = sent(&[("a", "x", 1)]);
    assert_found(&judge(&sent, &[arrival("b", "x", 1)]), "did not arrive");
}

#[test]
fn finds_first_arrivals_out_of_order() {
    let sent = sent(&[("a", "x", 1), ("a", "x", 2), ("a", "x", 3)]);
    let arrivals = [arrival("a", "x", 2), arrival("a", "x", 1), arrival("a", "x", 3)];
    assert_found(&judge(&sent, &arrivals), "first arrival");
}

#[test]
fn finds_a_repeat_that_is_the_last_word() {
    let sent = sent(&[("a", "x", 1), ("a", "x", 2)]);
    let arrivals = [arrival("a", "x", 1), arrival("a", "x", 2), arrival("a", "x", 1)];
    assert_found(&judge(&sent, &arrivals), "ends on");
}

#[test]
fn finds_a_log_that_is_not_in_the_order_of_the_source() {
    let sent = sent(&[("a", "x", 1), ("a", "x", 2)]);
    let mut late = arrival("a", "x", 1);
    late.headers.insert("webhook-sequence".into(), "1-0-99".into());
    assert_found(&judge(&sent, &[arrival("a", "x", 2), late]), "in the log");
}

#[test]
fn finds_a_repeat_with_another_body() {
    let sent = sent(&[("a", "x", 1)]);
    let mut other = arrival("a", "x", 1);
    other.body = "something else".into();
    assert_found(&judge(&sent, &[arrival("a", "x", 1), other]), "another body");
}

#[test]
fn finds_a_repeat_with_another_sequence() {
    let sent = sent(&[("a", "x", 1)]);
    let mut other = arrival("a", "x", 1);
    other.headers.insert("webhook-sequence".into(), "1-0-11".into());
    let found = judge(&sent, &[arrival("a", "x", 1), other]);
    assert_found(&found, "another sequence");
}

#[test]
fn finds_an_id_that_two_clients_share() {
    let sent = sent(&[("a", "x", 1), ("b", "x", 1)]);
    let mut other = arrival("b", "x", 1);
    other.headers.insert("webhook-id".into(), "evt_a_x_1".into());
    assert_found(&judge(&sent, &[arrival("a", "x", 1), other]), "two clients");
}

#[test]
fn finds_a_request_without_sequence() {
    let sent = sent(&[("a", "x", 1)]);
    let mut bare = arrival("a", "x", 1);
    bare.headers.remove("webhook-sequence");
    assert_found(&judge(&sent, &[bare]), "no webhook-sequence");
}

#[test]
fn finds_a_request_that_was_taken_in_part() {
    let in_doubt = vec![vec![pair("a", "x", 1), pair("a", "y", 1)], vec![pair("a", "z", 1)]];
    let sent = Sent { acknowledged: BTreeSet::new(), in_doubt };
    assert_found(&judge(&sent, &[arrival("a", "x", 1)]), "1 of 2");
    assert!(judge(&sent, &[]).is_empty());
}

#[test]
#[should_panic(expected = "before evt_a_x_1 was answered")]
fn finds_two_requests_at_once() {
    let mut first = arrival("a", "x", 1);
    first.answered = None;
    assert_one_at_a_time(&[first, arrival("a", "x", 2)]);
}
