//! Reads the layers: the defaults, a file, the environment.
//!
//! `config/default.toml` is the schema: a key that is not in it is unknown, and a value has the type of its default.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::builder::DefaultState;
use config::{Config, ConfigBuilder, ConfigError, File, FileFormat, Map, Source, Value, ValueKind};

use super::environment::{CLUSTER_VARIABLES, Environment, VARIABLES, get};
use super::kafka_options;
use super::{Mode, Settings, SettingsError, tokens};

/// The defaults, compiled in.
const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Where settings come from, besides the defaults.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file of `--config`; wins over `DISPATCHER_CONFIG`.
    pub file: Option<PathBuf>,
    /// The roles of `--roles`; win over all layers.
    pub roles: Option<Vec<String>>,
    /// The environment variables.
    pub environment: Environment,
}

impl Sources {
    /// The environment of this process, and the file of `--config`.
    pub fn of_process(file: Option<PathBuf>) -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self {
            file,
            roles: None,
            environment: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
        }
    }

    /// The file, and what named it.
    fn file(&self) -> Option<(PathBuf, &'static str)> {
        const VARIABLE: &str = "DISPATCHER_CONFIG";
        let variable = || get(&self.environment, VARIABLE).map(|path| (PathBuf::from(path), VARIABLE));
        self.file.clone().map(|path| (path, "--config")).or_else(variable)
    }
}

type Table = Map<String, Value>;

/// A table that was read already.
#[derive(Debug, Clone)]
struct Layer(Table);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Table, ConfigError> {
        Ok(self.0.clone())
    }
}

impl Settings {
    /// Reads all layers and checks them.
    ///
    /// # Errors
    /// The first mistake found.
    pub fn load(sources: &Sources) -> Result<Self, SettingsError> {
        let mut defaults = table(DEFAULTS).map_err(|problem| SettingsError::new("default.toml", problem))?;
        let (mut options, mut named_tokens) = (BTreeMap::new(), Vec::new());
        kafka_options::take_from(&mut defaults, &mut options)?;
        let mut origins = Map::new();
        let mut builder = Config::builder().add_source(Layer(defaults.clone()));
        if let Some((path, named_by)) = sources.file() {
            let text = read(&path, named_by)?;
            let shown = path.display().to_string();
            let mut given = table(&text).map_err(|problem| SettingsError::new(&shown, problem))?;
            kafka_options::take_from(&mut given, &mut options).map_err(|err| err.set_in(&shown))?;
            tokens::take_from(&mut given, &mut named_tokens).map_err(|err| err.set_in(&shown))?;
            origins.insert(tokens::KEY.to_owned(), shown.clone());
            compare(&given, &defaults, "", &mut |key| {
                origins.insert(key, shown.clone());
            })
            .map_err(|err| err.set_in(&shown))?;
            builder = builder.add_source(Layer(given));
        }
        kafka_options::overlay(&sources.environment, &mut options)?;
        let mut builder = environment(builder, &defaults, &sources.environment, &mut origins)?;
        if let Some(roles) = &sources.roles {
            builder = builder.set_override("roles", roles.clone()).map_err(mistake)?;
            origins.insert("roles".to_owned(), "--roles".to_owned());
        }
        let located = |err: SettingsError| match origins.get(err.key().split('[').next().unwrap_or_default())
        {
            Some(origin) => err.set_in(origin),
            None => err,
        };
        let mut config = builder.build().map_err(|err| located(mistake(err)))?;
        resolve(&mut config, &sources.environment).map_err(located)?;
        let mut settings: Self = config.try_deserialize().map_err(|err| located(mistake(err)))?;
        settings.kafka.options = options;
        settings.api.tokens = named_tokens;
        settings.check().map_err(located)?;
        Ok(settings)
    }
}

fn read(path: &Path, named_by: &str) -> Result<String, SettingsError> {
    std::fs::read_to_string(path)
        .map_err(|err| SettingsError::new(named_by, format!("cannot read {}: {err}", path.display())))
}

fn table(text: &str) -> Result<Table, String> {
    let config = Config::builder().add_source(File::from_str(text, FileFormat::Toml)).build();
    config.and_then(|config| config.collect()).map_err(|err| without_excerpt(&err.to_string()))
}

/// The TOML reader shows the faulty line, which may be the one with a secret: only place and message are kept.
fn without_excerpt(message: &str) -> String {
    let is_excerpt = |line: &&str| {
        line.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_whitespace()).starts_with('|')
    };
    let lines: Vec<_> = message.lines().filter(|line| !is_excerpt(line)).map(str::trim).collect();
    lines.join(", ")
}

