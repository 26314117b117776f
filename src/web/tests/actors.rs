//! Actors begin anew.

use super::World;
use crate::web::ActorName;

#[actix_web::test]
async fn an_actor_begins_anew_whatever_its_id() {
    let world = World::start();
    for (path, kind, id) in [("delivery/a%2Fb", "delivery", "a/b"), ("stash/-", "stash", "")] {
        let answer = world.post(&format!("/v1/actors/{path}/restart"), "").await;
        assert_eq!((answer.status, &answer.json()["asked"]), (202, &true.into()), "{path}");
        let asked = world.restarted.lock().unwrap().pop().unwrap();
        assert_eq!(asked, ActorName { kind: kind.to_owned(), id: id.to_owned() });
    }
}

#[actix_web::test]
async fn one_that_is_not_or_is_no_more_is_a_problem() {
    let world = World::start();
    assert_eq!(world.post("/v1/actors/delivery/nobody/restart", "").await.problem().0, 404);
    assert_eq!(world.post("/v1/actors/delivery/over/restart", "").await.problem().0, 409);
    assert_eq!(world.post("/v1/actors/%00/%ff/restart", "").await.problem().0, 400);
    assert_eq!(world.get("/v1/actors/stash/-/restart").await.status, 405);
    assert!(world.restarted.lock().unwrap().iter().all(|name| name.id != "-"));
}
