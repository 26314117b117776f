//! `/v1/operational-events`.

use serde_json::{Value, json};

use super::World;
use crate::domain::config::ClientId;
use crate::domain::operational_event::{Happening, NumberedEvent, OperationalEvent};
use crate::ports::operational_events::{EventOrder, EventPage};

#[actix_web::test]
async fn events_are_asked_for_by_client_place_and_order() {
    let world = World::start();
    for path in [
        "",
        "?client=a%2Fb&type=source_gap&after=7&limit=5&order=newest",
        "?order=oldest&limit=1000",
        "?limit=1",
    ] {
        assert_eq!(world.get(&format!("/v1/operational-events{path}")).await.status, 200, "{path}");
    }
    let page = EventPage { limit: 100, ..EventPage::default() };
    let expected = [
        page.clone(),
        EventPage {
            after: Some(7),
            client: Some(ClientId::new("a/b")),
            happening: Some(Happening::SourceGap),
            order: EventOrder::Newest,
            limit: 5,
        },
        EventPage { limit: 1000, ..page.clone() },
        EventPage { limit: 1, ..page },
    ];
    assert_eq!(*world.events.asked.lock().unwrap(), expected);
    for path in ["?order=random", "?after=x", "?limit=-1", "?limit=0", "?limit=1001", "?since=1", "?type=odd"]
    {
        let answer = world.get(&format!("/v1/operational-events{path}")).await;
        assert_eq!(answer.problem().0, 400, "{path}");
    }
}

#[actix_web::test]
async fn a_full_page_says_where_the_next_begins() {
    let world = World::start();
    let event = |id, client: Option<&str>| NumberedEvent {
        id,
        event: OperationalEvent {
            client: client.map(ClientId::new),
            ..OperationalEvent::new(Happening::Degraded, 5).because("status_503").with("n", 1)
        },
    };
    *world.events.answer.lock().unwrap() = vec![event(3, Some("a")), event(9, None)];
    let shown = json!([
        { "id": 3, "type": "degraded", "at_ms": 5, "client": "a", "reason": "status_503", "details": { "n": 1 } },
        { "id": 9, "type": "degraded", "at_ms": 5, "client": null, "reason": "status_503", "details": { "n": 1 } },
    ]);
    let page = world.get("/v1/operational-events?limit=2").await.json();
    assert_eq!(page, json!({ "events": shown, "next": 9 }));
    let page = world.get("/v1/operational-events").await.json();
    assert_eq!(page["next"], Value::Null);
}
