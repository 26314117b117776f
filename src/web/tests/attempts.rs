//! `/v1/clients/{id}/attempts`.

use serde_json::{Value, json};

use super::World;
use crate::domain::attempt::Attempt;
use crate::domain::config::ClientId;
use crate::domain::transfer::EventId;

fn attempt(client: &str, at_ms: i64, delivered: bool) -> Attempt {
    Attempt {
        at_ms,
        client: ClientId::new(client),
        event_id: EventId::from_stored("evt_a"),
        document: "identity.users:1".into(),
        attempt: 2,
        delivered,
        status: (!delivered).then_some(503),
        reason: "status_503".to_owned(),
        latency_ms: 7,
        answer: "busy".to_owned(),
    }
}

fn times(list: &Value) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|attempt| attempt["at_ms"].as_i64().unwrap()).collect()
}

#[actix_web::test]
async fn attempts_come_by_page_and_recent_deliveries_with_the_first() {
    let world = World::start();
    *world.attempts.0.lock().unwrap() = vec![
        (9, attempt("a/b", 5, false)),
        (7, attempt("a/b", 4, true)),
        (6, attempt("other", 3, false)),
        (2, attempt("a/b", 2, false)),
    ];
    let first = world.get("/v1/clients/a%2Fb/attempts?limit=2").await.json();
    assert_eq!((times(&first["attempts"]), times(&first["recent"])), (vec![5, 4], vec![4]));
    assert_eq!(first["next"], 7);
    assert_eq!(
        first["attempts"][0],
        json!({
            "id": 9, "at_ms": 5, "event_id": "evt_a", "document": "identity.users:1", "attempt": 2,
            "outcome": "failed", "status": 503, "reason": "status_503", "latency_ms": 7, "answer": "busy",
        })
    );
    assert_eq!(
        (&first["recent"][0]["id"], &first["recent"][0]["outcome"]),
        (&Value::Null, &json!("delivered"))
    );
    let second = world.get("/v1/clients/a%2Fb/attempts?before=7&limit=2").await.json();
    assert_eq!((times(&second["attempts"]), times(&second["recent"])), (vec![2], vec![]));
    assert_eq!(second["next"], Value::Null);
    let nobody = world.get("/v1/clients/nobody/attempts").await;
    assert_eq!((nobody.status, &nobody.json()["attempts"]), (200, &json!([])));
    assert_eq!(world.get("/v1/clients/a/attempts?after=1").await.problem().0, 400);
    assert_eq!(world.get("/v1/clients/%ff/attempts").await.problem().0, 400);
}
