//! The names of replicas.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name, in bytes.
const LONGEST: usize = 80;

/// The name of one process of the service: its host's, and a few letters by which it is told from those before it and beside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ReplicaName(Arc<str>);

/// A name has 1 to 80 letters, digits, dots, hyphens and underscores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a replica: 1 to 80 letters, digits, dots, hyphens and underscores")]
pub struct NotAReplica;

impl ReplicaName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, NotAReplica> {
        let is_name = (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_letter);
        if is_name { Ok(Self(text.into())) } else { Err(NotAReplica) }
    }

    /// The name of a process on this host, told from others there by a number that is theirs alone.
    pub fn on(host: &str, number: u32) -> Self {
        let host: String =
            host.bytes().filter(|byte| is_letter(*byte)).take(LONGEST - 9).map(char::from).collect();
        let host = if host.is_empty() { "replica" } else { &host };
        Self(format!("{host}-{number:04x}").into())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-_".contains(&byte)
}

impl TryFrom<String> for ReplicaName {
    type Error = NotAReplica;

    fn try_from(text: String) -> Result<Self, NotAReplica> {
        Self::parse(&text)
    }
}

impl fmt::Display for ReplicaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", "a b", "a:b", "ä", "a\n", &"a".repeat(LONGEST + 1)] {
            assert_eq!(ReplicaName::parse(text), Err(NotAReplica), "{text}");
        }
        for host in ["dispatcher-7d9f.local", "", "ä b\n", &"h".repeat(300)] {
            let name = ReplicaName::on(host, u32::MAX);
            assert_eq!(ReplicaName::parse(name.as_str()).as_ref(), Ok(&name));
        }
        assert_eq!(ReplicaName::on("pod-1", 0xab).as_str(), "pod-1-00ab");
        assert!(serde_json::from_str::<ReplicaName>("\"a b\"").is_err());
    }
}
