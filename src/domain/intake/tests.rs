use proptest::prelude::*;

use super::*;
use crate::domain::fixtures;

const DEFAULTS: Defaults<'static> = Defaults { prefix: "mongo", topic: None };

fn request(body: &str) -> Result<Vec<NewRecord>, IntakeError> {
    read_request(body.as_bytes(), DEFAULTS)
}

fn bytes(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn takes_our_own_form() {
    let records = request(
        r#"[{"topic":"t","key":"k","value":"v","headers":{"b":"1","a":"2"},"note":"unknown"},
            {"topic":"t","value":null},
            {"topic":"t","key_base64":"AP8=","value":null,"value_base64":"/wA="}]"#,
    );
    let record = |key, value, headers| NewRecord { topic: "t".into(), key, value, headers };
    let headers = vec![("b".to_string(), Bytes::from("1")), ("a".to_string(), Bytes::from("2"))];
    assert_eq!(
        records,
        Ok(vec![
            record(bytes("k"), bytes("v"), headers),
            record(None, None, vec![]),
            record(Some(Bytes::from_static(b"\x00\xff")), Some(Bytes::from_static(b"\xff\x00")), vec![]),
        ])
    );
    assert_eq!(request(r#"{"topic":"t","value":"v"}"#).unwrap().len(), 1);
    assert_eq!(request("[]"), Ok(vec![]));
}

#[test]
fn takes_bare_values_by_where_they_came_from() {
    for (value, topic) in [
        (r#"{"op":"c","after":"{}","source":{"db":"d","collection":"mät.x"}}"#, "mongo.d.m_t.x"),
        (
            r#"{"schema":{},"payload":{"op":"c","after":"{}","source":{"db":"d","collection":"c"}}}"#,
            "mongo.d.c",
        ),
        (r#"{"specversion":"1.0","data":{},"iodebeziumdb":"d","iodebeziumcollection":"c"}"#, "mongo.d.c"),
        (r#"{"_id":1,"__source_db":"d","__source_collection":"c"}"#, "mongo.d.c"),
        (r#"{"_id":1,"topic":"news","value":{"x":1},"__db":"d","__collection":"c"}"#, "mongo.d.c"),
    ] {
        let records = request(&format!("[{value}]")).unwrap();
        assert_eq!(records[0].topic.as_ref(), topic);
        assert_eq!((&records[0].key, &records[0].value), (&None, &bytes(value)));
    }
    let flattened = br#"{"_id": 1.50}"#;
    let to_topic = Defaults { topic: Some("mongo.d.c"), ..DEFAULTS };
    let records = read_request(flattened, to_topic).unwrap();
    assert_eq!((records[0].topic.as_ref(), &records[0].value), ("mongo.d.c", &bytes(r#"{"_id":1.50}"#)));
    let with_source = br#"{"op":"c","after":"{}","source":{"db":"d","collection":"own"}}"#;
    assert_eq!(read_request(with_source, to_topic).unwrap()[0].topic.as_ref(), "mongo.d.own");
}

#[test]
fn a_broken_record_refuses_all_and_is_named() {
    for (record, problem) in [
        ("1", "neither a record nor a change event"),
        ("null", "neither"),
        (r#"{"_id":1}"#, "give a topic"),
        (r#"{"topic":"t","value":{"x":1}}"#, "give a topic"),
        (r#"{"topic":"","value":"v"}"#, "topic"),
        (r#"{"topic":"a b","value":"v"}"#, "topic"),
        (r#"{"topic":"..","value":"v"}"#, "topic"),
        (r#"{"topic":"t","key":1,"value":"v"}"#, "key is no string"),
        (r#"{"topic":"t","value":"v","value_base64":"AA=="}"#, "both"),
        (r#"{"topic":"t","value_base64":"?"}"#, "value_base64 is no base64"),
        (r#"{"topic":"t","value":"v","headers":[]}"#, "headers is no object"),
        (r#"{"topic":"t","value":"v","headers":{"a":1}}"#, "header is no string"),
    ] {
        let body = format!(r#"[{{"topic":"t","value":"v"}},{record}]"#);
        let err = request(&body).unwrap_err();
        assert_eq!(err.index, 1, "{record}");
        assert!(err.problem.contains(problem), "{record}: {err}");
    }
    assert_eq!(request("{").unwrap_err().index, 0);
    assert!(request("{} {}").is_err());
    assert!(read_request(b"\xff", DEFAULTS).is_err());
    let long = "x".repeat(250);
    assert!(request(&format!(r#"{{"topic":"{long}","value":"v"}}"#)).is_err());
}

#[test]
fn a_record_has_a_largest_size() {
    let record = |length| format!(r#"{{"topic":"t","key":"k","value":"{}"}}"#, "x".repeat(length));
    assert!(request(&record(MAX_RECORD_BYTES - 1)).is_ok());
    assert!(request(&record(MAX_RECORD_BYTES)).unwrap_err().problem.contains("larger"));
}

#[test]
fn a_file_may_be_lines_or_an_array_or_fixtures() {
    let line = r#"{"topic":"t","value":"v"}"#;
    for content in
        [format!("{line}\n\n{line}\n"), format!("[{line},\n{line}]"), format!("\u{feff}{line}{line}")]
    {
        assert_eq!(read_file(content.as_bytes(), DEFAULTS).unwrap().len(), 2, "{content}");
    }
    let err = read_file(format!("{line}\n{{").as_bytes(), DEFAULTS).unwrap_err();
    assert_eq!(err.index, 1);
    let all: String = fixtures::all().into_iter().map(|fixture| fixture.text).collect();
    assert_eq!(read_file(all.as_bytes(), DEFAULTS).unwrap().len(), 237);
    assert_eq!(read_file(b"", DEFAULTS), Ok(vec![]));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,80}") {
        for body in [body.as_slice(), text.as_bytes()] {
            let _ = read_request(body, DEFAULTS);
            let _ = read_file(body, Defaults { topic: Some("t"), ..DEFAULTS });
        }
    }
}
