//! What this replica remembers of configs: whose each document is, and what it told of each client last.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use super::documents::ConfigDocument;
use crate::domain::config::ClientId;

/// What a client's config is, so that two can be told apart; `None`: there is none.
pub(super) type Mark = Option<[u8; 32]>;

pub(super) fn mark(document: Option<&ConfigDocument>) -> Mark {
    document.map(|document| Sha256::digest(&document.text).into())
}

/// More complaints than this are not remembered, and made again.
const MAX_SAID: usize = 10_000;

#[derive(Default)]
pub(super) struct Memory(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    clients: HashMap<String, ClientId>,
    told: HashMap<ClientId, Mark>,
    said: HashSet<String>,
}

impl Memory {
    /// A document was seen.
    pub(super) fn belongs(&self, document_id: &str, client: &ClientId) {
        self.inner().clients.insert(document_id.to_owned(), client.clone());
    }

    pub(super) fn client_of(&self, document_id: &str) -> Option<ClientId> {
        self.inner().clients.get(document_id).cloned()
    }

    pub(super) fn forget(&self, document_id: &str) {
        self.inner().clients.remove(document_id);
    }

    /// A client's config was read, and whoever read it may have taken it over: if it is not what was told of, then what was
    /// told of is news again.
    pub(super) fn seen(&self, client: &ClientId, mark: Mark) {
        let mut inner = self.inner();
        if inner.told.get(client).is_some_and(|told| *told != mark) {
            inner.told.remove(client);
        }
    }

    /// All configs were read: as [`Memory::seen`], also of clients that have none.
    pub(super) fn seen_all(&self, marks: &HashMap<ClientId, Mark>) {
        self.inner().told.retain(|client, told| marks.get(client).copied().flatten() == *told);
    }

    /// Whether a client's config is news; it is told with this.
    pub(super) fn tell(&self, client: &ClientId, mark: Mark) -> bool {
        self.inner().told.insert(client.clone(), mark) != Some(mark)
    }

    /// Whether this is said the first time.
    pub(super) fn say_once(&self, what: &str) -> bool {
        let mut inner = self.inner();
        if inner.said.len() >= MAX_SAID {
            inner.said.clear();
        }
        inner.said.insert(what.to_owned())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_no_news_until_something_else_was_seen() {
        let (memory, a) = (Memory::default(), ClientId::new("a"));
        let (one, two) = (Some([1; 32]), Some([2; 32]));
        memory.seen(&a, one);
        assert!(memory.tell(&a, one), "nobody was told yet");
        assert!(!memory.tell(&a, one));
        memory.seen(&a, one);
        assert!(!memory.tell(&a, one));
        memory.seen(&a, two);
        assert!(memory.tell(&a, one), "somebody may have taken over the other");
        assert!(memory.tell(&a, None));
        assert!(!memory.tell(&a, None));
        memory.seen_all(&HashMap::new());
        assert!(!memory.tell(&a, None));
        assert!(memory.tell(&a, one));
        memory.seen_all(&HashMap::from([(a.clone(), one)]));
        assert!(!memory.tell(&a, one));
        memory.seen_all(&HashMap::new());
        assert!(memory.tell(&a, one), "it was gone, and is there again");
    }
}
