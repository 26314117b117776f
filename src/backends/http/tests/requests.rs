//! What goes out: these bytes and no others.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;

use super::receiver::{Received, Receiver};
use super::{request, sender};
use crate::domain::delivery::{NoAnswer, WebhookRequest};

/// Sends a request and returns it as it arrived.
async fn arrived(change: impl FnOnce(&mut WebhookRequest)) -> Received {
    let seen = Rc::new(RefCell::new(None));
    let report = seen.clone();
    let receiver = Receiver::start(move |_, mut peer| {
        let report = report.clone();
        async move {
            *report.borrow_mut() = peer.request().await;
            peer.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    })
    .await;
    let mut request = request(&receiver.url());
    change(&mut request);
    assert_eq!(sender().send(request).await.unwrap().status, 200);
    seen.take().unwrap()
}

#[actix_rt::test]
async fn nothing_is_added_but_host_length_and_date() {
    let mut port = 0;
    let mut received = arrived(|request| port = request.url.port().unwrap()).await;
    // awc's encoder dates whatever has no date.
    assert_eq!(received.header("date").len(), 1);
    received.head.retain(|line| !line.starts_with("date: "));
    received.head.sort_unstable();
    assert_eq!(
        received.head,
        [
            "POST /hook HTTP/1.1".to_owned(),
            "content-length: 10".to_owned(),
            "content-type: application/json".to_owned(),
            format!("host: 127.0.0.1:{port}"),
        ]
    );
    assert_eq!(received.body, br#"{"id":"1"}"#);
}

#[actix_rt::test]
async fn headers_arrive_verbatim_and_as_often_as_given() {
    let secret = "Scheme  a,b; c=\"d\"  ~\u{fc}";
    let received = arrived(|request| {
        request.headers = [
            ("Authorization", secret),
            ("X-Tenant", "one"),
            ("x-tenant", "two"),
            ("X-TENANT", "one"),
            ("user-agent", "dispatcher/0.1.0"),
            ("date", "today"),
            ("x-empty", ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    })
    .await;
    assert_eq!(received.header("authorization"), [secret]);
    assert_eq!(received.header("x-tenant"), ["one", "two", "one"]);
    assert_eq!(received.header("user-agent"), ["dispatcher/0.1.0"]);
    assert_eq!(received.header("date"), ["today"]);
    assert_eq!(received.header("x-empty"), [""]);
    assert_eq!(received.header("content-type"), Vec::<&str>::new());
}

#[actix_rt::test]
async fn bodies_arrive_byte_for_byte_with_their_length() {
    let mixed: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    for body in [Vec::new(), b"\0\r\n\r\n".to_vec(), mixed] {
        let received = arrived(|request| request.body = Bytes::from(body.clone())).await;
        assert!(received.body == body, "{} bytes arrived, {} were sent", received.body.len(), body.len());
        assert_eq!(received.header("content-length"), [body.len().to_string()]);
        assert_eq!(received.header("transfer-encoding"), Vec::<&str>::new());
    }
}

#[actix_rt::test]
async fn credentials_and_fragment_stay_at_home() {
    let received = arrived(|request| {
        request.url.set_username("user").unwrap();
        request.url.set_password(Some("secret")).unwrap();
        request.url.set_path("/a b/\u{fc}");
        request.url.set_query(Some("x=1&y=%20'"));
        request.url.set_fragment(Some("fragment"));
    })
    .await;
    assert_eq!(received.head[0], "POST /a%20b/%C3%BC?x=1&y=%20%27 HTTP/1.1");
    assert_eq!(received.header("authorization"), Vec::<&str>::new());
    assert!(!received.head.iter().any(|line| line.contains("user") || line.contains("secret")));
}

#[actix_rt::test]
async fn what_cannot_be_sent_is_an_error_that_keeps_secrets() {
    for (name, value) in
        [("x-token", "secret\r\nx-evil: 1"), ("x token", "secret"), ("", "secret"), ("x", "secret\0")]
    {
        let mut request = request("http://127.0.0.1:1/?secret");
        request.headers.push((name.to_owned(), value.to_owned()));
        let error = sender().send(request).await.unwrap_err();
        assert_eq!(
            (error.reason, error.detail),
            (NoAnswer::Connect, format!("header {name:?} cannot be sent"))
        );
    }
    let long = format!("http://127.0.0.1:1/?secret{}", "x".repeat(70_000));
    let error = sender().send(request(&long)).await.unwrap_err();
    assert_eq!((error.reason, &*error.detail), (NoAnswer::Connect, "the URL cannot be sent"));
}
