//! What stands in a request's path and query.

use actix_web::{HttpRequest, web};
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::domain::config::ClientId;
use crate::domain::decision::Subject;

/// Bytes of a client's id, and of a job's.
pub(super) const ID_BYTES: usize = 512;

/// The first id of a path, `/v1/<what>/<id>`.
pub(super) const FIRST: usize = 3;
/// The second, `/v1/<what>/<id>/<part>/<id>`.
pub(super) const SECOND: usize = 5;

/// The client of a path.
pub(super) fn client_of(request: &HttpRequest) -> Result<ClientId, Problem> {
    Ok(ClientId::new(&id(request, FIRST, "client id")?))
}

/// The owner of a path.
pub(super) fn owner_of(request: &HttpRequest) -> Result<Subject, Problem> {
    let text = id(request, FIRST, "owner")?;
    Subject::parse(&text).map_err(|err| Problem::bad_request(format!("owner in the path: {}", err.problem)))
}

/// An id in a path, strictly percent-decoded, so that every id has a path.
pub(super) fn id(request: &HttpRequest, place: usize, what: &str) -> Result<String, Problem> {
    let broken = |why: &str| Problem::bad_request(format!("{what} in the path: {why}"));
    let segment = request.uri().path().split('/').nth(place).unwrap_or_default();
    let bytes = percent_decode(segment).ok_or_else(|| broken("broken percent encoding"))?;
    if bytes.is_empty() || bytes.len() > ID_BYTES {
        return Err(broken("must be 1 to 512 bytes"));
    }
    String::from_utf8(bytes).map_err(|_| broken("not UTF-8"))
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        decoded.push((high * 16 + low) as u8);
    }
    Some(decoded)
}

/// Reads the query of a request.
pub(super) fn query<T: DeserializeOwned>(request: &HttpRequest) -> Result<T, Problem> {
    web::Query::<T>::from_query(request.query_string())
        .map(web::Query::into_inner)
        .map_err(|err| Problem::bad_request(format!("query: {err}")))
}
