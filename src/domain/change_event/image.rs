//! The images in a change, and what routing needs of them.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::config::ClientId;
use super::super::extended_json::{self, Bson, Members, Value};
use super::Image;
use super::config_document::is_deleted;
use super::document_id::id_text;
use super::form::{NoChange, take};

/// What a change tells of its document.
#[derive(Default)]
pub(super) struct Images {
    pub(super) before: Option<Document>,
    pub(super) after: Option<Document>,
    /// Without images: the changed fields, or the id alone.
    pub(super) changed_fields: Option<Document>,
    /// There is an update, whether or not anything of it can be read.
    pub(super) tell_update: bool,
}

impl Images {
    /// Takes the images out of an envelope or the data of a cloud event.
    pub(super) fn take(members: &mut Members<'_>) -> Result<Self, NoChange> {
        let mut image = |name| Document::read(name, take(members, name).unwrap_or(Value::Null));
        let (before, after) = (image("before")?, image("after")?);
        let mut update = take(members, "updateDescription").unwrap_or(Value::Null);
        let changed_fields = match &mut update {
            Value::Object(update) if before.is_none() && after.is_none() => {
                match take(update, "updatedFields") {
                    Some(fields @ Value::String(_)) => Document::read("updatedFields", fields)?,
                    _ => None,
                }
            }
            _ => None,
        };
        Ok(Self { before, after, changed_fields, tell_update: update != Value::Null })
    }
}

/// A document, and what routing needs of it.
pub(super) struct Document {
    pub(super) image: Image,
    facts: Facts,
}

/// What routing needs of a document.
pub(super) struct Facts {
    pub(super) clients: Vec<ClientId>,
    pub(super) deleted: bool,
    pub(super) id: Option<String>,
    /// The member `key` is a text other than that of our configs.
    pub(super) other_key: bool,
}

impl Document {
    /// Reads an image: JSON in a string as Debezium writes it, or an object in its place.
    fn read(name: &str, value: Value<'_>) -> Result<Option<Self>, NoChange> {
        let no_object = || NoChange::Invalid(format!("the image {name} is no object"));
        match value {
            Value::Null => Ok(None),
            Value::String(text) => {
                let text = text.into_owned();
                let facts = match extended_json::parse_image(&text) {
                    Ok(document @ Value::Object(_)) => Facts::of(&document),
                    Ok(_) => return Err(no_object()),
                    Err(err) => {
                        return Err(NoChange::Invalid(format!("the image {name} is no JSON: {err}")));
                    }
                };
                Ok(Some(Self { image: Image { text }, facts }))
            }
            object @ Value::Object(_) => Ok(Some(Self::inline(&object))),
            _ => Err(no_object()),
        }
    }

    /// What routing needs of it.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The document that this object is.
    pub(super) fn inline(object: &Value<'_>) -> Self {
        let mut text = String::new();
        extended_json::write(object, &mut text);
        Self { image: Image { text }, facts: Facts::of(object) }
    }
}

impl Facts {
    fn of(document: &Value<'_>) -> Self {
        let key = document.get("key").and_then(Value::as_str);
        Self {
            clients: clients_of(document),
            deleted: is_deleted(document),
            id: document.get("_id").map(id_text),
            other_key: key.is_some_and(|key| key != "CQRS"),
        }
    }
}

/// The clients of a document: ObjectIds as hex, strings as they are, each once; anything else is no client.
fn clients_of(document: &Value<'_>) -> Vec<ClientId> {
    let elements: Vec<&Value<'_>> = match document.get("clients") {
        Some(Value::Array(elements)) => elements.iter().collect(),
        Some(Value::Object(members)) => numbered_elements(members).unwrap_or_default(),
        _ => return Vec::new(),
    };
    let mut seen = HashSet::new();
    let mut ids = Vec::new();
    for element in elements {
        let id = match (element, Bson::recognise(element)) {
            (Value::String(text), _) if !text.is_empty() => Cow::Borrowed(text.as_ref()),
            (_, Some(Bson::ObjectId(hex))) => hex,
            _ => continue,
        };
        if seen.insert(id.clone()) {
            ids.push(ClientId::new(&id));
        }
    }
    ids
}

/// The elements of an array that flattening wrote as a document (`array.encoding=document`): `_0`, `_1`, ….
fn numbered_elements<'v, 'a>(members: &'v Members<'a>) -> Option<Vec<&'v Value<'a>>> {
    let number = |name: &str| name.strip_prefix('_')?.parse::<usize>().ok();
    let mut elements: Vec<_> =
        members.iter().map(|(name, value)| Some((number(name)?, value))).collect::<Option<_>>()?;
    elements.sort_by_key(|(number, _)| *number);
    Some(elements.into_iter().map(|(_, value)| value).collect())
}
