//! What an answer means, or that there was none.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime};

use super::{Answer, Failure, FailureClass, NoAnswer, Outcome};

/// A client does not wait longer than this because an answer said so.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// What became of an attempt. `now_ms` is for a `Retry-After` that is a date, milliseconds since 1970.
///
/// A redirect is never followed; it counts as [`FailureClass::Config`]: a webhook that moved is no reason to
/// give a payload up.
pub fn classify(result: Result<&Answer, NoAnswer>, now_ms: i64) -> Outcome {
    let answer = match result {
        Ok(answer) => answer,
        Err(reason) => {
            return Outcome::Failed(Failure {
                class: FailureClass::Endpoint,
                reason: reason.as_str().to_owned(),
                status: None,
                retry_after: None,
            });
        }
    };
    let class = match answer.status {
        200..=299 => return Outcome::Delivered,
        410 => return Outcome::Gone,
        408 | 425 | 429 => FailureClass::Endpoint,
        300..=399 | 401 | 403 | 404 => FailureClass::Config,
        400..=499 => FailureClass::Payload,
        _ => FailureClass::Endpoint,
    };
    let asks_to_wait = matches!(answer.status, 429 | 503);
    let retry_after = answer.retry_after.as_deref().filter(|_| asks_to_wait);
    Outcome::Failed(Failure {
        class,
        reason: format!("status_{}", answer.status),
        status: Some(answer.status),
        retry_after: retry_after.and_then(|text| wait(text, now_ms)),
    })
}

/// The wait that a `Retry-After` asks for, at most [`LONGEST_WAIT`]: seconds, also with a fraction, or an
/// HTTP date; a date that has passed is no wait. `None`: it is neither.
fn wait(text: &str, now_ms: i64) -> Option<Duration> {
    let text = text.trim();
    let wait = if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        let seconds: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_WAIT)
    } else {
        let millis = http_date_ms(text)?.saturating_sub(now_ms);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    };
    Some(wait.min(LONGEST_WAIT))
}

/// Reads the three forms of RFC 9110, 5.6.7.
fn http_date_ms(text: &str) -> Option<i64> {
    const OBSOLETE: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let obsolete = || OBSOLETE.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    DateTime::parse_from_rfc2822(text)
        .map(|date| date.timestamp_millis())
        .ok()
        .or_else(|| obsolete().map(|date| date.and_utc().timestamp_millis()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT
    const DATE_MS: i64 = 784_111_777_000;

    fn answer(status: u16, retry_after: Option<&str>) -> Answer {
        Answer { status, retry_after: retry_after.map(str::to_owned), excerpt: Bytes::new() }
    }

    fn failure(status: u16, retry_after: Option<&str>, now_ms: i64) -> Failure {
        match classify(Ok(&answer(status, retry_after)), now_ms) {
            Outcome::Failed(failure) => failure,
            outcome => panic!("{status} is {outcome:?}"),
        }
    }

    #[test]
    fn two_hundreds_are_delivered_and_410_is_gone() {
        for status in [200, 201, 202, 204, 226, 299] {
            assert_eq!(classify(Ok(&answer(status, None)), 0), Outcome::Delivered, "{status}");
        }
        assert_eq!(classify(Ok(&answer(410, None)), 0), Outcome::Gone);
    }

    #[test]
    fn each_status_counts_for_somebody() {
        use FailureClass::{Config, Endpoint, Payload};
        for (status, class) in [
            (408, Endpoint),
            (425, Endpoint),
            (429, Endpoint),
            (500, Endpoint),
            (501, Endpoint),
            (503, Endpoint),
            (599, Endpoint),
            (600, Endpoint),
            (101, Endpoint),
            (0, Endpoint),
            (401, Config),
            (403, Config),
            (404, Config),
            (300, Config),
            (301, Config),
            (308, Config),
            (400, Payload),
            (402, Payload),
            (405, Payload),
            (409, Payload),
            (411, Payload),
            (413, Payload),
            (415, Payload),
            (422, Payload),
            (499, Payload),
        ] {
            let failure = failure(status, None, 0);
            assert_eq!(failure.class, class, "{status}");
            assert_eq!(failure.reason, format!("status_{status}"));
            assert_eq!(failure.status, Some(status));
        }
    }

    #[test]
    fn no_answer_is_the_webhooks_fault() {
        for (reason, label) in [
            (NoAnswer::Timeout, "timeout"),
            (NoAnswer::Dns, "dns"),
            (NoAnswer::Connect, "connect"),
            (NoAnswer::Tls, "tls"),
            (NoAnswer::EgressDenied, "egress_denied"),
            (NoAnswer::Closed, "closed"),
            (NoAnswer::BadAnswer, "bad_answer"),
        ] {
            let Outcome::Failed(failure) = classify(Err(reason), 0) else { panic!("{reason:?}") };
            assert_eq!((failure.class, failure.reason.as_str()), (FailureClass::Endpoint, label));
            assert_eq!((failure.status, failure.retry_after), (None, None));
        }
    }

    #[test]
    fn reads_retry_after_in_every_form() {
        let now_ms = DATE_MS - 30_000;
        for (text, millis) in [
            ("0", Some(0)),
            ("120", Some(120_000)),
            (" 1.5 ", Some(1500)),
            (".5", Some(500)),
            ("3600", Some(3_600_000)),
            ("3601", Some(3_600_000)),
            ("99999999999999999999999999", Some(3_600_000)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30_000)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(30_000)),
            ("Sun Nov  6 08:49:37 1994", Some(30_000)),
            ("Sun, 06 Nov 1994 07:49:37 GMT", Some(0)),
            ("Fri, 06 Nov 2054 08:49:37 GMT", Some(3_600_000)),
            ("-5", None),
            ("", None),
            (".", None),
            ("1.2.3", None),
            ("inf", None),
            ("NaN", None),
            ("1e3", None),
            ("soon", None),
        ] {
            let read = failure(429, Some(text), now_ms).retry_after;
            assert_eq!(read, millis.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn only_429_and_503_make_a_client_wait() {
        for status in [301, 400, 401, 408, 425, 500, 502, 504] {
            assert_eq!(failure(status, Some("10"), 0).retry_after, None, "{status}");
        }
        for status in [429, 503] {
            assert_eq!(failure(status, Some("10"), 0).retry_after, Some(Duration::from_secs(10)), "{status}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic_or_wait_too_long(text in ".{0,40}|[0-9.]{0,400}", now_ms: i64) {
            if let Some(wait) = failure(503, Some(&text), now_ms).retry_after {
                prop_assert!(wait <= LONGEST_WAIT);
            }
        }
    }
}
