//! What comes back: whole, broken, endless, late.

use std::rc::Rc;

use tokio::sync::Notify;
use tokio::sync::oneshot;

use super::receiver::Receiver;
use super::{LIMITS, SHORT, hasty_request, reason, request, sender, senders};
use crate::domain::delivery::NoAnswer;
use crate::ports::webhook_sender::SendLimits;

#[actix_rt::test]
async fn every_final_status_is_an_answer() {
    for (status, answer) in [
        (200, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
        (204, "HTTP/1.1 204 No Content\r\n\r\n"),
        (410, "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"),
        (500, "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\n\r\noops"),
        (599, "HTTP/1.1 599 Whatever\r\ncontent-length: 0\r\n\r\n"),
        (200, "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"),
        (200, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
    ] {
        let receiver = Receiver::answering(answer).await;
        let outcome = sender().send(request(&receiver.url())).await.unwrap();
        assert_eq!(outcome.status, status);
        assert_eq!(outcome.retry_after, None);
        let body = answer.split_once("\r\n\r\n").unwrap().1.trim_start_matches("2\r\n");
        assert!(body.as_bytes().starts_with(&outcome.excerpt), "{:?}", outcome.excerpt);
    }
}

#[actix_rt::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let target = Receiver::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let location = target.url();
    let receiver = Receiver::start(move |_, mut peer| {
        let answer =
            format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        async move {
            while peer.request().await.is_some() {
                peer.write(&answer).await;
            }
        }
    })
    .await;
    let sender = sender();
    assert_eq!(sender.send(request(&receiver.url())).await.unwrap().status, 307);
    // A request of our own shows that the target listens, and that ours is the first that it sees.
    assert_eq!(sender.send(request(&target.url())).await.unwrap().status, 200);
    assert_eq!((receiver.connections(), target.connections()), (1, 1));
}

#[actix_rt::test]
async fn retry_after_is_kept_as_it_came_unless_it_is_absurd() {
    let date = "Wed, 21 Oct 2026 07:28:00 GMT";
    for (header, kept) in
        [("120", Some("120")), (date, Some(date)), (&*"9".repeat(65), None), ("\u{fc}", None)]
    {
        let answer = format!("HTTP/1.1 503 Busy\r\nretry-after: {header}\r\ncontent-length: 0\r\n\r\n");
        let receiver = Receiver::answering(answer.leak()).await;
        let answer = sender().send(request(&receiver.url())).await.unwrap();
        assert_eq!((answer.status, answer.retry_after.as_deref()), (503, kept));
    }
}

#[actix_rt::test]
async fn the_first_kibibyte_of_the_body_is_kept() {
    let body: String = ('a'..='z').cycle().take(10_000).collect();
    let answer = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: 10000\r\n\r\n{body}");
    let receiver = Receiver::answering(answer.leak()).await;
    let sender = sender();
    for _ in 0..3 {
        let answer = sender.send(request(&receiver.url())).await.unwrap();
        assert_eq!((answer.status, &answer.excerpt[..]), (400, &body.as_bytes()[..1024]));
    }
    assert_eq!(receiver.connections(), 1, "a body within the bound leaves the connection usable");
}

/// The body of a good answer goes on for 100 MB: the answer counts, the connection is dropped.
#[actix_rt::test]
async fn a_huge_body_is_not_read() {
    const HUGE: usize = 100 << 20;
    for head in ["HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n"] {
        let (report, written) = oneshot::channel();
        let report = Rc::new(std::cell::Cell::new(Some(report)));
        let receiver = Receiver::start(move |_, mut peer| {
            let report = report.take().unwrap();
            async move {
                peer.request().await.unwrap();
                peer.write(head).await;
                let _ = report.send(peer.write_without_end(&[b'x'; 65_536], HUGE).await);
            }
        })
        .await;
        let answer = sender().send(request(&receiver.url())).await.unwrap();
        assert_eq!((answer.status, answer.excerpt.len()), (200, 1024));
        // What was written filled the buffers of the sockets, and nothing else.
        assert!(written.await.unwrap() < HUGE / 4);
    }
}

#[actix_rt::test]
async fn a_body_that_breaks_or_stalls_changes_nothing() {
    for rest in [
        "content-length: 100\r\n\r\nabc",
        "transfer-encoding: chunked\r\n\r\nno chunk",
        "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        for stall in [false, true] {
            let receiver = Receiver::start(move |_, mut peer| async move {
                peer.request().await.unwrap();
                peer.write(format!("HTTP/1.1 200 OK\r\n{rest}")).await;
                if stall {
                    peer.closed().await;
                }
            })
            .await;
            let answer = sender().send(hasty_request(&receiver.url())).await.unwrap();
            assert_eq!(answer.status, 200, "{rest:?}");
        }
    }
}

