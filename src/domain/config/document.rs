//! A whole config document of `context.configs`, in any dialect of extended JSON.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::members::{is_present, whole_number, wrapped};
use super::{ClientConfig, ClientId, ConfigFault, Status, read_value};

/// The members that matter; others are passed over unread. Absent members are null.
#[derive(Deserialize)]
#[serde(default)]
struct Document<'a> {
    key: Value,
    eid: Value,
    status: Value,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    version: Value,
    updated_at: Value,
    deleted_at: Value,
    owner: Value,
}

impl Default for Document<'_> {
    fn default() -> Self {
        Self {
            key: Value::Null,
            eid: Value::Null,
            status: Value::Null,
            value: None,
            version: Value::Null,
            updated_at: Value::Null,
            deleted_at: Value::Null,
            owner: Value::Null,
        }
    }
}

/// Reads a config document: the config, and the JSON text of its `value` as it stands there, secrets in it.
/// `None`: its `key` is not `CQRS`. Any status but `ACTIVE` counts as inactive.
///
/// # Errors
/// It is no JSON object, or names no client. A fault within `value` is no error here: see [`read_value`].
pub fn read_document(json: &str) -> Result<Option<(ClientConfig, String)>, ConfigFault> {
    // The text of serde_json's errors may repeat a value: only the place is told.
    let document: Document<'_> = serde_json::from_str(json).map_err(|err| ConfigFault {
        key: "document".to_owned(),
        problem: format!(
            "is not a JSON object of the expected form (line {}, column {})",
            err.line(),
            err.column()
        ),
    })?;
    if document.key != "CQRS" {
        return Ok(None);
    }
    let client = id(&document.eid).ok_or_else(|| ConfigFault {
        key: "eid".to_owned(),
        problem: "must be the id of a client".to_owned(),
    })?;
    let value = document.value.map_or("null", RawValue::get);
    let config = read_value(
        &ClientId::new(client),
        if document.status == "ACTIVE" { Status::Active } else { Status::Inactive },
        is_present(&document.deleted_at),
        whole_number(&document.version).unwrap_or(0),
        millis(&document.updated_at).unwrap_or(0),
        id(&document.owner).map(str::to_owned),
        value,
    );
    Ok(Some((config, value.to_owned())))
}

/// An id: text, or an ObjectId's hex.
fn id(value: &Value) -> Option<&str> {
    wrapped(value, "$oid").unwrap_or(value).as_str().filter(|text| !text.is_empty())
}

