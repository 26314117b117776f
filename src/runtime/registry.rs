//! All actors, for those who show them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use tokio::time::Instant;

use super::{
    cell::{Cell, Phase},
    lock,
    status::ActorStatus,
};

/// The cells of all actors by kind and id. A clone is the same registry.
///
/// Reading goes to the cells and never through a mailbox, so that a stuck actor is shown like any other.
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<BTreeMap<&'static str, Kind>>>);

#[derive(Default)]
struct Kind {
    restarts: u64,
    cells: BTreeMap<Arc<str>, Cell>,
    /// Those that broke at some time, and have retired since.
    retired: BTreeMap<Arc<str>, Cell>,
}

impl Registry {
    /// The state of every actor but of those of a kind that run and never broke: of ten thousand that are well only the ids are told. What is told
    /// must not take long, nobody else gets at the registry meanwhile.
    pub fn survey(&self, kind: &str, mut is_well: impl FnMut(&str)) -> Vec<ActorStatus> {
        let mut others = Vec::new();
        for (name, of_kind) in &*lock(&self.0) {
            for (id, cell) in &of_kind.cells {
                if *name == kind && cell.phase() == Phase::FIRST {
                    is_well(id);
                } else {
                    others.push(cell.clone());
                }
            }
        }
        let now = Instant::now();
        others.iter().map(|cell| cell.status_at(now)).collect()
    }

    /// The state of every actor, by kind and id.
    pub fn list(&self) -> Vec<ActorStatus> {
        let now = Instant::now();
        self.cells().iter().map(|cell| cell.status_at(now)).collect()
    }

    /// The cells of all, by kind and id.
    pub fn cells(&self) -> Vec<Cell> {
        lock(&self.0).values().flat_map(|kind| kind.cells.values()).cloned().collect()
    }

    /// The cell of one actor.
    pub fn get(&self, kind: &str, id: &str) -> Option<Cell> {
        lock(&self.0).get(kind)?.cells.get(id).cloned()
    }

    /// Takes an actor off the list whose life is over or that was asked to stop; false when there is none.
    pub fn forget(&self, kind: &str, id: &str) -> bool {
        let mut kinds = lock(&self.0);
        let Some(kind) = kinds.get_mut(kind) else { return false };
        let over = kind.cells.get(id).is_some_and(|cell| !cell.is_alive() || cell.is_stop_asked());
        over && kind.cells.remove(id).is_some()
    }

    /// Takes an actor off the list as [`Registry::forget`] does, because there is nothing to do for it. Of one that was ever restarted the
    /// history is kept: [`Registry::retired`] shows it, and the next actor of its kind and id takes it over.
    pub fn retire(&self, kind: &str, id: &str) -> bool {
        let mut kinds = lock(&self.0);
        let Some(kind) = kinds.get_mut(kind) else { return false };
        let over = kind.cells.get(id).is_some_and(|cell| !cell.is_alive() || cell.is_stop_asked());
        let Some((id, cell)) = over.then(|| kind.cells.remove_entry(id)).flatten() else { return false };
        if cell.generation() > 0 {
            kind.retired.insert(id, cell);
        }
        true
    }

    /// The history of an actor that was restarted at some time, and has retired since.
    pub fn retired(&self, kind: &str, id: &str) -> Option<ActorStatus> {
        let retired = lock(&self.0).get(kind)?.retired.get(id).cloned();
        retired.map(|cell| cell.status())
    }

    /// The histories of all of a kind that were restarted at some time, and have retired since.
    pub fn all_retired(&self, kind: &str) -> Vec<ActorStatus> {
        let now = Instant::now();
        let retired: Vec<Cell> =
            lock(&self.0).get(kind).map_or_else(Vec::new, |kind| kind.retired.values().cloned().collect());
        retired.iter().map(|cell| cell.status_at(now)).collect()
    }

    /// Forgets those that have retired, of a kind, that are nobody's concern here any more.
    pub fn forget_retired(&self, kind: &str, is_over: impl Fn(&str) -> bool) {
        if let Some(kind) = lock(&self.0).get_mut(kind) {
            kind.retired.retain(|id, _| !is_over(id));
        }
    }

    /// Takes the history of one that has retired.
    pub(super) fn take_retired(&self, kind: &str, id: &str) -> Option<Cell> {
        lock(&self.0).get_mut(kind)?.retired.remove(id)
    }

    /// Restarts of all actors of each kind that ever was, those that were forgotten included.
    pub fn restart_totals(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.0).iter().map(|(name, kind)| (*name, kind.restarts)).collect()
    }

    /// Takes the place of an older actor of the same kind and id.
    pub(crate) fn insert(&self, cell: Cell) {
        lock(&self.0).entry(cell.kind()).or_default().cells.insert(cell.id().into(), cell);
    }

    pub(super) fn count_restart(&self, kind: &'static str) {
        lock(&self.0).entry(kind).or_default().restarts += 1;
    }
}
