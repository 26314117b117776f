use serde_json::json;

use super::*;

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn read(value: &str) -> ClientConfig {
    read_value(&ClientId::new("a"), Status::Active, false, 1, 0, None, value)
}

/// The settings of a value that has the member `webhook` and these.
fn settings(members: Value) -> Result<Arc<DeliverySettings>, String> {
    let mut value = json!({"webhook": "https://a.test/hook"});
    value.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    read(&value.to_string()).delivery.map_err(|fault| fault.to_string())
}

#[test]
fn a_webhook_is_enough() {
    let config = read(r#"{"webhook": "https://a.test/hook?x=1", "colour": {"is": "ignored"}}"#);
    assert!(config.is_usable());
    assert_eq!((config.format, &config.filter), (BodyFormat::Plain, &Filter::default()));
    let settings = config.delivery.unwrap();
    assert_eq!(settings.webhook.as_str(), "https://a.test/hook?x=1");
    assert_eq!(settings.timeout, Duration::from_secs(15));
    assert_eq!(settings.concurrency, 32);
    assert_eq!(settings.ordering, Ordering::Document);
    assert!(settings.authorization.is_none() && settings.secrets.is_empty() && settings.headers.is_empty());
    assert!(settings.rate_limit.is_none() && !settings.coalesce);
}

#[test]
fn reads_every_key() {
    let config = read(
        &json!({
            "webhook": "http://127.0.0.1:9000/hook",
            "authorization": "Bearer token",
            "secrets": [SECRET, "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="],
            "headers": {"X-Tenant": "blue", "x-other": ""},
            "timeout_ms": {"$numberLong": "2000"},
            "concurrency": 1.0,
            "rate_limit": {"max": {"$numberInt": "10"}, "per_ms": 1000},
            "ordering": "client",
            "format": "extended",
            "filter": {"include": ["identity.*"], "exclude": ["identity.sessions"], "ops": ["c", "d"]},
            "coalesce": true,
        })
        .to_string(),
    );
    assert_eq!(config.format, BodyFormat::Extended);
    assert_eq!(config.filter.ops, [Op::Create, Op::Delete]);
    assert_eq!((config.filter.include.len(), config.filter.exclude.len()), (1, 1));
    let settings = config.delivery.unwrap();
    assert_eq!(settings.authorization, Some(Secret::new("Bearer token")));
    assert_eq!(settings.secrets.len(), 2);
    assert_eq!(settings.secrets[0], SigningKey::read(SECRET).unwrap());
    assert_eq!(
        settings.headers,
        [("x-tenant".to_owned(), Secret::new("blue")), ("x-other".to_owned(), Secret::new(""))]
    );
    assert_eq!(settings.timeout, Duration::from_secs(2));
    assert_eq!(settings.concurrency, 1);
    assert_eq!(settings.rate_limit, Some(RateLimit { max: 10, per: Duration::from_secs(1) }));
    assert_eq!(settings.ordering, Ordering::Client);
    assert!(settings.coalesce);
}

#[test]
fn null_and_undefined_are_absent() {
    let read = settings(json!({
        "authorization": null, "secret": null, "secrets": null, "headers": null, "timeout_ms": null,
        "rate_limit": null, "ordering": {"$undefined": true}, "coalesce": null, "filter": null, "format": null,
    }));
    assert_eq!(read, settings(json!({})));
    assert_eq!(settings(json!({"authorization": ""})), settings(json!({})));
    assert_eq!(settings(json!({"secrets": []})), settings(json!({})));
}

#[test]
fn names_what_is_wrong_with_the_whole() {
    for (value, fault) in [
        ("", "value: is not JSON (line 1, column 0)"),
        ("{\"webhook\": NaN}", "value: is not JSON (line 1, column 13)"),
        ("null", "value: must be an object"),
        ("[1]", "value: must be an object"),
        ("{}", "webhook: is required"),
        (r#"{"webhook": null}"#, "webhook: is required"),
        (r#"{"webhook": 1}"#, "webhook: must be text"),
    ] {
        assert_eq!(read(value).delivery.unwrap_err().to_string(), fault, "{value}");
    }
}

#[test]
fn a_webhook_is_http_with_a_host_and_without_credentials() {
    for url in [
        "https://a.test",
        "http://a.test:8080/x",
        "https://[::1]/x",
        "http://127.0.0.1/",
        "HTTPS://A.test/ü?q={}|^#frag",
        "https://bücher.test/",
    ] {
        assert!(settings(json!({"webhook": url})).is_ok(), "{url}");
    }
    for (url, problem) in [
        ("not a url", "is not a URL: relative URL without a base"),
        ("", "is not a URL: relative URL without a base"),
        ("/hook", "is not a URL: relative URL without a base"),
        ("http://", "is not a URL: empty host"),
        ("http://a.test:99999/", "is not a URL: invalid port number"),
        ("ftp://a.test/", "must be an http or https URL"),
        ("file:///etc/passwd", "must be an http or https URL"),
        ("data:text/plain,x", "must be an http or https URL"),
        ("https://user:pw@a.test/", "must not hold a user name or password: use `authorization`"),
        ("https://user@a.test/", "must not hold a user name or password: use `authorization`"),
        ("https://:pw@a.test/", "must not hold a user name or password: use `authorization`"),
    ] {
        assert_eq!(settings(json!({"webhook": url})), Err(format!("webhook: {problem}")), "{url}");
    }
    let long = format!("https://a.test/{}", "x".repeat(MAX_URL_BYTES));
    assert_eq!(
        settings(json!({"webhook": long})),
        Err("webhook: must be at most 8192 bytes long".to_owned())
    );
}

#[test]
fn names_the_key_that_is_wrong() {
    for (members, key) in [
        (json!({"authorization": 1}), "authorization"),
        (json!({"authorization": "Bearer a\r\nx: y"}), "authorization"),
        (json!({"authorization": "Bearer ü"}), "authorization"),
        (json!({"authorization": "x".repeat(8193)}), "authorization"),
        (json!({"secret": "hunter2"}), "secret"),
        (json!({"secret": ""}), "secret"),
        (json!({"secret": [SECRET]}), "secret"),
        (json!({"secret": "whsec_AAAA"}), "secret"),
        (json!({"secret": SECRET, "secrets": [SECRET]}), "secret"),
        (json!({"secrets": SECRET}), "secrets"),
        (json!({"secrets": [SECRET, "x"]}), "secrets[1]"),
        (json!({"secrets": vec![SECRET; 9]}), "secrets"),
        (json!({"headers": []}), "headers"),
        (json!({"headers": {"x-a": 1}}), "headers.x-a"),
        (json!({"headers": {"x-a": null}}), "headers.x-a"),
        (json!({"headers": {"x-a": "a\nb"}}), "headers.x-a"),
        (json!({"headers": {"x-a": "x".repeat(4097)}}), "headers.x-a"),
        (json!({"headers": {"x-a": "1", "X-A": "2"}}), "headers.x-a"),
        (json!({"headers": {"x-a": "1", "x a": "2"}}), "headers[1]"),
        (json!({"headers": {"": "2"}}), "headers[0]"),
        (json!({"headers": {"x".repeat(257): "2"}}), "headers[0]"),
        (json!({"timeout_ms": 999}), "timeout_ms"),
        (json!({"timeout_ms": 60_001}), "timeout_ms"),
        (json!({"timeout_ms": "5000"}), "timeout_ms"),
        (json!({"timeout_ms": 5000.5}), "timeout_ms"),
        (json!({"timeout_ms": -5000}), "timeout_ms"),
        (json!({"timeout_ms": {"$numberLong": "4294968296"}}), "timeout_ms"),
        (json!({"concurrency": 0}), "concurrency"),
        (json!({"concurrency": 257}), "concurrency"),
        (json!({"rate_limit": 5}), "rate_limit"),
        (json!({"rate_limit": {"max": 5}}), "rate_limit.per_ms"),
        (json!({"rate_limit": {"per_ms": 5}}), "rate_limit.max"),
        (json!({"rate_limit": {"max": 0, "per_ms": 5}}), "rate_limit.max"),
        (json!({"rate_limit": {"max": 1, "per_ms": 0}}), "rate_limit.per_ms"),
        (json!({"ordering": "none"}), "ordering"),
        (json!({"ordering": 1}), "ordering"),
        (json!({"format": "xml"}), "format"),
        (json!({"coalesce": "yes"}), "coalesce"),
        (json!({"filter": "identity.*"}), "filter"),
        (json!({"filter": {"include": "identity.*"}}), "filter.include"),
        (json!({"filter": {"include": ["identity.*", "users"]}}), "filter.include[1]"),
        (json!({"filter": {"exclude": [5]}}), "filter.exclude[0]"),
        (json!({"filter": {"exclude": [format!("a.{}", "x".repeat(256))]}}), "filter.exclude[0]"),
        (json!({"filter": {"include": vec!["*"; 257]}}), "filter.include"),
        (json!({"filter": {"ops": ["c", "create"]}}), "filter.ops[1]"),
    ] {
        let fault = settings(members.clone()).unwrap_err();
        assert!(fault.starts_with(&format!("{key}: ")), "{members}: {fault}");
    }
}

#[test]
fn refuses_reserved_headers_in_any_case() {
    for name in [
        "Host",
        "content-length",
        "Content-Type",
        "connection",
        "transfer-encoding",
        "TE",
        "trailer",
        "upgrade",
        "keep-alive",
        "proxy-authorization",
        "Proxy-Connection",
        "user-agent",
        "Authorization",
        "traceparent",
        "tracestate",
        "webhook-id",
        "Webhook-Anything",
        "expect",
        "accept-encoding",
    ] {
        let fault = settings(json!({"headers": {name: "x"}})).unwrap_err();
        assert_eq!(fault, format!("headers.{}: is reserved", name.to_ascii_lowercase()));
    }
}

#[test]
fn takes_as_many_headers_as_allowed() {
    let headers = |count: usize| -> Map<String, Value> {
        (0..count).map(|index| (format!("x-{index}"), "v".into())).collect()
    };
    assert_eq!(settings(json!({"headers": headers(64)})).unwrap().headers.len(), 64);
    assert_eq!(settings(json!({"headers": headers(65)})), Err("headers: must be at most 64".to_owned()));
}

#[test]
fn a_fault_elsewhere_leaves_format_and_filter_readable() {
    let config = read(r#"{"webhook": "nonsense", "format": "extended", "filter": {"ops": ["c"]}}"#);
    assert!(config.is_active() && !config.is_usable());
    assert_eq!(config.format, BodyFormat::Extended);
    assert_eq!(config.filter.ops, [Op::Create]);
}

#[test]
fn no_fault_and_no_debug_repeats_a_value() {
    const PLANTED: &str = "hunter2";
    for members in [
        json!({"webhook": "hunter2"}),
        json!({"webhook": "https://user:hunter2@a.test/"}),
        json!({"authorization": "hunter2\n"}),
        json!({"secret": "hunter2"}),
        json!({"secrets": ["hunter2"]}),
        json!({"headers": "hunter2"}),
        json!({"headers": {"x-a": "hunter2\n"}}),
        json!({"headers": {"hunter2 ": "x"}}),
        json!({"timeout_ms": "hunter2"}),
        json!({"ordering": "hunter2"}),
        json!({"filter": {"include": ["hunter2"]}}),
        json!({"filter": {"ops": ["hunter2"]}}),
    ] {
        let fault = settings(members.clone()).unwrap_err();
        assert!(!fault.contains(PLANTED), "{members}: {fault}");
    }
    let usable =
        settings(json!({"authorization": "hunter2", "headers": {"x-a": "hunter2"}, "secret": SECRET}));
    assert!(!format!("{:?}", usable.unwrap()).contains(PLANTED));
}
