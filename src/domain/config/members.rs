//! Typed access to the members of a JSON object in extended or plain JSON. No fault repeats a value: it may
//! be a secret.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::ConfigFault;

/// The members of an object, and where the object stands.
#[derive(Clone, Copy)]
pub(super) struct Members<'a> {
    map: &'a Map<String, Value>,
    parent: Option<&'a str>,
}

impl<'a> Members<'a> {
    /// The members of the outermost object.
    pub(super) fn of(map: &'a Map<String, Value>) -> Self {
        Self { map, parent: None }
    }

    /// A member that is there and not null.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| is_present(value))
    }

    /// All members, in order, nulls too.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&'a String, &'a Value)> {
        self.map.iter()
    }

    /// A fault of a member.
    pub(super) fn fault(&self, key: &str, problem: impl Into<String>) -> ConfigFault {
        let key = self.parent.map_or_else(|| key.to_owned(), |parent| format!("{parent}.{key}"));
        ConfigFault { key, problem: problem.into() }
    }

    /// A text of at most `max` bytes.
    pub(super) fn text(&self, key: &str, max: usize) -> Result<Option<&'a str>, ConfigFault> {
        self.get(key)
            .map(|value| bounded_text(value, max).map_err(|problem| self.fault(key, problem)))
            .transpose()
    }

    /// A whole number within bounds.
    pub(super) fn whole(&self, key: &str, bounds: RangeInclusive<u32>) -> Result<Option<u32>, ConfigFault> {
        let Some(value) = self.get(key) else { return Ok(None) };
        whole_number(value)
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| bounds.contains(number))
            .map(Some)
            .ok_or_else(|| {
                self.fault(key, format!("must be a whole number from {} to {}", bounds.start(), bounds.end()))
            })
    }

    /// `true` or `false`; absent is `false`.
    pub(super) fn flag(&self, key: &str) -> Result<bool, ConfigFault> {
        match self.get(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| self.fault(key, "must be true or false")),
        }
    }

    /// One of some words.
    pub(super) fn word<T: Copy + Default>(&self, key: &str, words: &[(&str, T)]) -> Result<T, ConfigFault> {
        let Some(value) = self.get(key) else { return Ok(T::default()) };
        words.iter().find(|(word, _)| value.as_str() == Some(word)).map(|(_, meaning)| *meaning).ok_or_else(
            || {
                let known: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                self.fault(key, format!("must be {}", known.join(" or ")))
            },
        )
    }

    /// A list of at most `max` elements, each read by `read`; absent is empty.
    pub(super) fn list<T>(
        &self,
        key: &str,
        max: usize,
        read: impl Fn(&'a Value) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, ConfigFault> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let elements = value.as_array().ok_or_else(|| self.fault(key, "must be a list"))?;
        if elements.len() > max {
            return Err(self.fault(key, format!("must have at most {max} elements")));
        }
        elements
            .iter()
            .enumerate()
            .map(|(index, element)| {
                read(element).map_err(|problem| self.fault(&format!("{key}[{index}]"), problem))
            })
            .collect()
    }

    /// An object of the outermost object.
    pub(super) fn object(&self, key: &'a str) -> Result<Option<Self>, ConfigFault> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| self.fault(key, "must be an object"))?;
        Ok(Some(Self { map, parent: Some(key) }))
    }
}

/// Whether a member counts as there: null and BSON's undefined do not.
pub(super) fn is_present(value: &Value) -> bool {
    !value.is_null() && wrapped(value, "$undefined").is_none()
}

/// The content of an extended-JSON wrapper.
pub(super) fn wrapped<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.as_object().filter(|map| map.len() == 1)?.get(name)
}

/// A whole number: plain, in any of the canonical wrappers, or a double without fraction.
pub(super) fn whole_number(value: &Value) -> Option<i64> {
    let number = ["$numberLong", "$numberInt", "$numberDouble"].iter().find_map(|name| wrapped(value, name));
    match number.unwrap_or(value) {
        Value::Number(number) => number.as_i64().or_else(|| without_fraction(number.as_f64()?)),
        Value::String(text) if number.is_some() => {
            text.parse().ok().or_else(|| without_fraction(text.parse().ok()?))
        }
        _ => None,
    }
}

fn without_fraction(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

fn bounded_text(value: &Value, max: usize) -> Result<&str, String> {
    let text = value.as_str().ok_or("must be text")?;
    if text.len() > max { Err(format!("must be at most {max} bytes long")) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_whole_numbers_in_every_dialect() {
        for (value, number) in [
            (json!(3), Some(3)),
            (json!(3.0), Some(3)),
            (json!(-1), Some(-1)),
            (json!({"$numberLong": "9007199254740993"}), Some(9_007_199_254_740_993)),
            (json!({"$numberLong": 7}), Some(7)),
            (json!({"$numberInt": "7"}), Some(7)),
            (json!({"$numberDouble": "7.0"}), Some(7)),
            (json!({"$numberDouble": "7.5"}), None),
            (json!({"$numberDouble": "NaN"}), None),
            (json!({"$numberDouble": "Infinity"}), None),
            (json!({"$numberDouble": "1e300"}), None),
            (json!({"$numberLong": "7", "x": 1}), None),
            (json!(3.5), None),
            (json!("3"), None),
            (json!(true), None),
        ] {
            assert_eq!(whole_number(&value), number, "{value}");
        }
    }
}
