//! Who logged in with a browser. A session is a cookie that names a token and is sealed with the key of the store and the token's hash: nothing is
//! kept of it, every replica takes it, and it ends with its token.
//!
//! The page's scripts never see it (`HttpOnly`), other sites' pages never send it (`SameSite=Strict`), and what it may do but look takes a
//! header that only our own page can add.

use std::time::Duration;

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, web};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::domain::access::{AccessRole, AccessToken, AccessTokens, Caller};
use crate::ports::session_keys::SessionKey;
use crate::web::problem::Problem;
use crate::web::{Shared, access, audit, body, schema};

/// The name of the cookie.
pub(in crate::web) const COOKIE: &str = "dispatcher_session";
/// The header of requests that act.
pub(in crate::web) const ACTION_HEADER: &str = "x-dispatcher-action";
/// How long a session lasts.
const LIFE: Duration = Duration::from_secs(12 * 3600);
/// Bytes of a log-in.
const BODY_BYTES: usize = 8 << 10;
/// A wrong token costs its sender this long.
const WRONG_TOKEN: Duration = Duration::from_millis(300);

/// What makes and reads sessions.
pub(in crate::web) struct Sessions<'a> {
    pub(in crate::web) key: &'a SessionKey,
    pub(in crate::web) tokens: &'a AccessTokens,
}

impl Sessions<'_> {
    /// A session of a token that begins now: `<name>.<end>.<nonce>.<seal>`.
    fn begin(&self, token: &AccessToken, now_ms: i64) -> String {
        let ends = now_ms / 1000 + LIFE.as_secs() as i64;
        let claim = format!("{}.{ends}.{:016x}", token.caller.name, fastrand::u64(..));
        format!("{claim}.{}", self.seal(token, &claim))
    }

    /// The token whose session this is, while it lasts.
    pub(in crate::web) fn read(&self, cookie: &str, now_ms: i64) -> Option<&AccessToken> {
        let (claim, sealed) = cookie.rsplit_once('.')?;
        let mut parts = claim.rsplitn(3, '.').skip(1);
        let (ends, name) = (parts.next()?.parse::<i64>().ok()?, parts.next()?);
        let token = self.tokens.named(name)?;
        (is_equal(sealed, &self.seal(token, claim)) && now_ms / 1000 < ends).then_some(token)
    }

    fn seal(&self, token: &AccessToken, claim: &str) -> String {
        let key = hmac(self.key, token.hash.as_bytes());
        HEXLOWER.encode(&hmac(&key, claim.as_bytes()))
    }
}

/// Compares to the end: how much is alike does not show in the time.
fn is_equal(given: &str, seal: &str) -> bool {
    let differences = given.bytes().zip(seal.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    given.len() == seal.len() && differences == 0
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; 64];
    match key.len() > block.len() {
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

/// The session that a request carries; `header` is its `cookie` header.
pub(in crate::web) fn of(header: Option<&str>) -> Option<&str> {
    let mut pairs = header?.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// A log-in.
#[derive(Deserialize, ToSchema)]
struct LogIn {
    token: String,
}

/// Who asks.
#[derive(Serialize, ToSchema)]
struct Who {
    /// The name of the token; `loopback` where none is needed.
    name: String,
    /// What it allows: viewers act on nothing.
    #[schema(value_type = schema::Role)]
    role: AccessRole,
}

impl From<Caller> for Who {
    fn from(Caller { name, role }: Caller) -> Self {
        Self { name: name.to_string(), role }
    }
}

/// Who is logged in.
#[derive(Serialize, ToSchema)]
struct SessionView {
    /// Whether anybody needs a token.
    needs_token: bool,
    /// Whether the sender may see the API.
    signed_in: bool,
    /// As whom; left out when nobody is.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// What that allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Role>)]
    role: Option<AccessRole>,
}

/// Whether one has to log in, and has
#[utoipa::path(get, path = "/dashboard/session", responses((status = 200, body = SessionView)))]
pub(in crate::web) async fn get(request: HttpRequest, shared: web::Data<Shared>) -> HttpResponse {
    let service = &shared.service;
    let cookie = request.headers().get("cookie").and_then(|value| value.to_str().ok());
    let sessions = Sessions { key: &service.session_key, tokens: &service.access };
    let needs_token = !service.access.is_empty();
    let caller = match of(cookie) {
        _ if !needs_token => Some(Caller::loopback()),
        Some(session) => sessions.read(session, service.clock.now_ms()).map(|token| token.caller.clone()),
        None => None,
    };
    HttpResponse::Ok().json(SessionView {
        needs_token,
        signed_in: caller.is_some(),
        name: caller.as_ref().map(|caller| caller.name.to_string()),
        role: caller.map(|caller| caller.role),
    })
}

/// Who asks, and what that allows
#[utoipa::path(get, path = "/v1/session", responses((status = 200, body = Who)))]
pub(in crate::web) async fn who(request: HttpRequest) -> Result<HttpResponse, Problem> {
    Ok(HttpResponse::Ok().json(Who::from(access::caller_of(&request)?)))
}

/// Logs a browser in, by a cookie
#[utoipa::path(put, path = "/dashboard/session",
    params(("x-dispatcher-action" = String, Header, description = "Anything: only our own page can add it")),
    request_body = LogIn, responses(
    (status = 204, description = "The cookie is set"),
    (status = 401, description = "There is no such token"),
))]
pub(in crate::web) async fn put(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    acts(&request)?;
    let given: LogIn = body::needed_object(&request, payload, BODY_BYTES, r#"{"token"}"#).await?;
    let service = &shared.service;
    if service.access.is_empty() {
        return Ok(HttpResponse::NoContent().finish());
    }
    // One at a time: guessing gets no faster by asking often.
    let turn = shared.log_ins.lock().await;
    let Some(token) = service.access.find(given.token.trim()) else {
        log::warn!("a log-in to the dashboard was refused err=wrong token");
        tokio::time::sleep(WRONG_TOKEN).await;
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "there is no such token"));
    };
    drop(turn);
    let sessions = Sessions { key: &service.session_key, tokens: &service.access };
    let session = sessions.begin(token, service.clock.now_ms());
    log::info!("somebody logged in to the dashboard by={}", token.caller.name);
    audit::note(&shared, token.caller.clone(), "log_in", String::new(), StatusCode::NO_CONTENT).await;
    Ok(HttpResponse::NoContent().insert_header(cookie(&request, &session, LIFE)).finish())
}

