//! The webhooks of the demo.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpResponse, HttpServer, web};

/// The flaky one works and fails in turn, for these times.
const WORKS: Duration = Duration::from_secs(12);
const FAILS: Duration = Duration::from_secs(5);

/// What a webhook answered.
#[derive(Default)]
pub(super) struct Answers {
    taken: AtomicU64,
    refused: AtomicU64,
}

impl Answers {
    /// With 200.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// With 503.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// A healthy and a flaky webhook, and an address where nobody listens.
pub(super) struct Receivers {
    address: SocketAddr,
    /// Held so that nobody else gets it, and never listened on: whoever connects is refused.
    dead: SocketAddr,
    healthy: Arc<Answers>,
    flaky: Arc<Answers>,
    server: ServerHandle,
}

impl Receivers {
    /// Listens on free ports of the loopback address.
    pub(super) fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let dead = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let (healthy, flaky) = (Arc::new(Answers::default()), Arc::new(Answers::default()));
        let started = Instant::now();
        let (on_healthy, on_flaky) = (healthy.clone(), flaky.clone());
        let server = HttpServer::new(move || {
            let (healthy, flaky) = (on_healthy.clone(), on_flaky.clone());
            App::new()
                .route("/healthy", web::post().to(move || answer(healthy.clone(), true)))
                .route("/flaky", web::post().to(move || answer(flaky.clone(), works(started.elapsed()))))
        })
        .workers(1)
        .disable_signals()
        .listen(listener)?
        .run();
        let handle = server.handle();
        actix_rt::spawn(server);
        Ok(Self { address, dead, healthy, flaky, server: handle })
    }

    /// The webhook of a client.
    pub(super) fn url(&self, client: &str) -> String {
        let address = if client == "dead" { self.dead } else { self.address };
        format!("http://{address}/{client}")
    }

    /// What a client's webhook answered; nothing at all, if it is the dead one.
    pub(super) fn answers(&self, client: &str) -> Option<&Answers> {
        match client {
            "healthy" => Some(&self.healthy),
            "flaky" => Some(&self.flaky),
            _ => None,
        }
    }

    /// Closes them.
    pub(super) async fn stop(&self) {
        self.server.stop(true).await;
    }
}

async fn answer(answers: Arc<Answers>, works: bool) -> HttpResponse {
    if works {
        answers.taken.fetch_add(1, Ordering::Relaxed);
        HttpResponse::Ok().finish()
    } else {
        answers.refused.fetch_add(1, Ordering::Relaxed);
        HttpResponse::ServiceUnavailable().finish()
    }
}

fn works(since_start: Duration) -> bool {
    let period = (WORKS + FAILS).as_millis();
    since_start.as_millis() % period < WORKS.as_millis()
}