/// Bytes that never become a byte of the body: only the clock ends this.
#[actix_rt::test]
async fn an_endless_chunk_extension_is_cut_by_the_timeout() {
    let receiver = Receiver::start(|_, mut peer| async move {
        peer.request().await.unwrap();
        peer.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;").await;
        peer.write_without_end(&[b'x'; 65_536], usize::MAX).await;
    })
    .await;
    let started = std::time::Instant::now();
    let answer = sender().send(hasty_request(&receiver.url())).await.unwrap();
    assert_eq!((answer.status, answer.excerpt.len()), (200, 0));
    assert!(started.elapsed() < SHORT * 10);
}

#[actix_rt::test]
async fn what_is_not_http_is_a_bad_answer() {
    for garbage in [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
    ] {
        let receiver = Receiver::start(move |_, mut peer| async move {
            peer.request().await.unwrap();
            peer.write(garbage).await;
        })
        .await;
        let outcome = sender().send(request(&receiver.url())).await;
        assert_eq!(reason(outcome), NoAnswer::BadAnswer, "{garbage:?}");
        assert_eq!(receiver.connections(), 1, "{garbage:?} is tried once");
    }
}

#[actix_rt::test]
async fn endless_headers_are_a_bad_answer() {
    for piece in [b"x-filler: 0123456789\r\n".repeat(1000), vec![b'x'; 65_536]] {
        let receiver = Receiver::start(move |_, mut peer| {
            let piece = piece.clone();
            async move {
                peer.request().await.unwrap();
                peer.write("HTTP/1.1 200 OK\r\nx-first: ").await;
                peer.write_without_end(&piece, usize::MAX).await;
            }
        })
        .await;
        assert_eq!(reason(sender().send(request(&receiver.url())).await), NoAnswer::BadAnswer);
    }
}

#[actix_rt::test]
async fn silence_ends_with_the_timeout() {
    let gone = Rc::new(Notify::new());
    for spoken in ["", "HTTP/1.1 200 OK\r\nx-slow: "] {
        let closed = gone.clone();
        let receiver = Receiver::start(move |_, mut peer| {
            let closed = closed.clone();
            async move {
                peer.request().await.unwrap();
                peer.write(spoken).await;
                peer.closed().await;
                closed.notify_one();
            }
        })
        .await;
        let error = sender().send(hasty_request(&receiver.url())).await.unwrap_err();
        assert_eq!((error.reason, &*error.detail), (NoAnswer::Timeout, "no answer within 300ms"));
        gone.notified().await;
    }
}

/// A receiver that does not read: the request cannot even be written.
#[actix_rt::test]
async fn a_receiver_that_reads_nothing_ends_with_the_timeout() {
    let receiver = Receiver::start(|_, peer| async move {
        std::future::pending::<()>().await;
        drop(peer);
    })
    .await;
    let mut request = hasty_request(&receiver.url());
    request.body = vec![b'x'; 64 << 20].into();
    assert_eq!(reason(sender().send(request).await), NoAnswer::Timeout);
}

#[actix_rt::test]
async fn the_bound_of_the_body_is_a_setting() {
    let body = "x".repeat(200);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n{body}");
    let receiver = Receiver::answering(answer.leak()).await;
    let sender = senders(&["127.0.0.1"], SendLimits { answer_bytes: 100, ..LIMITS }, None).open();
    for connections in 1..=3 {
        assert_eq!(sender.send(request(&receiver.url())).await.unwrap().status, 200);
        assert_eq!(receiver.connections(), connections, "the connection of a longer body is dropped");
    }
}
