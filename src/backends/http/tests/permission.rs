//! Whether a request may start is asked as its first byte is about to go out.

use std::cell::Cell;
use std::rc::Rc;

use super::receiver::Receiver;
use super::{request, sender};
use crate::domain::delivery::NoAnswer;
use crate::ports::webhook_sender::MayStart;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Allows so many questions, and no more.
fn allows(questions: usize) -> MayStart {
    let left = Cell::new(questions);
    Rc::new(move || {
        let allowed = left.get() > 0;
        left.set(left.get().saturating_sub(1));
        allowed
    })
}

#[actix_rt::test]
async fn what_may_not_start_opens_no_connection() {
    let receiver = Receiver::answering(OK).await;
    assert_eq!(sender().send_if(request(&receiver.url()), allows(0)).await, None);
    assert_eq!(receiver.connections(), 0);
}

#[actix_rt::test]
async fn a_permission_that_ends_while_it_connects_sends_nothing() {
    let bytes = Rc::new(Cell::new(None));
    let seen = bytes.clone();
    let receiver = Receiver::start(move |_, mut peer| {
        let seen = seen.clone();
        async move { seen.set(Some(peer.closed().await)) }
    })
    .await;
    assert_eq!(sender().send_if(request(&receiver.url()), allows(1)).await, None);
    while bytes.get().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!((receiver.connections(), bytes.get()), (1, Some(0)), "connections, and bytes on them");
}

#[actix_rt::test]
async fn a_permission_that_ends_before_a_kept_connection_is_used_sends_nothing() {
    let requests = Rc::new(Cell::new(0));
    let seen = requests.clone();
    let receiver = Receiver::start(move |_, mut peer| {
        let seen = seen.clone();
        async move {
            while peer.request().await.is_some() {
                seen.set(seen.get() + 1);
                peer.write(OK).await;
            }
        }
    })
    .await;
    let sender = sender();
    assert_eq!(sender.send(request(&receiver.url())).await.unwrap().status, 200);
    assert_eq!(sender.send_if(request(&receiver.url()), allows(1)).await, None);
    // The sender works on.
    assert_eq!(sender.send(request(&receiver.url())).await.unwrap().status, 200);
    assert_eq!((requests.get(), receiver.connections()), (2, 2), "requests, and connections");
}

#[actix_rt::test]
async fn a_second_try_that_may_not_start_leaves_the_failure_of_the_first() {
    let receiver = Receiver::start(|_, mut peer| async move {
        // A connection on which nothing came is one that was not used.
        let _ = peer.request().await;
    })
    .await;
    for (questions, connections) in [(2, 1), (3, 3)] {
        let outcome = sender().send_if(request(&receiver.url()), allows(questions)).await;
        assert_eq!(outcome.unwrap().unwrap_err().reason, NoAnswer::Closed);
        while receiver.connections() < connections {
            tokio::task::yield_now().await;
        }
        assert_eq!(receiver.connections(), connections, "{questions} questions");
    }
}
