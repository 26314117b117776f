//! Who may use the API: with a token whoever has it, without one this machine only.

use std::net::{IpAddr, UdpSocket};

use serde_json::json;

use crate::kit::api::Api;
use crate::kit::service::Service;

const OPEN: [&str; 4] = ["/status", "/livez", "/readyz", "/metrics"];
const GUARDED: [&str; 4] = ["/v1/clients", "/v1/clients/acme", "/v1/dead-letters", "/v1/dead-letters/source"];

#[actix_web::test]
async fn with_a_token_everything_but_the_probes_needs_it() {
    let service = Service::shared().env("DISPATCHER_ADMIN_TOKEN", "open-sesame").start().await;
    let api = service.api();
    for path in OPEN {
        assert_eq!(api.get(path).await.unwrap().status, 200, "{path}");
    }
    for path in GUARDED {
        assert_eq!(api.get(path).await.unwrap().status, 401, "{path}");
        let guess = api.with_token("open-sesami").get(path).await.unwrap();
        assert_eq!(guess.status, 401, "{path}");
    }
    assert_eq!(api.offer(&[]).await, Ok(401));

    let admin = api.with_token("open-sesame");
    assert_eq!(admin.get("/v1/clients").await.unwrap().status, 200);
    admin
        .put_client("acme", json!({ "webhook": "http://127.0.0.1:9/hook", "secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=" }))
        .await;
    let shown = admin.get("/v1/clients/acme").await.unwrap();
    assert_eq!(shown.status, 200);
    assert!(!shown.text().contains("MDEyMzQ1"), "a secret is not shown: {}", shown.text());
    assert!(!service.log().contains("open-sesame"), "a token is not logged");
}

/// Needs an address of this machine that is not loopback; says so when there is none.
#[actix_web::test]
async fn without_a_token_only_this_machine_is_answered() {
    let address = other_address().expect("this test needs a network interface besides loopback");
    let service = Service::shared().env("DISPATCHER_API_HOST", "0.0.0.0").start().await;
    let port = service.api().url().rsplit(':').next().unwrap();
    let from_outside = Api::at(&format!("http://{address}:{port}"));

    for path in OPEN {
        assert_eq!(from_outside.get(path).await.unwrap().status, 200, "{path}");
    }
    for path in GUARDED {
        assert_eq!(from_outside.get(path).await.unwrap().status, 403, "{path}");
    }
    assert_eq!(service.api().get("/v1/clients").await.unwrap().status, 200);
}

/// The address with which this machine would talk to others. Nothing is sent.
fn other_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then_some(address)
}
