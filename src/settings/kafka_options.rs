//! Settings of librdkafka that are passed on: `[kafka.options]` and `DISPATCHER_KAFKA__<NAME>`.
//!
//! The one table whose keys are not in `config/default.toml`: librdkafka has some two hundred of them. What the guarantees
//! rest on is ours, and refused here by name.

use std::collections::BTreeMap;

use config::{Map, Value, ValueKind};

use super::SettingsError;
use super::environment::{Environment, get, read_secret};
use crate::domain::config::Secret;

/// The key of the table.
const KEY: &str = "kafka.options";

/// What the environment variables begin with; the rest is the name with `_` for `.`.
pub(super) const VARIABLE_PREFIX: &str = "DISPATCHER_KAFKA__";

/// Names and values. The values may be passwords and keys: none is ever shown.
type Options = BTreeMap<String, Secret>;

/// Takes the table out of a layer. Names with dots may be written with and without quotation marks.
pub(super) fn take_from(layer: &mut Map<String, Value>, options: &mut Options) -> Result<(), SettingsError> {
    let Some(Value { kind: ValueKind::Table(kafka), .. }) = layer.get_mut("kafka") else {
        return Ok(());
    };
    match kafka.remove("options") {
        None => Ok(()),
        Some(Value { kind: ValueKind::Table(table), .. }) => flatten("", table, options),
        Some(_) => Err(SettingsError::new(KEY, "expected a section")),
    }
}

fn flatten(path: &str, table: Map<String, Value>, options: &mut Options) -> Result<(), SettingsError> {
    for (name, value) in table {
        let name = if path.is_empty() { name } else { format!("{path}.{name}") };
        match value.kind {
            ValueKind::Table(table) => flatten(&name, table, options)?,
            ValueKind::Array(_) | ValueKind::Nil => {
                let problem = "expected a string, a number, or true or false";
                return Err(SettingsError::new(format!("{KEY}.{name}"), problem));
            }
            scalar => set(options, name, scalar.to_string())?,
        }
    }
    Ok(())
}

/// Lays the environment over it.
pub(super) fn overlay(environment: &Environment, options: &mut Options) -> Result<(), SettingsError> {
    let is_set = |name: &&str| name.starts_with(VARIABLE_PREFIX) && get(environment, name).is_some();
    let mut variables: Vec<&str> = environment.keys().map(String::as_str).filter(is_set).collect();
    variables.sort_unstable();
    for variable in variables {
        let Some(value) = get(environment, variable) else { continue };
        let (name, value) = match variable.strip_suffix("_FILE") {
            None => (variable, Ok(value.to_owned())),
            Some(twin) if get(environment, twin).is_some() => {
                let problem = format!("both {twin} and {variable} are set: keep one");
                return Err(SettingsError::new(key_of(twin), problem));
            }
            Some(twin) => (twin, read_secret(value.as_ref())),
        };
        let set_here = |err: SettingsError| err.set_in(variable);
        let value = value.map_err(|problem| set_here(SettingsError::new(key_of(name), problem)))?;
        set(options, option_of(name), value).map_err(set_here)?;
    }
    Ok(())
}

fn set(options: &mut Options, name: String, value: String) -> Result<(), SettingsError> {
    let fault = |problem: &str| Err(SettingsError::new(format!("{KEY}.{name}"), problem));
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return fault("is no name of a librdkafka setting");
    }
    // A build without cluster mode passes nothing on.
    #[cfg(feature = "cluster")]
    if crate::backends::kafka::owned_option(&name) {
        return fault("the service sets this one itself");
    }
    if value.contains('\0') {
        return fault("must not hold a NUL character");
    }
    options.insert(name, Secret::new(value));
    Ok(())
}

/// The librdkafka name in the name of a variable.
fn option_of(variable: &str) -> String {
    variable.strip_prefix(VARIABLE_PREFIX).unwrap_or(variable).to_ascii_lowercase().replace('_', ".")
}

fn key_of(variable: &str) -> String {
    format!("{KEY}.{}", option_of(variable))
}
