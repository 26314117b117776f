//! Who may use the API: whoever has a token, or a browser's session that one vouches for; where none is configured, this machine.

use std::net::IpAddr;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::{StatusCode, header};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage as _, HttpRequest, ResponseError, web};
use url::{Host, Url};

use super::dashboard::session::{self, Sessions};
use super::problem::Problem;
use super::{Shared, audit};
use crate::domain::access::{AccessRole, AccessTokens, Caller};

/// The middleware before everything under `/v1`: nobody unknown passes, and what acts is for operators and is written down.
pub(super) async fn guard(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let caller = match admit(&request) {
        Ok(caller) => caller,
        // An answer, not an error: it gets the headers of all answers, and is counted.
        Err(problem) => return Ok(request.into_response(problem.error_response())),
    };
    let acts = !request.method().is_safe();
    let verdict = if acts { needs_operator(&caller, "to act") } else { Ok(()) };
    request.extensions_mut().insert(caller.clone());
    let record = if acts { audit::begin(&request, caller).await } else { None };
    let answer = match verdict {
        Ok(()) => next.call(request).await,
        Err(problem) => Ok(request.into_response(problem.error_response())),
    };
    if let Some(record) = record {
        let status =
            answer.as_ref().map_or_else(|err| err.as_response_error().status_code(), ServiceResponse::status);
        record.end(status).await;
    }
    answer
}

/// The middleware before the page: with a token everybody may see the form that asks for it.
pub(super) async fn guard_page(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let shared = request.app_data::<web::Data<Shared>>();
    let has_token = shared.is_some_and(|shared| !shared.service.access.is_empty());
    match if has_token { Ok(()) } else { admit_local(&sender(request.request())) } {
        Ok(()) => next.call(request).await,
        Err(problem) => Ok(request.into_response(problem.error_response())),
    }
}

/// Who sent a request that the guard let pass.
pub(super) fn caller_of(request: &HttpRequest) -> Result<Caller, Problem> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "it is not known who asks"))
}

/// Payloads are the data of the clients' users. To see that a delivery fails, and why, nobody needs them: so a viewer's token, which hangs on walls
/// and stands in scripts, does not open them.
/// Who does is written down.
pub(super) async fn may_see_payloads(
    shared: &web::Data<Shared>,
    request: &HttpRequest,
) -> Result<(), Problem> {
    let caller = caller_of(request)?;
    let verdict = needs_operator(&caller, "to see payloads");
    let status = if verdict.is_ok() { StatusCode::OK } else { StatusCode::FORBIDDEN };
    audit::note_reading(shared, request, caller, status).await;
    verdict
}

fn needs_operator(caller: &Caller, to_do: &str) -> Result<(), Problem> {
    if caller.role == AccessRole::Operator {
        return Ok(());
    }
    let detail = format!("{to_do} needs the role operator, {} is a viewer", caller.name);
    Err(Problem::new(StatusCode::FORBIDDEN, detail).with("needs", AccessRole::Operator.as_str()))
}

/// Who sends a request, if that may pass.
fn admit(request: &ServiceRequest) -> Result<Caller, Problem> {
    let Some(shared) = request.app_data::<web::Data<Shared>>() else {
        return Err(Problem::unavailable("the service stops"));
    };
    let service = &shared.service;
    let sessions = Sessions { key: &service.session_key, tokens: &service.access };
    judge(&sessions, &sender(request.request()), service.clock.now_ms())
}

fn sender(request: &HttpRequest) -> Sender<'_> {
    let header = |name: header::HeaderName| {
        // A header that came twice is as good as a wrong one.
        let mut values = request.headers().get_all(name);
        let first = values.next().map(|value| value.to_str().unwrap_or("?"));
        if values.next().is_some() { Some("?") } else { first }
    };
    Sender {
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
struct Sender<'a> {
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

fn judge(sessions: &Sessions<'_>, sender: &Sender<'_>, now_ms: i64) -> Result<Caller, Problem> {
    let tokens: &AccessTokens = sessions.tokens;
    if tokens.is_empty() {
        return admit_local(sender).map(|()| Caller::loopback());
    }
    let given = sender.authorization.and_then(|text| {
        let (scheme, given) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(given.trim())
    });
    if let Some(token) = given.and_then(|given| tokens.find(given)) {
        return Ok(token.caller.clone());
    }
    let signed_in = sender.session.and_then(|session| sessions.read(session, now_ms));
    match signed_in.filter(|_| sender.authorization.is_none()) {
        Some(_) if sender.acts && !sender.has_action_header => {
            let detail = format!("what acts with a session needs the header {}", session::ACTION_HEADER);
            Err(Problem::new(StatusCode::FORBIDDEN, detail))
        }
        Some(token) => Ok(token.caller.clone()),
        None => Err(Problem::new(StatusCode::UNAUTHORIZED, "the token is missing or wrong")
            .header(header::WWW_AUTHENTICATE, "Bearer")),
    }
}

/// Without a token: this machine only, and no web page that a browser on it happens to show.
fn admit_local(sender: &Sender<'_>) -> Result<(), Problem> {
    let refuse = |why: &str| Err(Problem::new(StatusCode::FORBIDDEN, why));
    if !sender.peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
        return refuse("without a token (DISPATCHER_ADMIN_TOKEN) only this machine is answered");
    }
    // A proxy on this machine hands on the requests of others.
    if sender.is_forwarded {
        return refuse("without a token no request that a proxy handed on is answered");
    }
    // A page can point a name of its own at 127.0.0.1: its requests carry that name.
    let Some(host) = sender.host.and_then(authority) else {
        return refuse("the request names no host");
    };
    let is_local = match &host.0 {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(_) | Host::Ipv6(_) => true,
    };
    if !is_local {
        return refuse("without a token the host must be localhost or an address");
    }
    // A page can also post to 127.0.0.1 itself: its requests carry its origin.
    match sender.origin {
        None => Ok(()),
        Some(origin) if Url::parse(origin).ok().and_then(|url| of_url(&url)) == Some(host) => Ok(()),
        Some(_) => refuse("without a token no other site's page is answered"),
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
    use crate::domain::access::AccessToken;
    use crate::domain::config::Secret;

    fn verdict(token: Option<&str>, peer: &str, headers: [Option<&str>; 3]) -> u16 {
        let [authorization, host, origin] = headers;
        let sender = Sender {
            peer: peer.parse().ok(),
            authorization,
            session: None,
            acts: true,
            has_action_header: false,
            host,
            origin,
            is_forwarded: false,
        };
        let tokens = token.map(|token| AccessToken::admin(&Secret::new(token))).into_iter().collect();
        let tokens = AccessTokens::new(tokens).unwrap();
        match judge(&Sessions { key: &[7; 32], tokens: &tokens }, &sender, 0) {
            Ok(_) => 200,
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
