//! Looks at every state that can be reached, shortest histories first.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Law;
use super::state::{State, Trouble, VERSIONS};
use super::steps::steps;

pub(super) enum Found {
    Nothing { states: usize },
    Wrong { what: &'static str, story: Vec<String> },
}

pub(super) fn explore(law: Law, trouble: Trouble) -> Found {
    let mut places: HashMap<State, u32> = HashMap::new();
    let mut reached = vec![(State::new(trouble), 0_u32)];
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut rests = Vec::new();
    places.insert(reached[0].0, 0);
    let mut index = 0;
    while index < reached.len() {
        let state = reached[index].0;
        let at_rest = state.is_at_rest();
        if let Some(what) = wrong(&state, at_rest) {
            return Found::Wrong { what, story: story(&reached, index, &law) };
        }
        if at_rest {
            rests.push(index as u32);
        }
        for (_, next) in steps(&state, &law) {
            let known = reached.len() as u32;
            let place = match places.entry(next) {
                Entry::Occupied(place) => *place.get(),
                Entry::Vacant(place) => {
                    reached.push((next, index as u32));
                    *place.insert(known)
                }
            };
            edges.push((index as u32, place));
        }
        index += 1;
    }
    match stuck(reached.len(), &edges, rests) {
        Some(index) => Found::Wrong { what: "stuck", story: story(&reached, index, &law) },
        None => Found::Nothing { states: reached.len() },
    }
}

fn wrong(state: &State, at_rest: bool) -> Option<&'static str> {
    if state.turned_round {
        return Some("turned round");
    }
    if !at_rest {
        return None;
    }
    if state.got != (1 << VERSIONS) - 1 {
        return Some("lost");
    }
    (state.last != Some(VERSIONS as u8 - 1)).then_some("stale")
}

/// How a state was reached.
fn story(reached: &[(State, u32)], mut index: usize, law: &Law) -> Vec<String> {
    let mut story = Vec::new();
    while index != 0 {
        let (state, before) = reached[index];
        let step = steps(&reached[before as usize].0, law).into_iter().find(|(_, next)| *next == state);
        story.extend(step.map(|(what, _)| what));
        index = before as usize;
    }
    story.reverse();
    story
}

/// A state from which no rest can be reached.
fn stuck(count: usize, edges: &[(u32, u32)], mut rests: Vec<u32>) -> Option<usize> {
    let mut before = vec![Vec::new(); count];
    for (from, to) in edges {
        before[*to as usize].push(*from);
    }
    let mut comes = vec![false; count];
    rests.iter().for_each(|index| comes[*index as usize] = true);
    while let Some(index) = rests.pop() {
        for from in &before[index as usize] {
            if !std::mem::replace(&mut comes[*from as usize], true) {
                rests.push(*from);
            }
        }
    }
    comes.iter().position(|comes| !comes)
}
