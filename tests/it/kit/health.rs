//! What `/status` says of the stores.

use std::time::Duration;

use serde_json::Value;

use super::service::Service;
use super::wait::{eventually, holds};

fn unhealthy(status: &Value) -> Vec<String> {
    let stores = status["stores"].as_array().cloned().unwrap_or_default();
    stores
        .iter()
        .filter(|store| store["healthy"] == false)
        .map(|store| store["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Waits until `/status` says that these stores are down.
pub(crate) async fn status_names(service: &Service, names: &[&str], within: Duration) {
    eventually(&format!("/status to name {names:?}"), within, async || {
        // It may not listen yet.
        let reply = service.api().get("/status").await?;
        let (code, down) = (reply.status, unhealthy(&reply.json()));
        let named = names.iter().all(|name| down.iter().any(|down| down == name));
        holds(named && (code == 503) != names.is_empty(), || format!("{code}, down: {down:?}"))
    })
    .await;
}

/// Waits until `/status` says that all is well.
pub(crate) async fn healthy_again(service: &Service, within: Duration) {
    eventually("/status to be well", within, async || {
        let (code, status) = service.api().status().await;
        holds(code == 200, || format!("{code}: {} {:?}", status["status"], unhealthy(&status)))
    })
    .await;
}
