//! Who may use the API: the bearer of the admin token, or, where none is configured, this machine.

use std::net::IpAddr;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::{StatusCode, header};
use actix_web::middleware::Next;
use actix_web::{Error, ResponseError, web};
use sha2::{Digest, Sha256};
use url::{Host, Url};

use super::Shared;
use super::dashboard::session;
use super::problem::Problem;
use crate::domain::config::Secret;

/// The middleware before everything under `/v1`.
pub(super) async fn guard(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let shared = request.app_data::<web::Data<Shared>>();
    let token = shared.and_then(|shared| shared.service.admin_token.as_ref());
    let now_ms = shared.map_or(i64::MAX, |shared| shared.service.clock.now_ms());
    match admit(token, &caller(&request), now_ms) {
        Ok(()) => next.call(request).await,
        // An answer, not an error: it gets the headers of all answers, and is counted.
        Err(problem) => Ok(request.into_response(problem.error_response())),
    }
}

/// The middleware before the page: with a token everybody may see the form that asks for it.
pub(super) async fn guard_page(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let shared = request.app_data::<web::Data<Shared>>();
    let has_token = shared.is_some_and(|shared| shared.service.admin_token.is_some());
    match if has_token { Ok(()) } else { admit_local(&caller(&request)) } {
        Ok(()) => next.call(request).await,
        Err(problem) => Ok(request.into_response(problem.error_response())),
    }
}

fn caller(request: &ServiceRequest) -> Caller<'_> {
    let header = |name: header::HeaderName| {
        // A header that came twice is as good as a wrong one.
        let mut values = request.headers().get_all(name);
        let first = values.next().map(|value| value.to_str().unwrap_or("?"));
        if values.next().is_some() { Some("?") } else { first }
    };
    Caller {
        peer: request.peer_addr().map(|address| address.ip()),
        authorization: header(header::AUTHORIZATION),
        session: session::of(header(header::COOKIE)),
        acts: !request.method().is_safe(),
        has_action_header: request.headers().contains_key(session::ACTION_HEADER),
        host: request.uri().authority().map(|authority| authority.as_str()).or(header(header::HOST)),
        origin: header(header::ORIGIN),
        is_forwarded: FORWARDED.iter().any(|name| request.headers().contains_key(*name)),
    }
}

/// What is known of the sender of a request. Forwarded addresses are not: anybody can write them.
struct Caller<'a> {
    peer: Option<IpAddr>,
    authorization: Option<&'a str>,
    /// The cookie of a browser in which somebody logged in.
    session: Option<&'a str>,
    /// It may change something.
    acts: bool,
    /// It carries the header that only our own page adds.
    has_action_header: bool,
    host: Option<&'a str>,
    origin: Option<&'a str>,
    is_forwarded: bool,
}

/// What proxies add.
const FORWARDED: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

