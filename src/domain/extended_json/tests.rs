use proptest::prelude::*;

use super::*;

fn written(text: &str) -> String {
    let mut out = String::new();
    write(&parse(text).unwrap(), &mut out);
    out
}

#[test]
fn reads_and_writes_compactly_in_order_with_all_digits() {
    for (text, compact) in [
        (
            " { \"b\" : 1.50 , \"a\" : [ true , null ] , \"b\" : -0.0 } ",
            r#"{"b":1.50,"a":[true,null],"b":-0.0}"#,
        ),
        ("9007199254740993", "9007199254740993"),
        ("1.0E+400", "1.0E+400"),
        ("[[],{}]\r\n", "[[],{}]"),
        (r#""\u0041\/\b\f\n\r\t\"\\\u0000\ud83d\ude00é""#, "\"A/\\b\\f\\n\\r\\t\\\"\\\\\\u0000😀é\""),
        ("\"\u{2028}\u{7f}\"", "\"\u{2028}\u{7f}\""),
    ] {
        assert_eq!(written(text), compact);
    }
}

#[test]
fn of_a_name_that_comes_twice_the_last_counts() {
    let value = parse(r#"{"a":1,"b":2,"a":3}"#).unwrap();
    assert_eq!(value.get("a"), Some(&Value::Number("3")));
    assert_eq!(value.get("c"), None);
    assert_eq!(Value::Null.get("a"), None);
}

#[test]
fn text_without_escapes_is_borrowed() {
    let value = parse(r#"{"name":"text"}"#).unwrap();
    assert!(matches!(value.get("name"), Some(Value::String(Cow::Borrowed("text")))));
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    for (text, at) in [
        ("", 0),
        ("  ", 2),
        ("{", 1),
        ("[1,]", 3),
        ("[1 2]", 3),
        ("{\"a\":1,}", 7),
        ("{\"a\" 1}", 5),
        ("{a:1}", 1),
        ("1 2", 2),
        ("{} x", 3),
        ("\"a", 2),
        ("\"a\nb\"", 2),
        ("\"\\x\"", 1),
        ("\"\\u12\"", 1),
        ("\"\\u12g4\"", 1),
        ("\"\\u+123\"", 1),
        ("\"\\ud83d\"", 1),
        ("\"\\ud83dx\\ude00\"", 1),
        ("\"\\ude00\"", 1),
        ("01", 1),
        ("1.", 0),
        ("-", 0),
        ("1e", 0),
        ("1.5.5", 3),
        ("+1", 0),
        (".5", 0),
        ("NaN", 0),
        ("Infinity", 0),
        ("-Infinity", 0),
        ("nul", 0),
        ("True", 0),
        ("'a'", 0),
        ("\u{feff}1", 0),
    ] {
        assert_eq!(parse(text).map_err(|err| err.at), Err(at), "{text:?}");
    }
}

#[test]
fn images_may_hold_bare_tokens() {
    let image = parse_image(r#"{"a":NaN,"b":[Infinity,-Infinity,-1]}"#).unwrap();
    let mut out = String::new();
    write(&image, &mut out);
    assert_eq!(
        out,
        r#"{"a":{"$numberDouble":"NaN"},"b":[{"$numberDouble":"Infinity"},{"$numberDouble":"-Infinity"},-1]}"#
    );
    assert!(parse_image("NaNa").is_err());
    assert!(parse_image("-NaN").is_err());
}

#[test]
fn values_follow_each_other() {
    let values: Vec<_> = Values::new("{}\n[1]\n\n 2 ").collect::<Result<_, _>>().unwrap();
    assert_eq!(values, [Value::Object(vec![]), Value::Array(vec![Value::Number("1")]), Value::Number("2")]);
    let mut broken = Values::new("1 } 2");
    assert!(broken.next().unwrap().is_ok());
    assert!(broken.next().unwrap().is_err());
    assert!(broken.next().is_none());
}

#[test]
fn depth_is_bounded_and_no_stack_overflows() {
    let nested = |open: &str, close: &str, depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let small_stack = std::thread::Builder::new().stack_size(1024 * 1024).spawn(move || {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let deepest = nested(open, close, MAX_DEPTH);
            assert_eq!(written(&deepest), deepest);
            assert_eq!(parse(&nested(open, close, MAX_DEPTH + 1)).unwrap_err().problem, "nested too deep");
            assert!(parse(&open.repeat(1_000_000)).is_err());
        }
    });
    small_stack.unwrap().join().unwrap();
}

#[test]
fn bson_types_are_told_by_exact_keys_and_shapes() {
    for (text, bson) in [
        (r#"{"$oid":"64C0a1e0f1a2b3c4d5e60004"}"#, Some(Bson::ObjectId("64c0a1e0f1a2b3c4d5e60004".into()))),
        (r#"{"$oid":"64c0a1e0f1a2b3c4d5e6000"}"#, None),
        (r#"{"$oid":"64c0a1e0f1a2b3c4d5e60004","x":1}"#, None),
        (r#"{"$numberInt":"7"}"#, Some(Bson::Number("7"))),
        (r#"{"$numberInt":"2147483648"}"#, None),
        (r#"{"$numberLong":"-9223372036854775808"}"#, Some(Bson::Number("-9223372036854775808"))),
        (r#"{"$numberLong":"9223372036854775808"}"#, None),
        (r#"{"$numberLong":"007"}"#, None),
        (r#"{"$numberLong":"+7"}"#, None),
        (r#"{"$numberLong":7}"#, None),
        (r#"{"$numberDouble":"1.0E+20"}"#, Some(Bson::Number("1.0E+20"))),
        (r#"{"$numberDouble":"-Infinity"}"#, Some(Bson::NonFinite("-Infinity"))),
        (r#"{"$numberDouble":"nan"}"#, None),
        (r#"{"$numberDecimal":"0E-10"}"#, Some(Bson::Decimal("0E-10"))),
        (r#"{"$numberDecimal":"ten"}"#, None),
        (r#"{"$date":-1}"#, Some(Bson::Date(-1))),
        (r#"{"$date":1.5}"#, None),
        (r#"{"$date":{"$numberLong":"12"}}"#, Some(Bson::Date(12))),
        (r#"{"$date":"1970-01-01T00:00:01Z"}"#, Some(Bson::Date(1000))),
        (r#"{"$date":"1970-01-01T01:00:01.5+01:00"}"#, Some(Bson::Date(1500))),
        (r#"{"$date":"1970-01-01T00:00:01.0001Z"}"#, None),
        (r#"{"$date":"2016-12-31T23:59:60Z"}"#, None),
        (r#"{"$date":"1970-01-01"}"#, None),
        (r#"{"$binary":"AAEC","$type":"0"}"#, Some(Bson::Binary { base64: "AAEC", sub_type: "00".into() })),
        (r#"{"$type":"80","$binary":"AAEC"}"#, Some(Bson::Binary { base64: "AAEC", sub_type: "80".into() })),
        (
            r#"{"$binary":{"subType":"0A","base64":"AAEC"}}"#,
            Some(Bson::Binary { base64: "AAEC", sub_type: "0a".into() }),
        ),
        (r#"{"$binary":{"base64":"AAEC","subType":"00","x":1}}"#, None),
        (r#"{"$binary":"no base64","$type":"00"}"#, None),
        (r#"{"$binary":"AAEC","$type":"text"}"#, None),
        (
            r#"{"$uuid":"427F04E9-2d4d-4db2-90dd-3176150a0b0c"}"#,
            Some(Bson::Uuid("427f04e9-2d4d-4db2-90dd-3176150a0b0c".into())),
        ),
        (r#"{"$uuid":"427f04e92d4d4db290dd3176150a0b0c"}"#, None),
        (r#"{"$regex":"a","$options":""}"#, Some(Bson::Regex { pattern: "a", options: "" })),
        (
            r#"{"$regularExpression":{"pattern":"a","options":"i"}}"#,
            Some(Bson::Regex { pattern: "a", options: "i" }),
        ),
        (r#"{"$regex":"a"}"#, None),
        (r#"{"$ref":"c","$id":1,"$db":"d"}"#, Some(Bson::Container)),
        (r#"{"$ref":"c","$id":1,"x":"d"}"#, None),
        (r#"{"$dbPointer":{"$ref":"c","$id":1}}"#, Some(Bson::Container)),
        (r#"{"$code":"f","$scope":{}}"#, Some(Bson::Container)),
        (r#"{"$code":"f","$scope":1}"#, None),
        (r#"{"$timestamp":{"t":1,"i":2}}"#, None),
        (r#"{"a":1}"#, None),
        ("{}", None),
        ("[]", None),
    ] {
        assert_eq!(Bson::recognise(&parse(text).unwrap()), bson, "{text}");
    }
}

#[test]
fn a_uuid_needs_its_subtype_and_16_bytes() {
    let uuid = |text| Bson::recognise(&parse(text).unwrap()).unwrap().uuid();
    let expected = Some("427f04e9-2d4d-4db2-90dd-3176150a0b0c".to_string());
    assert_eq!(uuid(r#"{"$binary":"Qn8E6S1NTbKQ3TF2FQoLDA==","$type":"4"}"#), expected);
    assert_eq!(uuid(r#"{"$binary":"Qn8E6S1NTbKQ3TF2FQoLDA==","$type":"03"}"#), None);
    assert_eq!(uuid(r#"{"$binary":"AAEC","$type":"04"}"#), None);
}

/// Values of any shape, numbers of JSON's whole grammar among them.
pub(in crate::domain) fn values() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?"
            .prop_map(|digits| Value::Number(Box::leak(digits.into_boxed_str()))),
        any::<String>().prop_map(|text| Value::String(text.into())),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((any::<String>().prop_map(Cow::Owned), inner), 0..6)
                .prop_map(Value::Object),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(value in values()) {
        let mut text = String::new();
        write(&value, &mut text);
        prop_assert_eq!(&parse(&text).unwrap(), &value);
        prop_assert_eq!(parse_image(&text).unwrap(), value);
        prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok());
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>(), json_like in "[\\[\\]{}\",:0-9eE.+\\-\\\\u a-fNI\n]{0,60}") {
        for text in [text, json_like] {
            let strict = parse(&text).is_ok();
            prop_assert!(parse_image(&text).is_ok() || !strict);
            // Where both are asked, a general reader agrees on what JSON is.
            prop_assert_eq!(serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok(), strict, "{:?}", text);
            Values::new(&text).for_each(drop);
        }
    }
}