/// Logs a browser out
#[utoipa::path(delete, path = "/dashboard/session",
    params(("x-dispatcher-action" = String, Header, description = "Anything: only our own page can add it")),
    responses((status = 204, description = "The cookie is gone")))]
pub(in crate::web) async fn delete(request: HttpRequest) -> Result<HttpResponse, Problem> {
    acts(&request)?;
    Ok(HttpResponse::NoContent().insert_header(cookie(&request, "", Duration::ZERO)).finish())
}

fn acts(request: &HttpRequest) -> Result<(), Problem> {
    if request.headers().contains_key(ACTION_HEADER) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, format!("the header {ACTION_HEADER} is missing")))
}

fn cookie(request: &HttpRequest, value: &str, life: Duration) -> (header::HeaderName, String) {
    // A proxy before us speaks TLS: then the cookie never goes without.
    let by_tls = request.headers().get("x-forwarded-proto").is_some_and(|proto| proto == "https");
    let (seconds, secure) = (life.as_secs(), if by_tls { "; Secure" } else { "" });
    let text = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    (header::SET_COOKIE, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::access::{AccessRole, TokenHash};
    use crate::domain::config::Secret;

    #[test]
    fn hmac_is_that_of_the_rfc() {
        // RFC 4231, cases 2 and 6.
        assert_eq!(
            HEXLOWER.encode(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            HEXLOWER.encode(&hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn a_session_is_of_one_token_and_ends() {
        let admin = AccessToken::admin(&Secret::new("sesame"));
        let wall = AccessToken::named("wall.1", AccessRole::Viewer, TokenHash::of("open")).unwrap();
        let tokens = AccessTokens::new(vec![admin, wall.clone()]).unwrap();
        let sessions = Sessions { key: &[7; 32], tokens: &tokens };
        let session = sessions.begin(&wall, 1_000_000);
        let life = LIFE.as_millis() as i64;
        assert_eq!(sessions.read(&session, 1_000_000), Some(&wall));
        assert_eq!(sessions.read(&session, 999_000 + life), Some(&wall));
        assert_eq!(sessions.read(&session, 1_000_000 + life), None);
        assert!(!session.contains("open"));
        assert_ne!(session, sessions.begin(&wall, 1_000_000));

        let elsewhere = Sessions { key: &[8; 32], tokens: &tokens };
        assert_eq!(elsewhere.read(&session, 1_000_000), None, "the hash alone makes no session");
        let other = AccessToken::named("wall.1", AccessRole::Viewer, TokenHash::of("other")).unwrap();
        let changed = AccessTokens::new(vec![other]).unwrap();
        assert_eq!(Sessions { key: &[7; 32], tokens: &changed }.read(&session, 1_000_000), None);
        assert_eq!(Sessions { key: &[7; 32], tokens: &AccessTokens::default() }.read(&session, 1), None);

        let (claim, seal) = session.rsplit_once('.').unwrap();
        let as_admin = session.replacen("wall.1", "admin", 1);
        let longer = claim.replacen("wall.1.", "wall.1.9", 1);
        for forged in [
            "",
            ".",
            "...",
            "a.b",
            "admin.9.9.",
            &as_admin,
            &format!("{longer}.{seal}"),
            claim,
            &session[1..],
        ] {
            assert_eq!(sessions.read(forged, 1_000_000), None, "{forged}");
        }
    }

    #[test]
    fn a_session_is_found_among_other_cookies() {
        assert_eq!(of(None), None);
        assert_eq!(of(Some("a=b; dispatcher_session=x.y.z; c=d")), Some("x.y.z"));
        assert_eq!(of(Some("xdispatcher_session=1;dispatcher_session_=2")), None);
    }
}
