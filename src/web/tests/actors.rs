//! Actors begin anew.

use super::{World, here};
use crate::domain::replica::ReplicaName;
use crate::ports::actor_restarts::RestartWish;

#[actix_web::test]
async fn an_actor_begins_anew_whatever_its_id() {
    let world = World::start();
    for (path, kind, id, replica) in [
        ("delivery/a%2Fb/restart", "delivery", "a/b", None),
        ("stash/-/restart", "stash", "", None),
        ("stash/-/restart?replica=pod-2", "stash", "", Some("pod-2")),
    ] {
        let answer = world.post(&format!("/v1/actors/{path}"), "").await;
        assert_eq!((answer.status, &answer.json()["asked"]), (202, &true.into()), "{path}");
        let replica = replica.map(|name| ReplicaName::parse(name).unwrap());
        assert_eq!(answer.json()["replica"], replica.as_ref().unwrap_or(&here()).as_str(), "{path}");
        let asked = world.restarted.lock().unwrap().pop().unwrap();
        assert_eq!(asked, RestartWish { kind: kind.to_owned(), id: id.to_owned(), replica });
    }
}

#[actix_web::test]
async fn one_that_is_not_or_is_no_more_is_a_problem() {
    let world = World::start();
    for (path, status) in [
        ("delivery/nobody/restart", 404),
        ("delivery/over/restart", 409),
        ("delivery/far/restart", 503),
        ("delivery/mute/restart", 504),
        ("%00/%ff/restart", 400),
        ("stash/-/restart?replica=a%20b", 400),
        ("stash/-/restart?more=1", 400),
    ] {
        assert_eq!(world.post(&format!("/v1/actors/{path}"), "").await.problem().0, status, "{path}");
    }
    assert_eq!(world.get("/v1/actors/stash/-/restart").await.status, 405);
    assert!(world.restarted.lock().unwrap().iter().all(|wish| wish.id != "-"));
}
