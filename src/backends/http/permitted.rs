//! The last question before the first byte of a request: whether it may start. Connecting may have taken seconds, or the process may
//! have been stopped meanwhile.
//!
//! awc writes the head of a request together with the first piece of its body, so the body is who can still say no: then the
//! connection is dropped with nothing written on it.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

use crate::ports::webhook_sender::MayStart;

/// The request was not allowed to start. Travels through awc in a box, and is found again by its type.
#[derive(Debug, thiserror::Error)]
#[error("the request may not start")]
pub(super) struct NotStarted;

/// A body of one piece, which is not empty: an empty one is never asked for.
pub(super) struct PermittedBody {
    length: u64,
    piece: Option<Bytes>,
    may_start: MayStart,
}

impl PermittedBody {
    pub(super) fn new(body: Bytes, may_start: MayStart) -> Self {
        Self { length: body.len() as u64, piece: Some(body), may_start }
    }
}

impl MessageBody for PermittedBody {
    type Error = NotStarted;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.length)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, NotStarted>>> {
        let piece = self.piece.take();
        Poll::Ready(piece.map(|piece| if (self.may_start)() { Ok(piece) } else { Err(NotStarted) }))
    }
}
