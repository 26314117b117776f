//! Who does what: the roles of replicas, and what the clock starts.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::api::Api;
use crate::kit::service::{Service, command, text};
use crate::kit::wait::{eventually, holds};

const SOON: Duration = Duration::from_secs(30);

async fn roles(api: &Api) -> Value {
    api.status().await.1["roles"].clone()
}

#[actix_web::test]
async fn embedded_mode_does_everything_and_what_the_clock_starts() {
    let service = Service::shared().start().await;
    let api = service.api();
    let all = ["ingest", "transfer", "retry", "schedule", "heavy", "web"];
    assert_eq!(roles(api).await, json!({ "here": all, "nobody": [] }));
    let reconciled =
        [("queue", "dispatcher-schedule"), ("job", "reconcile-configs"), ("outcome", "completed")];
    api.wait_for_metric("jobs_total", &reconciled, 1.0, SOON).await;
    // Its next time, and the daily purge.
    let waits = [("queue", "dispatcher-schedule"), ("state", "delayed")];
    api.wait_for_metric("queue_jobs", &waits, 2.0, SOON).await;
    let metrics = api.metrics().await;
    assert!(metrics.has("queue_oldest_waiting_seconds", &[("queue", "dispatcher-heavy")]));
}

#[test]
fn embedded_mode_leaves_nothing_out() {
    let folder = tempfile::tempdir().unwrap();
    let run = |roles: &str| {
        let mut run = command(&["run", "--roles", roles]);
        let output = run.env("DISPATCHER_DATA_DIR", folder.path()).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, told) = run("ingest,web");
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("roles: embedded mode has one process") && told.contains("--roles"), "{told}");
    let (code, told) = run("leader");
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("\"leader\" is no role"), "{told}");
}

#[cfg(feature = "cluster")]
mod replicas {
    use super::*;
    use crate::kit::cluster::Cluster;
    use crate::kit::events::Document;
    use crate::kit::receiver::Receiver;
    use crate::kit::service::free_port;
    use crate::kit::turn::Turn;

    /// Until nobody does exactly these.
    async fn wait_until_nobody_does(api: &Api, expected: Value) {
        eventually("the roles of nobody", SOON, async || {
            let roles = roles(api).await;
            holds(roles["nobody"] == expected, || roles.to_string())
        })
        .await;
    }

    #[actix_web::test]
    async fn replicas_share_the_work_and_say_what_nobody_does() {
        let turn = Turn::shared();
        let cluster = Cluster::shared("roles");
        let replica = |roles: &str| cluster.replica_in(&turn).env("DISPATCHER_ROLES", roles);
        let front = replica("ingest,web").start().await;
        wait_until_nobody_does(front.api(), json!(["transfer", "retry", "schedule", "heavy"])).await;
        let receiver = Receiver::healthy();
        front.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
        front.api().send(&cluster.records(&[Document::new(1, &["acme"]).create()])).await;
        front.api().wait_for_metric("routed_total", &[], 1.0, SOON).await;
        assert_eq!(receiver.ledger().distinct(), 0, "nobody delivers");

        let back = replica("transfer,retry,schedule,heavy").start().await;
        receiver.ledger().wait_for(1, SOON).await;
        wait_until_nobody_does(front.api(), json!([])).await;
        let refused = back.api().get("/v1/clients").await.unwrap();
        assert_eq!(refused.status, 404, "{}", refused.text());
        assert_eq!(roles(back.api()).await["here"], json!(["transfer", "retry", "schedule", "heavy"]));
        let reconciled = [("job", "reconcile-configs"), ("outcome", "completed")];
        back.api().wait_for_metric("jobs_total", &reconciled, 1.0, SOON).await;
        assert!(!front.api().metrics().await.has("jobs_total", &[]), "it has not the role");
    }

    #[actix_web::test]
    async fn without_redis_it_starts_delivers_and_stops() {
        let cluster = Cluster::shared("nobody");
        let mut service = cluster.replica().env("REDIS_PORT", &free_port().to_string()).start().await;
        let receiver = Receiver::healthy();
        service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
        service.api().send(&cluster.records(&[Document::new(1, &["acme"]).create()])).await;
        receiver.ledger().wait_for(1, SOON).await;
        assert_eq!(roles(service.api()).await["nobody"], "unknown");
        service.terminate();
        assert!(service.wait_for_exit(SOON).await.success());
    }
}
