use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::domain::change_event::{SourceEvent, read};
use crate::domain::extended_json::{parse, parse_image};
use crate::domain::fixtures::{self, names};
use crate::domain::intake::NewRecord;

const PLAIN: BodyShape = BodyShape { format: BodyFormat::Plain, before: true, revocation: false };
const EXTENDED: BodyShape = BodyShape { format: BodyFormat::Extended, ..PLAIN };

fn body(event: &ChangeEvent, shape: BodyShape) -> String {
    String::from_utf8(Bodies::new(event).body(shape).to_vec()).unwrap()
}

/// A create of this image, with the id `a`.
fn create(image: &str) -> ChangeEvent {
    let image = serde_json::to_string(image).unwrap();
    let record = NewRecord {
        topic: "mongo.d.c".into(),
        key: Some(Bytes::from_static(br#"{"id":"\"a\""}"#)),
        value: Some(format!(r#"{{"op":"c","ts_ms":1,"after":{image}}}"#).into()),
        headers: Vec::new(),
    };
    match read(&fixtures::source_record(record), &names()) {
        SourceEvent::Change(event) => *event,
        other => panic!("{other:?}"),
    }
}

const HEAD: &str = r#"{"id":"a","ts_ms":1,"op":"c","topic":"d.c","source":{"name":"mongo","db":"d","collection":"c"},"after":"#;

#[test]
fn every_type_has_its_plain_form_byte_for_byte() {
    let mut compared = 0;
    for fixture in fixtures::all().iter().filter(|fixture| fixture.name.starts_with('d')) {
        let path = fixtures::folder().join("bodies").join(&fixture.name).with_extension("json");
        let expected = std::fs::read_to_string(path).unwrap();
        assert_eq!(body(&fixtures::change(&fixture.name), PLAIN), expected, "{}", fixture.name);
        compared += 1;
    }
    assert_eq!(compared, 45);
}

#[test]
fn the_members_are_those_of_the_operation() {
    let members = |name: &str, shape| -> Vec<String> {
        let body: serde_json::Value = serde_json::from_str(&body(&fixtures::change(name), shape)).unwrap();
        body.as_object().unwrap().keys().skip(5).cloned().collect()
    };
    assert_eq!(members("a01_create", PLAIN), ["after"]);
    assert_eq!(members("b01_snapshot_true", PLAIN), ["after"]);
    assert_eq!(members("a02_update_with_preimage", PLAIN), ["after", "before"]);
    assert_eq!(members("a02_update_with_preimage", BodyShape { before: false, ..PLAIN }), ["after"]);
    assert_eq!(members("a05_replace_without_preimage", PLAIN), ["after"]);
    assert_eq!(members("a06_delete_with_before", PLAIN), ["before"]);
    assert_eq!(members("c06_schema_delete_without_before", PLAIN), [""; 0]);
}

#[test]
fn a_revocation_is_a_delete_without_after() {
    let event = fixtures::change("f20_client_removed");
    let revocation = body(&event, BodyShape { revocation: true, ..PLAIN });
    let revocation: serde_json::Value = serde_json::from_str(&revocation).unwrap();
    let update: serde_json::Value = serde_json::from_str(&body(&event, PLAIN)).unwrap();
    assert_eq!((&revocation["op"], &update["op"]), (&"d".into(), &"u".into()));
    assert!(revocation.get("after").is_none());
    assert_eq!(revocation["before"], update["before"]);
    assert_eq!(revocation["id"], update["id"]);
}

#[test]
fn a_body_is_made_once() {
    let event = fixtures::change("a02_update_with_preimage");
    let mut bodies = Bodies::new(&event);
    let first = bodies.body(PLAIN);
    let other = bodies.body(BodyShape { before: false, ..PLAIN });
    assert_ne!(first, other);
    assert_eq!(first.as_ptr(), bodies.body(PLAIN).as_ptr());
}

#[test]
fn the_top_level_id_takes_the_place_of_the_documents_own() {
    for (image, document) in [
        (r#"{"x":1,"_id":{"$oid":"64c0a1e0f1a2b3c4d5e60004"},"id":7}"#, r#"{"x":1,"id":"a"}"#),
        (
            r#"{"id":7,"_id":1,"in":{"_id":{"$oid":"64c0a1e0f1a2b3c4d5e60004"},"id":8}}"#,
            r#"{"id":"a","in":{"_id":"64c0a1e0f1a2b3c4d5e60004","id":8}}"#,
        ),
        (r#"{"id":7}"#, r#"{"id":7}"#),
        (r#"{"_id":1,"_id":2}"#, r#"{"id":"a"}"#),
        (r#"{"$oid":"64c0a1e0f1a2b3c4d5e60004"}"#, r#"{"$oid":"64c0a1e0f1a2b3c4d5e60004"}"#),
        ("{}", "{}"),
    ] {
        assert_eq!(body(&create(image), PLAIN), format!("{HEAD}{document}}}"));
    }
}

#[test]
fn plain_values_in_all_dialects() {
    for (value, plain) in [
        (r#"{"$date":"2026-01-02T03:04:05Z"}"#, r#""2026-01-02T03:04:05.000Z""#),
        (r#"{"$date":253402300799999}"#, r#""9999-12-31T23:59:59.999Z""#),
        (r#"{"$date":-62135596800001}"#, r#"{"$date":{"$numberLong":"-62135596800001"}}"#),
        (r#"{"$numberDouble":"-Infinity"}"#, r#"{"$numberDouble":"-Infinity"}"#),
        (r#"[{"$numberInt":"1"},[{"$numberLong":"2"}]]"#, "[1,[2]]"),
        (r#"{"$binary":{"base64":"AAEC","subType":"04"}}"#, r#""AAEC""#),
        (r#"{"$uuid":"427F04E9-2D4D-4DB2-90DD-3176150A0B0C"}"#, r#""427f04e9-2d4d-4db2-90dd-3176150a0b0c""#),
        (
            r#"{"$regularExpression":{"pattern":"a","options":""}}"#,
            r#"{"$regularExpression":{"pattern":"a","options":""}}"#,
        ),
        (
            r#"{"$dbPointer":{"$ref":"c","$id":{"$oid":"64c0a1e0f1a2b3c4d5e60004"}}}"#,
            r#"{"$dbPointer":{"$ref":"c","$id":{"$oid":"64c0a1e0f1a2b3c4d5e60004"}}}"#,
        ),
        // What stands in a reference or a scope is relaxed extended JSON, too.
        (
            r#"{"$code":"f","$scope":{"d":{"$date":0},"e":{"$date":-1},"b":{"$binary":"AAEC","$type":"0"},"n":{"$numberLong":"5"},"r":{"$regex":"a","$options":"i"},"m":{"$numberDecimal":"1"}}}"#,
            r#"{"$code":"f","$scope":{"d":{"$date":"1970-01-01T00:00:00Z"},"e":{"$date":{"$numberLong":"-1"}},"b":{"$binary":{"base64":"AAEC","subType":"00"}},"n":5,"r":{"$regularExpression":{"pattern":"a","options":"i"}},"m":{"$numberDecimal":"1"}}}"#,
        ),
        // No reference: a document of its own.
        (
            r#"{"$ref":"c","$id":{"$oid":"64c0a1e0f1a2b3c4d5e60004"},"x":1}"#,
            r#"{"$ref":"c","$id":"64c0a1e0f1a2b3c4d5e60004","x":1}"#,
        ),
    ] {
        let mut out = String::new();
        write_plain(&parse(value).unwrap(), &mut out);
        assert_eq!(out, plain, "{value}");
    }
}

#[test]
fn the_extended_form_passes_through_but_for_bare_tokens() {
    let image = r#"{"_id": {"$oid": "64c0a1e0f1a2b3c4d5e60004"},"id": 1,"d": {"$date": 5},"n": NaN,"l": {"$numberLong": "5"},"s": "\u00e9\u0007/"}"#;
    let document = "{\"_id\":{\"$oid\":\"64c0a1e0f1a2b3c4d5e60004\"},\"id\":1,\"d\":{\"$date\":5},\"n\":{\"$numberDouble\":\"NaN\"},\"l\":{\"$numberLong\":\"5\"},\"s\":\"é\\u0007/\"}";
    assert_eq!(body(&create(image), EXTENDED), format!("{HEAD}{document}}}"));
}

#[test]
fn text_in_the_head_is_escaped() {
    let mut event = create("{}");
    event.id = "a\"\u{0}".to_string();
    event.collection = "c\\".to_string();
    let expected = r#"{"id":"a\"\u0000","ts_ms":1,"op":"c","topic":"d.c\\","source":{"name":"mongo","db":"d","collection":"c\\"},"after":{}}"#;
    assert_eq!(body(&event, PLAIN), expected);
}

/// Extended JSON of any shape, with the digits of the numbers in it, in order.
fn extended() -> impl Strategy<Value = (String, Vec<String>)> {
    let quoted = |text: String| serde_json::to_string(&text).unwrap();
    let number = "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
    let leaf = prop_oneof![
        number.prop_map(|digits| (digits.clone(), vec![digits])),
        number.prop_map(|digits| (format!(r#"{{"$numberDouble": "{digits}"}}"#), vec![digits])),
        any::<i64>().prop_map(|long| (format!(r#"{{"$numberLong": "{long}"}}"#), vec![long.to_string()])),
        any::<i64>().prop_map(|ms| (format!(r#"{{"$date": {ms}}}"#), vec![])),
        number.prop_map(|digits| (format!(r#"{{"$numberDecimal": "{digits}"}}"#), vec![])),
        any::<[u8; 12]>()
            .prop_map(|id| { (format!(r#"{{"$oid": "{}"}}"#, data_encoding::HEXLOWER.encode(&id)), vec![]) }),
        Just(("NaN".to_string(), vec![])),
        Just(("-Infinity".to_string(), vec![])),
        any::<String>().prop_map(move |text| (quoted(text), vec![])),
    ];
    let joined = |parts: Vec<(String, Vec<String>)>, around: [char; 2]| {
        let (texts, digits): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        (format!("{}{}{}", around[0], texts.join(","), around[1]), digits.concat())
    };
    let value = leaf.prop_recursive(4, 40, 5, move |inner| {
        let member = ("[$a-z_]{0,5}", inner.clone())
            .prop_map(|(name, (text, digits))| (format!("\"{name}\": {text}"), digits));
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(move |parts| joined(parts, ['[', ']'])),
            prop::collection::vec(member, 0..5).prop_map(move |parts| joined(parts, ['{', '}'])),
        ]
    });
    value.prop_map(|(text, digits)| (format!(r#"{{"x": {text}}}"#), digits))
}

/// The numbers of a JSON text, as written.
fn numbers(value: &Value<'_>, found: &mut Vec<String>) {
    match value {
        Value::Number(digits) => found.push((*digits).to_string()),
        Value::Array(elements) => elements.iter().for_each(|element| numbers(element, found)),
        Value::Object(members) => members.iter().for_each(|(_, value)| numbers(value, found)),
        _ => {}
    }
}

proptest! {
    #[test]
    fn the_plain_form_is_json_and_keeps_every_digit((text, digits) in extended()) {
        let mut plain = String::new();
        write_plain(&parse_image(&text).unwrap(), &mut plain);
        prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&plain).is_ok(), "{}", plain);
        let mut found = Vec::new();
        numbers(&parse(&plain).unwrap(), &mut found);
        prop_assert_eq!(found, digits);
    }

    #[test]
    fn the_extended_form_is_json((text, _) in extended()) {
        let body = body(&create(&text), EXTENDED);
        prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&body).is_ok(), "{}", body);
    }
}
