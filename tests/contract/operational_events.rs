//! The contract of the operational events.

use std::sync::Arc;

use dispatcher::domain::operational_event::{Happening, NumberedEvent, OperationalEvent};
use dispatcher::ports::operational_events::{EventOrder, EventPage, LARGEST_EVENT_PAGE, OperationalEvents};

use crate::fixture::{Backend, client, soon};

fn event(at_ms: i64, of: &str) -> OperationalEvent {
    OperationalEvent::new(Happening::Degraded, at_ms).of(&client(of)).because("status_503")
}

async fn oldest(events: &Arc<dyn OperationalEvents>, after: i64) -> Vec<NumberedEvent> {
    events.list(EventPage { after: Some(after), limit: 100, ..EventPage::default() }).await.unwrap()
}

fn times(list: &[NumberedEvent]) -> Vec<i64> {
    list.iter().map(|numbered| numbered.event.at_ms).collect()
}

pub(crate) async fn events_are_numbered_in_their_order(backend: &impl Backend) {
    let events = backend.open().await.events;
    assert_eq!(oldest(&events, 0).await, []);
    // Their times say nothing of their order: they are of several clocks.
    events.append(vec![event(9, "a"), event(2, "b")]).await.unwrap();
    events.append(vec![]).await.unwrap();
    events.append(vec![event(5, "a")]).await.unwrap();
    let list = oldest(&events, 0).await;
    assert_eq!(times(&list), [9, 2, 5]);
    assert!(list[0].id > 0 && list.is_sorted_by(|one, other| one.id < other.id), "{list:?}");
}

pub(crate) async fn an_event_comes_back_as_it_was(backend: &impl Backend) {
    let events = backend.open().await.events;
    let all: Vec<_> = Happening::ALL
        .into_iter()
        .zip(1..)
        .map(|(happening, at_ms)| OperationalEvent::new(happening, at_ms))
        .chain([
            event(-5, "a \u{0} ü").because("\u{0}").with("text", "\u{0}\u{1b}").with("none", None::<i64>),
            event(i64::MAX, "").with("list", vec![1, 2]),
        ])
        .collect();
    events.append(all.clone()).await.unwrap();
    let list: Vec<_> = oldest(&events, 0).await.into_iter().map(|numbered| numbered.event).collect();
    assert_eq!(list, all);
}

/// The answer to an append may be lost: it is asked for again.
pub(crate) async fn an_event_that_is_recorded_twice_is_one(backend: &impl Backend) {
    let events = backend.open().await.events;
    events.append(vec![event(1, "a"), event(2, "a")]).await.unwrap();
    let first = oldest(&events, 0).await;
    events.append(vec![event(1, "a"), event(2, "a"), event(3, "a"), event(3, "a")]).await.unwrap();
    let second = oldest(&events, 0).await;
    assert_eq!((&second[..2], times(&second)), (&first[..], vec![1, 2, 3]));
}

pub(crate) async fn events_are_listed_from_both_ends_and_by_client(backend: &impl Backend) {
    let events = backend.open().await.events;
    let service = OperationalEvent::new(Happening::SourceGap, 3);
    events.append(vec![event(1, "a"), event(2, "b"), service, event(4, "a")]).await.unwrap();
    let ids: Vec<i64> = oldest(&events, 0).await.iter().map(|numbered| numbered.id).collect();
    let list = async |after: Option<usize>, of: Option<&str>, order, limit| {
        let after = after.map(|index| ids[index]);
        let page = EventPage { after, client: of.map(client), happening: None, order, limit };
        times(&events.list(page).await.unwrap())
    };
    assert_eq!(list(None, None, EventOrder::Oldest, 2).await, [1, 2]);
    assert_eq!(list(Some(1), None, EventOrder::Oldest, 9).await, [3, 4]);
    assert_eq!(list(None, None, EventOrder::Newest, 3).await, [4, 3, 2]);
    assert_eq!(list(Some(1), None, EventOrder::Newest, 3).await, [1]);
    assert_eq!(list(None, Some("a"), EventOrder::Oldest, 9).await, [1, 4]);
    assert_eq!(list(None, Some("a"), EventOrder::Newest, 1).await, [4]);
    assert_eq!(list(Some(0), Some("a"), EventOrder::Oldest, 9).await, [4]);
    assert_eq!(list(None, Some("c"), EventOrder::Oldest, 9).await, [0; 0]);
    assert_eq!(list(None, None, EventOrder::Oldest, 0).await, [0; 0]);
    let gaps = EventPage { happening: Some(Happening::SourceGap), limit: 9, ..EventPage::default() };
    assert_eq!(times(&events.list(gaps.clone()).await.unwrap()), [3]);
    let of_client = EventPage { client: Some(client("a")), ..gaps };
    assert_eq!(times(&events.list(of_client).await.unwrap()), [0; 0]);
}