/// A date as milliseconds since 1970: a number or ISO-8601 text, wrapped in `$date` or bare.
fn millis(value: &Value) -> Option<i64> {
    let date = wrapped(value, "$date").unwrap_or(value);
    whole_number(date).or_else(|| {
        let date = chrono::DateTime::parse_from_rfc3339(date.as_str()?).ok()?;
        Some(date.timestamp_millis())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(members: Value) -> Value {
        let mut document = json!({
            "_id": {"$oid": "66aa0000cccc0000dddd0001"},
            "owner": "64e0c0de00000000000000a1",
            "clients": ["64c0a1e0f1a2b3c4d5e60001"],
            "updated_at": {"$date": 1_767_225_600_000_i64},
            "deleted_at": null,
            "version": 1,
            "key": "CQRS",
            "eid": "64c0a1e0f1a2b3c4d5e60001",
            "status": "ACTIVE",
            "value": {"webhook": "https://hooks.client-a.test/cqrs"},
        });
        document.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        document
    }

    fn config(members: Value) -> ClientConfig {
        read_document(&document(members).to_string()).unwrap().unwrap().0
    }

    #[test]
    fn reads_a_document_as_debezium_writes_it() {
        let (config, value) = read_document(&document(json!({})).to_string()).unwrap().unwrap();
        assert_eq!(config.client.as_str(), "64c0a1e0f1a2b3c4d5e60001");
        assert_eq!(config.owner.as_deref(), Some("64e0c0de00000000000000a1"));
        assert_eq!((config.version, config.updated_at_ms), (1, 1_767_225_600_000));
        assert!(config.is_usable());
        assert_eq!(value, r#"{"webhook":"https://hooks.client-a.test/cqrs"}"#);
    }

    #[test]
    fn keeps_the_text_of_the_value() {
        let (_, value) =
            read_document(r#"{"key":"CQRS","eid":"a","value":{ "b": 1.50,  "a": 1e2 }}"#).unwrap().unwrap();
        assert_eq!(value, r#"{ "b": 1.50,  "a": 1e2 }"#);
    }

    #[test]
    fn ids_numbers_and_dates_come_in_every_dialect() {
        for (members, updated_at_ms, version) in [
            (json!({"updated_at": {"$date": "2026-01-01T00:00:00Z"}}), 1_767_225_600_000, 1),
            (json!({"updated_at": {"$date": "2026-01-01T01:00:00.500+01:00"}}), 1_767_225_600_500, 1),
            (json!({"updated_at": {"$date": {"$numberLong": "1767225600000"}}}), 1_767_225_600_000, 1),
            (json!({"updated_at": 1_767_225_600_000_i64}), 1_767_225_600_000, 1),
            (json!({"updated_at": "2026-01-01T00:00:00.000Z"}), 1_767_225_600_000, 1),
            (json!({"updated_at": null, "version": {"$numberLong": "3"}}), 0, 3),
            (json!({"updated_at": "yesterday", "version": {"$numberInt": "3"}}), 0, 3),
            (json!({"updated_at": [], "version": "three"}), 0, 0),
        ] {
            let read = config(members.clone());
            assert_eq!((read.updated_at_ms, read.version), (updated_at_ms, version), "{members}");
        }
        let read = config(json!({"eid": {"$oid": "aa"}, "owner": {"$oid": "bb"}}));
        assert_eq!((read.client.as_str(), read.owner.as_deref()), ("aa", Some("bb")));
        assert_eq!(config(json!({"owner": null})).owner, None);
    }

    #[test]
    fn only_active_and_not_deleted_is_active() {
        for (members, active) in [
            (json!({}), true),
            (json!({"status": "INACTIVE"}), false),
            (json!({"status": "active"}), false),
            (json!({"status": null}), false),
            (json!({"deleted_at": {"$date": 1_767_312_000_000_i64}}), false),
            (json!({"deleted_at": {"$undefined": true}}), true),
        ] {
            assert_eq!(config(members.clone()).is_active(), active, "{members}");
        }
    }

    #[test]
    fn a_faulty_value_is_a_config_that_holds() {
        for (value, key) in [(json!(null), "value"), (json!("x"), "value"), (json!({}), "webhook")] {
            let read = config(json!({"value": value}));
            assert!(read.is_active() && !read.is_usable());
            assert_eq!(read.delivery.unwrap_err().key, key);
        }
        let (read, value) = read_document(r#"{"key":"CQRS","eid":"a","status":"ACTIVE"}"#).unwrap().unwrap();
        assert_eq!((read.delivery.unwrap_err().key.as_str(), value.as_str()), ("value", "null"));
    }

    #[test]
    fn other_documents_are_none() {
        for key in [json!("THEME"), json!("cqrs"), json!(null), json!(["CQRS"])] {
            assert_eq!(read_document(&document(json!({"key": key})).to_string()), Ok(None));
        }
        assert_eq!(read_document("{}"), Ok(None));
    }

    #[test]
    fn what_names_no_client_is_an_error() {
        for eid in [json!(null), json!(""), json!(5), json!({"$oid": 5}), json!({"$oid": "a", "b": 1})] {
            let fault = read_document(&document(json!({"eid": eid})).to_string()).unwrap_err();
            assert_eq!(fault.key, "eid", "{eid}");
        }
        for json in ["", "hunter2", "\"hunter2\"", "{\"key\": \"CQRS\", \"value\": NaN}"] {
            let fault = read_document(json).unwrap_err();
            assert_eq!(fault.key, "document", "{json}");
            assert!(!fault.to_string().contains("hunter2"), "{fault}");
        }
    }
}