fn admit(token: Option<&Secret>, caller: &Caller<'_>, now_ms: i64) -> Result<(), Problem> {
    let Some(token) = token else { return admit_local(caller) };
    let given = caller.authorization.and_then(|text| {
        let (scheme, given) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(given.trim())
    });
    if given.is_some_and(|given| is_equal(given, token.expose())) {
        return Ok(());
    }
    let is_signed_in = caller.session.is_some_and(|session| session::is_valid(token, session, now_ms));
    if is_signed_in && caller.authorization.is_none() {
        if caller.acts && !caller.has_action_header {
            let detail = format!("what acts with a session needs the header {}", session::ACTION_HEADER);
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        return Ok(());
    }
    Err(Problem::new(StatusCode::UNAUTHORIZED, "the admin token is missing or wrong")
        .header(header::WWW_AUTHENTICATE, "Bearer"))
}

/// Compares digests, byte by byte to the end: neither the content nor the length of the token shows in the time.
pub(super) fn is_equal(given: &str, token: &str) -> bool {
    let (given, token) = (Sha256::digest(given), Sha256::digest(token));
    given.iter().zip(token.iter()).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// Without a token: this machine only, and no web page that a browser on it happens to show.
fn admit_local(caller: &Caller<'_>) -> Result<(), Problem> {
    let refuse = |why: &str| Err(Problem::new(StatusCode::FORBIDDEN, why));
    if !caller.peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
        return refuse("without an admin token (DISPATCHER_ADMIN_TOKEN) only this machine is answered");
    }
    // A proxy on this machine hands on the requests of others.
    if caller.is_forwarded {
        return refuse("without an admin token no request that a proxy handed on is answered");
    }
    // A page can point a name of its own at 127.0.0.1: its requests carry that name.
    let Some(host) = caller.host.and_then(authority) else {
        return refuse("the request names no host");
    };
    let is_local = match &host.0 {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(_) | Host::Ipv6(_) => true,
    };
    if !is_local {
        return refuse("without an admin token the host must be localhost or an address");
    }
    // A page can also post to 127.0.0.1 itself: its requests carry its origin.
    match caller.origin {
        None => Ok(()),
        Some(origin) if Url::parse(origin).ok().and_then(|url| of_url(&url)) == Some(host) => Ok(()),
        Some(_) => refuse("without an admin token no other site's page is answered"),
    }
}

type Authority = (Host<String>, u16);

fn authority(text: &str) -> Option<Authority> {
    let url = Url::parse(&format!("http://{text}/")).ok()?;
    let is_authority = url.username().is_empty() && url.password().is_none() && url.path() == "/";
    if is_authority { of_url(&url) } else { None }
}

fn of_url(url: &Url) -> Option<Authority> {
    Some((url.host()?.to_owned(), url.port_or_known_default()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(token: Option<&str>, peer: &str, headers: [Option<&str>; 3]) -> u16 {
        let [authorization, host, origin] = headers;
        let caller = Caller {
            peer: peer.parse().ok(),
            authorization,
            session: None,
            acts: true,
            has_action_header: false,
            host,
            origin,
            is_forwarded: false,
        };
        match admit(token.map(Secret::new).as_ref(), &caller, 0) {
            Ok(()) => 200,
            Err(problem) => problem.status_code().as_u16(),
        }
    }

    #[test]
    fn with_a_token_it_is_needed_from_everywhere() {
        for (authorization, expected) in [
            (Some("Bearer sesame"), 200),
            (Some("bearer sesame"), 200),
            (Some("Bearer  sesame"), 200),
            (None, 401),
            (Some(""), 401),
            (Some("sesame"), 401),
            (Some("Bearer sesam"), 401),
            (Some("Bearer sesame1"), 401),
            (Some("Basic sesame"), 401),
            (Some("?"), 401),
        ] {
            for peer in ["127.0.0.1", "203.0.113.9", ""] {
                let headers = [authorization, Some("evil.example"), Some("https://evil.example")];
                assert_eq!(verdict(Some("sesame"), peer, headers), expected, "{authorization:?} {peer}");
            }
        }
    }

    #[test]
    fn without_a_token_this_machine_is_answered_and_no_page_in_its_browser() {
        for (peer, host, origin, expected) in [
            ("127.0.0.1", Some("127.0.0.1:4010"), None, 200),
            ("::1", Some("[::1]:4010"), None, 200),
            ("::ffff:127.0.0.1", Some("localhost:4010"), None, 200),
            ("127.9.9.9", Some("LOCALHOST"), None, 200),
            ("127.0.0.1", Some("localhost:4010"), Some("http://localhost:4010"), 200),
            ("127.0.0.1", Some("localhost"), Some("http://localhost"), 200),
            ("203.0.113.9", Some("127.0.0.1:4010"), None, 403),
            ("10.0.0.1", Some("127.0.0.1:4010"), None, 403),
            ("::ffff:10.0.0.1", Some("127.0.0.1:4010"), None, 403),
            ("", Some("127.0.0.1:4010"), None, 403),
            ("127.0.0.1", None, None, 403),
            ("127.0.0.1", Some("?"), None, 403),
            ("127.0.0.1", Some("rebind.example:4010"), None, 403),
            ("127.0.0.1", Some("localhost.example"), None, 403),
            ("127.0.0.1", Some("127.0.0.1@rebind.example"), None, 403),
            ("127.0.0.1", Some("127.0.0.1:4010"), Some("https://evil.example"), 403),
            ("127.0.0.1", Some("127.0.0.1:4010"), Some("http://127.0.0.1:9999"), 403),
            ("127.0.0.1", Some("127.0.0.1:4010"), Some("http://localhost:4010"), 403),
            ("127.0.0.1", Some("127.0.0.1:4010"), Some("null"), 403),
            ("127.0.0.1", Some("127.0.0.1:4010"), Some(""), 403),
        ] {
            assert_eq!(verdict(None, peer, [None, host, origin]), expected, "{peer} {host:?} {origin:?}");
        }
    }
}
