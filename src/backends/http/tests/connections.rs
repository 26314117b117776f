//! Connections: made, refused, kept, closed.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::sync::{Barrier, Notify};

use super::receiver::Receiver;
use super::{LIMITS, hasty_request, reason, request, sender, senders};
use crate::domain::delivery::NoAnswer;
use crate::ports::webhook_sender::SendLimits;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[actix_rt::test]
async fn a_connection_closed_before_an_answer_is_tried_once_more() {
    for reset in [false, true] {
        let receiver = Receiver::start(move |_, mut peer| async move {
            peer.request().await.unwrap();
            if reset {
                peer.reset();
            }
        })
        .await;
        let error = sender().send(request(&receiver.url())).await.unwrap_err();
        assert_eq!((error.reason, &*error.detail), (NoAnswer::Closed, "closed before an answer"));
        assert_eq!(receiver.connections(), 2);
    }
}

/// The receiver closes its idle connection in the moment in which we use it.
#[actix_rt::test]
async fn a_stale_connection_costs_nothing_but_the_second_try() {
    let requests = Rc::new(RefCell::new(Vec::new()));
    let seen = requests.clone();
    let receiver = Receiver::start(move |connection, mut peer| {
        let seen = seen.clone();
        async move {
            let first = peer.request().await.unwrap();
            seen.borrow_mut().push(first);
            peer.write(OK).await;
            if connection == 1 {
                let second = peer.request().await.unwrap();
                seen.borrow_mut().push(second);
            } else {
                peer.closed().await;
            }
        }
    })
    .await;
    let sender = sender();
    assert_eq!(sender.send(request(&receiver.url())).await.unwrap().status, 200);
    assert_eq!(sender.send(request(&receiver.url())).await.unwrap().status, 200);
    assert_eq!(receiver.connections(), 2);
    let mut requests = requests.take();
    assert_eq!(requests.len(), 3);
    // The second try is the same request, and says that its connection is not kept.
    let closing = requests[2].head.iter().position(|line| line == "connection: close").unwrap();
    requests[2].head.remove(closing);
    for request in &mut requests {
        request.head.sort_unstable();
    }
    assert_eq!(requests[1], requests[2]);
}

#[actix_rt::test]
async fn the_second_try_has_the_rest_of_the_time() {
    let receiver = Receiver::start(|connection, mut peer| async move {
        peer.request().await.unwrap();
        if connection > 1 {
            peer.closed().await;
        }
    })
    .await;
    assert_eq!(reason(sender().send(hasty_request(&receiver.url())).await), NoAnswer::Timeout);
    assert_eq!(receiver.connections(), 2);
}

#[actix_rt::test]
async fn a_closed_port_is_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/?secret", listener.local_addr().unwrap());
    drop(listener);
    let error = sender().send(request(&url)).await.unwrap_err();
    assert_eq!(error.reason, NoAnswer::Connect);
    assert_eq!(error.detail, "no connection: Connection refused (os error 111)");
}

#[actix_rt::test]
async fn a_name_that_does_not_resolve_is_dns() {
    let limits = SendLimits { connect_timeout: Duration::from_secs(1), ..LIMITS };
    let sender = senders(&[], limits, None).open();
    for host in ["no-such-host.invalid", "no-such-host.invalid."] {
        assert_eq!(reason(sender.send(request(&format!("http://{host}/"))).await), NoAnswer::Dns);
    }
}

#[actix_rt::test]
async fn a_private_address_is_denied_before_a_connection() {
    let receiver = Receiver::answering(OK).await;
    let port = receiver.address.port();
    let closed = senders(&["10.0.0.0/8", "*.localhost"], LIMITS, None).open();
    for host in ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "0"] {
        let error =
            closed.send(request(&format!("http://user:pass@{host}:{port}/?secret"))).await.unwrap_err();
        assert_eq!(error.reason, NoAnswer::EgressDenied, "{host}");
        assert_eq!(error.detail, "the address is not public (see DISPATCHER_EGRESS_ALLOW)");
    }
    assert_eq!(sender().send(request(&receiver.url())).await.unwrap().status, 200);
    assert_eq!(receiver.connections(), 1, "only the sender that is allowed to was seen");
}

#[actix_rt::test]
async fn an_allowed_name_reaches_its_private_address() {
    let receiver = Receiver::answering(OK).await;
    // It may resolve to ::1 too, where nobody listens: the next address is tried.
    let url = format!("http://LocalHost:{}/", receiver.address.port());
    let sender = senders(&["localhost"], LIMITS, None).open();
    assert_eq!(sender.send(request(&url)).await.unwrap().status, 200);
    assert_eq!(reason(sender.send(request(&receiver.url())).await), NoAnswer::EgressDenied);
}

#[actix_rt::test]
async fn parallel_requests_share_their_connections() {
    let receiver = Receiver::answering(OK).await;
    let sender = sender();
    for _ in 0..25 {
        let outcomes = join_all((0..8).map(|_| sender.send(request(&receiver.url())))).await;
        assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_ok_and(|answer| answer.status == 200)));
    }
    assert!(receiver.connections() <= 8, "{} connections", receiver.connections());
}

/// awc's own limit of 100 connections is off: no request waits for another.
#[actix_rt::test]
async fn two_hundred_requests_wait_for_each_other() {
    let all_here = Rc::new(Barrier::new(200));
    let receiver = Receiver::start(move |_, mut peer| {
        let all_here = all_here.clone();
        async move {
            peer.request().await.unwrap();
            all_here.wait().await;
            peer.write(OK).await;
        }
    })
    .await;
    let sender = sender();
    let outcomes = join_all((0..200).map(|_| sender.send(request(&receiver.url())))).await;
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_ok_and(|answer| answer.status == 200)));
}

#[actix_rt::test]
async fn dropping_the_sender_closes_its_connections() {
    let closed = Rc::new(Notify::new());
    let report = closed.clone();
    let receiver = Receiver::start(move |_, mut peer| {
        let report = report.clone();
        async move {
            peer.request().await.unwrap();
            peer.write(OK).await;
            peer.closed().await;
            report.notify_one();
        }
    })
    .await;
    let (leaving, staying) = (sender(), sender());
    leaving.send(request(&receiver.url())).await.unwrap();
    staying.send(request(&receiver.url())).await.unwrap();
    drop(leaving);
    closed.notified().await;
    drop(staying);
    closed.notified().await;
}

#[actix_rt::test]
async fn dropping_a_request_closes_its_connection() {
    let closed = Rc::new(Notify::new());
    let (arrived, report) = (Rc::new(Notify::new()), closed.clone());
    let arrival = arrived.clone();
    let receiver = Receiver::start(move |_, mut peer| {
        let (arrival, report) = (arrival.clone(), report.clone());
        async move {
            peer.request().await.unwrap();
            arrival.notify_one();
            peer.closed().await;
            report.notify_one();
        }
    })
    .await;
    let sender = sender();
    tokio::select! {
        _ = sender.send(request(&receiver.url())) => panic!("nobody answers"),
        () = arrived.notified() => {}
    }
    closed.notified().await;
}