pub(crate) async fn a_page_of_events_is_bounded(backend: &impl Backend) {
    let events = backend.open().await.events;
    let many = (0..LARGEST_EVENT_PAGE as i64 + 5).map(|at_ms| event(at_ms, "a"));
    events.append(many.collect()).await.unwrap();
    let page = EventPage { limit: usize::MAX, ..EventPage::default() };
    assert_eq!(events.list(page).await.unwrap().len(), LARGEST_EVENT_PAGE);
}

pub(crate) async fn a_reader_begins_behind_the_newest_event_and_never_goes_back(backend: &impl Backend) {
    let stores = backend.open().await;
    let events = stores.events.clone();
    assert_eq!(events.reader("early").await.unwrap(), 0);
    events.append(vec![event(1, "a"), event(2, "a")]).await.unwrap();
    let ids: Vec<i64> = oldest(&events, 0).await.iter().map(|numbered| numbered.id).collect();
    assert_eq!(events.reader("early").await.unwrap(), 0);
    assert_eq!(events.reader("late").await.unwrap(), ids[1]);

    events.has_read("early", ids[1]).await.unwrap();
    events.has_read("early", ids[0]).await.unwrap();
    stores.close().await;
    let events = backend.open().await.events;
    assert_eq!(events.reader("early").await.unwrap(), ids[1]);
}

pub(crate) async fn old_events_go_and_numbers_never_come_again(backend: &impl Backend) {
    let events = backend.open().await.events;
    events.append((1..=6).map(|at_ms| event(at_ms, "a")).collect()).await.unwrap();
    let last = oldest(&events, 0).await.last().unwrap().id;
    assert_eq!(events.purge(3, 100).await.unwrap(), 2);
    assert_eq!(times(&oldest(&events, 0).await), [3, 4, 5, 6]);
    assert_eq!(events.purge(i64::MIN, 2).await.unwrap(), 2);
    assert_eq!(times(&oldest(&events, 0).await), [5, 6]);
    assert_eq!(events.purge(i64::MAX, 100).await.unwrap(), 2);
    assert_eq!(events.purge(i64::MAX, 0).await.unwrap(), 0);
    events.append(vec![event(7, "a")]).await.unwrap();
    assert!(oldest(&events, 0).await[0].id > last);
}

/// Several append at a time. Whoever reads on from the last number that he saw must not miss one that becomes visible later.
pub(crate) async fn who_reads_by_number_passes_over_none(backend: &impl Backend) {
    const WRITERS: i64 = 4;
    const EACH: i64 = 25;
    let stores = backend.open().await;
    let writers = (0..WRITERS).map(|writer| {
        let events = stores.events.clone();
        tokio::spawn(async move {
            for number in 0..EACH {
                let batch = (0..3).map(|part| event(writer * 1_000 + number * 10 + part, "a"));
                events.append(batch.collect()).await.unwrap();
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let (mut after, mut seen) = (0, Vec::new());
    soon(async {
        while seen.len() < (WRITERS * EACH * 3) as usize {
            let page = oldest(&stores.events, after).await;
            after = page.last().map_or(after, |numbered| numbered.id);
            seen.extend(times(&page));
            tokio::task::yield_now().await;
        }
    })
    .await;
    for writer in writers {
        writer.await.unwrap();
    }
    let whole = oldest(&stores.events, after).await;
    assert_eq!(whole, []);
    for batch in seen.chunks(3) {
        assert_eq!([batch[1], batch[2]], [batch[0] + 1, batch[0] + 2], "a batch stays together");
    }
}

pub(crate) async fn events_outlive_a_restart(backend: &impl Backend) {
    let stores = backend.open().await;
    stores.events.append(vec![event(1, "a")]).await.unwrap();
    let before = oldest(&stores.events, 0).await;
    stores.close().await;
    let events = backend.open().await.events;
    events.append(vec![event(2, "a")]).await.unwrap();
    let after = oldest(&events, 0).await;
    assert_eq!((&after[..1], times(&after)), (&before[..], vec![1, 2]));
}
