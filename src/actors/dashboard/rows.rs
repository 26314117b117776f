//! The clients that are shown. Ten thousand of them are looked at each second: they stay in their order, and each is found by one look into a
//! table, whatever tells of it.

use std::collections::HashMap;

use super::client::{ActorFacts, Facts, Row};
use super::snapshot::Inputs;
use crate::actors::delivery_fleet::DELIVERY_KIND;
use crate::domain::config::ClientId;
use crate::runtime::ActorStatus;

/// The clients, and what the dashboard keeps of each.
#[derive(Default)]
pub(super) struct Rows {
    /// By id, but for the newest until [`Rows::settle`].
    rows: Vec<(ClientId, Row)>,
    places: HashMap<ClientId, usize>,
    /// How many are in their order.
    settled: usize,
}

/// What is known of the clients at one moment, in the order of the rows.
pub(super) struct Known<'a>(Vec<Facts<'a>>);

impl<'a> Known<'a> {
    fn of(&mut self, place: usize) -> &mut Facts<'a> {
        if self.0.len() <= place {
            self.0.resize_with(place + 1, Facts::default);
        }
        &mut self.0[place]
    }

    /// One that is shown.
    fn shown(&mut self, place: usize) -> &mut Facts<'a> {
        let facts = self.of(place);
        facts.is_shown = true;
        facts
    }
}

/// The actors: how many of clients' are well, and all others.
pub(super) struct Actors {
    pub(super) well: usize,
    pub(super) others: Vec<ActorStatus>,
}

impl Rows {
    /// What is known of each client, by whoever knows it. Shown are those that have a config, those that somebody serves, and those for which
    /// something waits.
    pub(super) fn gather<'a>(&mut self, inputs: &Inputs<'a>) -> (Known<'a>, Actors) {
        let mut known = Known(Vec::with_capacity(self.rows.len()));
        let (live, deleted): (Vec<_>, Vec<_>) = inputs.configs.configs().partition(|config| !config.deleted);
        for config in live {
            known.shown(self.place(&config.client)).config = Some(config);
        }
        for (client, backlog) in &*inputs.gathered.backlogs {
            known.shown(self.place(client)).backlog = Some(backlog);
        }
        let mut well = 0;
        let others = inputs.registry.survey(DELIVERY_KIND, |id| {
            well += 1;
            known.shown(self.place_of(id)).actor = Some(ActorFacts::WELL);
        });
        for actor in others.iter().filter(|actor| actor.kind == DELIVERY_KIND) {
            known.shown(self.place_of(&actor.id)).actor = Some(ActorFacts::of(actor));
        }
        for actor in inputs.registry.all_retired(DELIVERY_KIND) {
            if let Some(place) = self.places.get(&*actor.id) {
                known.of(*place).retired = Some(ActorFacts::of(&actor));
            }
        }
        for (client, told) in inputs.others.clients() {
            if told.part.is_served() {
                known.shown(self.place(client)).elsewhere = Some(told);
            } else if let Some(place) = self.places.get(client) {
                known.of(*place).elsewhere = Some(told);
            }
        }
        for config in deleted {
            if let Some(place) = self.places.get(&config.client) {
                known.of(*place).config = Some(config);
            }
        }
        inputs.meters.each(|client, meter| {
            if let Some(place) = self.places.get(client) {
                self.rows[*place].1.counts(meter);
            }
        });
        for (client, state) in &*inputs.gathered.states {
            if let Some(place) = self.places.get(client) {
                known.of(*place).stored = Some(state);
            }
        }
        known.0.resize_with(self.rows.len(), Facts::default);
        (known, Actors { well, others })
    }

    fn place_of(&mut self, id: &str) -> usize {
        self.places.get(id).copied().unwrap_or_else(|| self.place(&ClientId::new(id)))
    }

    /// Where a client is; a new one comes last.
    fn place(&mut self, client: &ClientId) -> usize {
        if let Some(place) = self.places.get(client) {
            return *place;
        }
        self.rows.push((client.clone(), Row::default()));
        self.places.insert(client.clone(), self.rows.len() - 1);
        self.rows.len() - 1
    }

    /// The rows, with what is known of each.
    pub(super) fn iter_mut<'r, 'a>(
        &'r mut self,
        known: &'r Known<'a>,
    ) -> impl Iterator<Item = (&'r ClientId, &'r mut Row, &'r Facts<'a>)> {
        self.rows.iter_mut().zip(&known.0).map(|((client, row), facts)| (&*client, row, facts))
    }

    /// Drops those that are not shown, and puts new ones into the order. Returns whether there were new ones: what was made in the order of the
    /// rows is in another than theirs now.
    pub(super) fn settle(&mut self, known: &Known<'_>) -> bool {
        let came = self.rows.len() > self.settled;
        let mut facts = known.0.iter();
        self.rows.retain(|_| facts.next().is_some_and(|facts| facts.is_shown));
        if came {
            self.rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        if came || self.rows.len() < self.settled {
            let places = self.rows.iter().enumerate();
            self.places = places.map(|(place, (client, _))| (client.clone(), place)).collect();
        }
        self.settled = self.rows.len();
        came
    }
}
