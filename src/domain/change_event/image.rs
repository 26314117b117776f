//! The images in a change, and what routing needs of them.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::config::ClientId;
use super::super::extended_json::{self, Bson, Members, Value, get};
use super::Image;
use super::config_document::is_deleted;
use super::document_id::id_text;
use super::form::{Reason, take};

/// The images of an envelope or of a cloud event's data.
pub(super) struct Images {
    pub(super) before: Option<Document>,
    pub(super) after: Option<Document>,
    pub(super) partial: Option<Option<Document>>,
}

impl Images {
    pub(super) fn take(members: &mut Members<'_>) -> Result<Self, Reason> {
        let mut image = |name| Document::read(name, take(members, name));
        let (before, after) = (image("before")?, image("after")?);
        let update = get(members, "updateDescription").filter(|update| **update != Value::Null);
        let partial = match update {
            None => None,
            Some(_) if before.is_some() || after.is_some() => Some(None),
            Some(update) => match update.get("updatedFields") {
                Some(Value::String(text)) => {
                    Some(Document::read("updatedFields", Some(Value::String(Cow::Borrowed(text))))?)
                }
                _ => Some(None),
            },
        };
        Ok(Self { before, after, partial })
    }
}

/// A document, and what routing needs of it.
pub(super) struct Document {
    pub(super) image: Image,
    pub(super) clients: Vec<ClientId>,
    pub(super) deleted: bool,
    pub(super) id: Option<String>,
    /// The member `key` is a text other than that of our configs.
    pub(super) other_key: bool,
}

impl Document {
    /// Reads an image: JSON in a string as Debezium writes it, or an object in its place.
    fn read(name: &str, value: Option<Value<'_>>) -> Result<Option<Self>, Reason> {
        match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => {
                let text = text.into_owned();
                let document = extended_json::parse_image(&text)
                    .map_err(|err| format!("the image {name} is no JSON: {err}"))?;
                if !matches!(document, Value::Object(_)) {
                    return Err(format!("the image {name} is no object").into());
                }
                let facts = Self::facts(&document);
                Ok(Some(Self { image: Image { text }, ..facts }))
            }
            Some(object @ Value::Object(_)) => Ok(Some(Self::inline(&object))),
            Some(_) => Err(format!("the image {name} is no object").into()),
        }
    }

    pub(super) fn inline(object: &Value<'_>) -> Self {
        let mut text = String::new();
        extended_json::write(object, &mut text);
        Self { image: Image { text }, ..Self::facts(object) }
    }

    fn facts(document: &Value<'_>) -> Self {
        let key = document.get("key").and_then(Value::as_str);
        Self {
            image: Image { text: String::new() },
            clients: clients_of(document),
            deleted: is_deleted(document),
            id: document.get("_id").map(id_text),
            other_key: key.is_some_and(|key| key != "CQRS"),
        }
    }
}

/// The clients of a document: ObjectIds as hex, strings as they are, each once; anything else is no client.
fn clients_of(document: &Value<'_>) -> Vec<ClientId> {
    let Some(clients) = document.get("clients") else { return Vec::new() };
    let numbered;
    let elements: Vec<&Value<'_>> = match clients {
        Value::Array(elements) => elements.iter().collect(),
        Value::Object(members) => {
            numbered = numbered_elements(members);
            numbered.unwrap_or_default()
        }
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
