//! Who logged in with a browser. A session is a cookie that the admin token vouches for: nothing is kept here, every replica with the same
//! token takes it, and another token ends them all.
//!
//! The page's scripts never see it (`HttpOnly`), other sites' pages never send it (`SameSite=Strict`), and what it may do but look takes a
//! header that only our own page can add.

use std::time::Duration;

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, web};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::domain::config::Secret;
use crate::web::problem::Problem;
use crate::web::{Shared, admin, body};

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

/// A session that begins now.
fn begin(token: &Secret, now_ms: i64) -> String {
    let ends = now_ms / 1000 + LIFE.as_secs() as i64;
    let claim = format!("{ends}.{:016x}", fastrand::u64(..));
    format!("{claim}.{}", seal(token, &claim))
}

/// Whether a cookie is a session of this token that lasts.
pub(in crate::web) fn is_valid(token: &Secret, cookie: &str, now_ms: i64) -> bool {
    let Some((claim, sealed)) = cookie.rsplit_once('.') else { return false };
    let ends: Option<i64> = claim.split_once('.').and_then(|(ends, _)| ends.parse().ok());
    admin::is_equal(sealed, &seal(token, claim)) && ends.is_some_and(|ends| now_ms / 1000 < ends)
}

fn seal(token: &Secret, claim: &str) -> String {
    let key = hmac(token.expose().as_bytes(), b"dispatcher dashboard session");
    HEXLOWER.encode(&hmac(&key, claim.as_bytes()))
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

#[derive(Deserialize)]
struct LogIn {
    token: String,
}

/// Whether one has to log in, and has.
pub(in crate::web) async fn get(request: HttpRequest, shared: web::Data<Shared>) -> HttpResponse {
    let service = &shared.service;
    let cookie = request.headers().get("cookie").and_then(|value| value.to_str().ok());
    let signed_in = match (&service.admin_token, of(cookie)) {
        (None, _) => true,
        (Some(token), Some(session)) => is_valid(token, session, service.clock.now_ms()),
        (Some(_), None) => false,
    };
    let needs_token = service.admin_token.is_some();
    HttpResponse::Ok().json(json!({ "needs_token": needs_token, "signed_in": signed_in }))
}

/// Logs in.
pub(in crate::web) async fn put(
    request: HttpRequest,
    payload: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    acts(&request)?;
    let text = body::read(&request, payload, BODY_BYTES).await?;
    let given: LogIn =
        serde_json::from_slice(&text).map_err(|_| Problem::bad_request("expected {\"token\"}"))?;
    let Some(token) = &shared.service.admin_token else {
        return Ok(HttpResponse::NoContent().finish());
    };
    // One at a time: guessing gets no faster by asking often.
    let turn = shared.log_ins.lock().await;
    if !admin::is_equal(given.token.trim(), token.expose()) {
        log::warn!("a log-in to the dashboard was refused err=wrong token");
        tokio::time::sleep(WRONG_TOKEN).await;
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "this is not the admin token"));
    }
    drop(turn);
    let session = begin(token, shared.service.clock.now_ms());
    log::info!("an operator logged in to the dashboard");
    Ok(HttpResponse::NoContent().insert_header(cookie(&request, &session, LIFE)).finish())
}

/// Logs out.
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
        let (token, other) = (Secret::new("sesame"), Secret::new("sesame2"));
        let session = begin(&token, 1_000_000);
        let life = LIFE.as_millis() as i64;
        assert!(is_valid(&token, &session, 1_000_000));
        assert!(is_valid(&token, &session, 999_000 + life));
        assert!(!is_valid(&token, &session, 1_000_000 + life));
        assert!(!is_valid(&other, &session, 1_000_000));
        assert!(!session.contains("sesame"));
        assert_ne!(session, begin(&token, 1_000_000));
        let (claim, seal) = session.rsplit_once('.').unwrap();
        let longer = claim.replacen(char::is_numeric, "9", 1);
        for forged in ["", ".", "a.b", &format!("9{claim}.{seal}"), &format!("{longer}0.{seal}"), claim] {
            assert!(!is_valid(&token, forged, 1_000_000), "{forged}");
        }
    }

    #[test]
    fn a_session_is_found_among_other_cookies() {
        assert_eq!(of(None), None);
        assert_eq!(of(Some("a=b; dispatcher_session=x.y.z; c=d")), Some("x.y.z"));
        assert_eq!(of(Some("xdispatcher_session=1;dispatcher_session_=2")), None);
    }
}
