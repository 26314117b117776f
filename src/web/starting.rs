//! What is answered while the service starts: a store that is away may be waited for, and operators want to see for which.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::{App, HttpResponse, HttpServer, ResponseError as _, web};
use serde_json::json;

use super::problem::Problem;
use super::status::livez;

/// What the start waits for.
#[derive(Clone, Default)]
pub struct Startup(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Startup {
    /// It waits for this store.
    pub fn waits_for(&self, store: &'static str, why: String) {
        self.lock().insert(store, why);
    }

    /// This store is there.
    pub fn has(&self, store: &'static str) {
        self.lock().remove(store);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, String>> {
        // Nothing under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers the probes and `/status` on `listener` until the service itself takes over.
///
/// # Errors
/// When the listener cannot be used.
pub fn starting(startup: Startup, mode: &'static str, listener: TcpListener) -> io::Result<Server> {
    let server = HttpServer::new(move || {
        let (startup, readyz) = (startup.clone(), startup.clone());
        App::new()
            .route("/livez", web::get().to(livez))
            .route("/readyz", web::get().to(move || not_ready(readyz.clone())))
            .route("/status", web::get().to(move || status(startup.clone(), mode)))
            .default_service(web::to(async || {
                Problem::unavailable("the service is starting").error_response()
            }))
    })
    .workers(1)
    .client_request_timeout(Duration::from_secs(10))
    .disable_signals()
    .listen(listener)?;
    Ok(server.run())
}

async fn not_ready(startup: Startup) -> Result<HttpResponse, Problem> {
    let waits: Vec<_> = startup.lock().keys().copied().collect();
    Err(Problem::unavailable(match waits.as_slice() {
        [] => "not started yet".to_owned(),
        stores => format!("not started yet: waits for {}", stores.join(", ")),
    }))
}

async fn status(startup: Startup, mode: &'static str) -> HttpResponse {
    let waits = startup.lock().clone();
    let stores: Vec<_> =
        waits.iter().map(|(store, why)| json!({ "name": store, "healthy": false, "error": why })).collect();
    HttpResponse::ServiceUnavailable().json(json!({
        "status": if stores.is_empty() { "not started yet" } else { "a store is down" },
        "version": env!("CARGO_PKG_VERSION"),
        "mode": mode,
        "stores": stores,
    }))
}
