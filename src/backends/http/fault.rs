//! What an error of awc means: by its type, never by its text.

use std::io;

use actix_web::error::ParseError;
use awc::error::{ConnectError, SendRequestError};

use super::connector::ConnectFault;
use super::permitted::NotStarted;
use crate::domain::delivery::NoAnswer;
use crate::ports::webhook_sender::SendError;

/// A detail is kept with the failed payload and shown to people; a receiver chooses part of it (the names in its
/// certificate), so its length is bounded.
const DETAIL_CHARS: usize = 200;

/// An attempt that brought no answer.
pub(super) fn send_error(reason: NoAnswer, detail: impl ToString) -> SendError {
    SendError { reason, detail: detail.to_string().chars().take(DETAIL_CHARS).collect() }
}

/// Reads awc's error. `None`: the request was not allowed to start.
pub(super) fn from_awc(error: SendRequestError) -> Option<SendError> {
    Some(match error {
        SendRequestError::Body(error) if error.is::<NotStarted>() => return None,
        SendRequestError::Connect(error) => from_connect(error),
        SendRequestError::Send(error) => from_open_connection(&error),
        SendRequestError::Response(ParseError::Io(error)) => from_open_connection(&error),
        SendRequestError::Response(error) => send_error(NoAnswer::BadAnswer, error),
        SendRequestError::Timeout => send_error(NoAnswer::Timeout, "no answer in time"),
        // The rest cannot come of a request of ours: no HTTP/2, no tunnel, a URL and headers that were checked.
        _ => send_error(NoAnswer::Connect, "the request cannot be sent"),
    })
}

fn from_connect(error: ConnectError) -> SendError {
    match error {
        ConnectError::Resolver(error) => match error.downcast_ref::<ConnectFault>() {
            Some(fault @ ConnectFault::Dns(_)) => send_error(NoAnswer::Dns, fault),
            Some(fault @ ConnectFault::Denied) => send_error(NoAnswer::EgressDenied, fault),
            Some(fault @ ConnectFault::Tcp(_)) => send_error(NoAnswer::Connect, fault),
            None => send_error(NoAnswer::Dns, error),
        },
        // What our connector reports came as `Resolver`, and its deadline is before awc's: what is left happened
        // to the TLS handshake.
        ConnectError::Timeout => send_error(NoAnswer::Tls, "no TLS handshake in time"),
        ConnectError::Io(error) => send_error(NoAnswer::Tls, format!("no TLS handshake: {error}")),
        ConnectError::Disconnected => closed(),
        error => send_error(NoAnswer::Connect, error),
    }
}

/// An I/O error after the connection stood, before the head of an answer was whole.
fn from_open_connection(error: &io::Error) -> SendError {
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        // A server may refuse the handshake after we took it for done (TLS 1.3).
        return send_error(NoAnswer::Tls, error);
    }
    match error.kind() {
        // The decoder's word for an end in the middle of the head.
        io::ErrorKind::Other => send_error(NoAnswer::BadAnswer, "closed in the middle of the headers"),
        _ => closed(),
    }
}

fn closed() -> SendError {
    send_error(NoAnswer::Closed, "closed before an answer")
}