/// Holds a given table against the defaults: every key must be there, with the same type.
fn compare(
    given: &Table,
    defaults: &Table,
    path: &str,
    known: &mut dyn FnMut(String),
) -> Result<(), SettingsError> {
    for (name, value) in given {
        let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let Some(default) = defaults.get(name) else {
            return Err(SettingsError::new(key, "there is no such key"));
        };
        match (&value.kind, &default.kind) {
            (ValueKind::Table(given), ValueKind::Table(defaults)) => compare(given, defaults, &key, known)?,
            (ValueKind::Array(items), ValueKind::Array(_)) => {
                if let Some(index) = items.iter().position(|item| !matches!(item.kind, ValueKind::String(_)))
                {
                    return Err(SettingsError::new(format!("{key}[{index}]"), "expected a string"));
                }
                known(key);
            }
            (given, default) => {
                let expected = kind(default);
                let found = kind(given);
                let is_number = |text| text == "a number" || text == "a whole number";
                // Sizes have string defaults and may be numbers; a whole number is a number.
                let fits = found == expected
                    || (expected == "a number" && is_number(found))
                    || (is_size(&key) && found == "a whole number");
                if !fits {
                    return Err(SettingsError::new(key, format!("expected {expected}, found {found}")));
                }
                known(key);
            }
        }
    }
    Ok(())
}

fn is_size(key: &str) -> bool {
    key.ends_with("_bytes")
}

fn kind(kind: &ValueKind) -> &'static str {
    match kind {
        ValueKind::Nil => "nothing",
        ValueKind::Boolean(_) => "true or false",
        ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_) => "a whole number",
        ValueKind::Float(_) => "a number",
        ValueKind::String(_) => "a string",
        ValueKind::Table(_) => "a section",
        ValueKind::Array(_) => "a list",
    }
}

/// Lays the environment variables over the file, each read as the type of its key's default.
fn environment(
    mut builder: ConfigBuilder<DefaultState>,
    defaults: &Table,
    environment: &Environment,
    origins: &mut Map<String, String>,
) -> Result<ConfigBuilder<DefaultState>, SettingsError> {
    for variable in VARIABLES {
        let Some((text, origin)) = variable.read(environment)? else { continue };
        let value = match default_kind(defaults, variable.key) {
            Some(ValueKind::I64(_)) => match text.trim().parse::<i64>() {
                Ok(number) => ValueKind::I64(number),
                Err(_) => {
                    let problem = format!("expected a whole number, found {text:?}");
                    return Err(SettingsError::new(variable.key, problem).set_in(origin));
                }
            },
            Some(ValueKind::Array(_)) => ValueKind::Array(
                text.split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(|item| Value::new(None, ValueKind::String(item.to_owned())))
                    .collect(),
            ),
            _ => ValueKind::String(text),
        };
        builder = builder.set_override(variable.key, Value::new(None, value)).map_err(mistake)?;
        origins.insert(variable.key.to_owned(), origin);
    }
    Ok(builder)
}

fn default_kind<'a>(defaults: &'a Table, key: &str) -> Option<&'a ValueKind> {
    let (section, name) = match key.split_once('.') {
        Some((section, name)) => match &defaults.get(section)?.kind {
            ValueKind::Table(table) => (table, name),
            _ => return None,
        },
        None => (defaults, key),
    };
    section.get(name).map(|value| &value.kind)
}

/// Replaces `auto`: the mode by what the environment names, the address of the API by the mode.
fn resolve(config: &mut Config, environment: &Environment) -> Result<(), SettingsError> {
    let mode = match config.get_string("mode").map_err(mistake)?.as_str() {
        "embedded" => Mode::Embedded,
        "cluster" => Mode::Cluster,
        "auto" if CLUSTER_VARIABLES.iter().any(|name| get(environment, name).is_some()) => Mode::Cluster,
        "auto" => Mode::Embedded,
        other => {
            let problem = format!("expected auto, embedded or cluster, found {other:?}");
            return Err(SettingsError::new("mode", problem));
        }
    };
    let mut builder =
        Config::builder().add_source(config.clone()).set_override("mode", mode.as_str()).map_err(mistake)?;
    if config.get_string("api.host").map_err(mistake)? == "auto" {
        let host = if mode == Mode::Cluster { "0.0.0.0" } else { "127.0.0.1" };
        builder = builder.set_override("api.host", host).map_err(mistake)?;
    }
    *config = builder.build().map_err(mistake)?;
    Ok(())
}

fn mistake(err: ConfigError) -> SettingsError {
    match err {
        // The types were compared before: what is left are numbers that do not fit.
        ConfigError::Type { key, .. } => SettingsError::new(key.unwrap_or_default(), "is out of range"),
        ConfigError::At { error, key, .. } => SettingsError::new(key.unwrap_or_default(), error.to_string()),
        other => SettingsError::new("settings", other.to_string()),
    }
}
