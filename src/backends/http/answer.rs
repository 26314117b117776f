//! Reads an answer: never more than is asked for, never longer than allowed.

use awc::ClientResponse;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};

use super::fault::send_error;
use crate::domain::delivery::{Answer, NoAnswer};
use crate::ports::webhook_sender::SendError;

/// How much of the body is kept.
const EXCERPT_BYTES: usize = 1024;

/// No `retry-after` that means something is longer (an HTTP date has 29 characters).
const RETRY_AFTER_BYTES: usize = 64;

/// Reads the body up to its end, `limit` bytes, or the deadline. The status stands in the head, so whatever happens to
/// the body changes nothing; only a body that was read to its end leaves a connection that can be used again.
pub(super) async fn read(
    mut response: ClientResponse,
    limit: usize,
    deadline: Instant,
) -> Result<Answer, SendError> {
    let status = response.status();
    if status.is_informational() {
        return Err(send_error(NoAnswer::BadAnswer, format!("{} is no final answer", status.as_u16())));
    }
    let retry_after = response
        .headers()
        .get("retry-after")
        .and_then(|value| value.to_str().ok())
        .filter(|text| text.len() <= RETRY_AFTER_BYTES)
        .map(str::to_owned);
    // awc reads an HTTP/1.0 answer up to the end of the connection even when it says that it has no body.
    let empty = response.headers().get("content-length").is_some_and(|length| length == "0");
    let mut excerpt = BytesMut::new();
    let mut seen = 0;
    while !empty && let Ok(Some(Ok(chunk))) = timeout_at(deadline, response.next()).await {
        let room = EXCERPT_BYTES - excerpt.len();
        excerpt.extend_from_slice(&chunk[..chunk.len().min(room)]);
        seen += chunk.len();
        if seen > limit {
            break;
        }
    }
    Ok(Answer { status: status.as_u16(), retry_after, excerpt: Bytes::from(excerpt) })
}
