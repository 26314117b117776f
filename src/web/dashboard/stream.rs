//! `GET /v1/stream`: what happens, as it happens, as server-sent events.
//!
//! | event | each second | data |
//! |---|---|---|
//! | `snapshot` | always | `service` and `overview`, as in `GET /v1/dashboard` |
//! | `clients` | when some changed | `changed`, `gone`; `more`: there are more than fit, or some were missed: read the list again |
//! | `stopping` | once | the service stops; the stream ends |
//!
//! An event is written once for all who watch. One that cannot take it in time misses some, and is told: nothing waits in memory for anybody.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_web::{HttpResponse, web};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::service;
use crate::actors::dashboard::Snapshot;
use crate::web::Shared;
use crate::web::problem::Problem;

/// Who may watch at a time.
const MOST_STREAMS: usize = 32;
/// Clients in one event.
const MOST_CHANGED: usize = 250;
/// A stream says that it lives, when there is nothing else to say.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A stream ends after this time, so that whoever watches shows again that he may.
const LIFE: Duration = Duration::from_secs(3600);

/// All streams.
#[derive(Default)]
pub(in crate::web) struct Streams {
    open: Arc<AtomicUsize>,
    written: Mutex<Written>,
}

/// The last snapshot, written.
#[derive(Default)]
struct Written {
    number: u64,
    overview: Bytes,
    clients: Bytes,
}

/// One who watches; counted while it lives.
struct Watcher {
    shared: web::Data<Shared>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    seen: u64,
    until: Instant,
    ended: bool,
    _place: Place,
}

struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Streams {
    /// How many there are.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn place(&self) -> Option<Place> {
        let taken = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < MOST_STREAMS).then_some(open + 1)
        });
        taken.ok().map(|_| Place(self.open.clone()))
    }

    /// The events of a snapshot for one who saw the one before it.
    fn write(&self, shared: &Shared, snapshot: &Snapshot) -> (Bytes, Bytes) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.number != snapshot.number || written.overview.is_empty() {
            *written = Written {
                number: snapshot.number,
                overview: event(
                    "snapshot",
                    &json!({
                        "number": snapshot.number,
                        "service": service(shared, &snapshot.overview),
                        "overview": snapshot.overview,
                    }),
                ),
                clients: clients(snapshot),
            };
        }
        (written.overview.clone(), written.clients.clone())
    }
}

fn event(name: &str, data: &serde_json::Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

fn clients(snapshot: &Snapshot) -> Bytes {
    let Snapshot { changed, gone, .. } = snapshot;
    if changed.is_empty() && gone.is_empty() {
        return Bytes::new();
    }
    let more = changed.len() > MOST_CHANGED || gone.len() > MOST_CHANGED;
    let (changed, gone) =
        (&changed[..changed.len().min(MOST_CHANGED)], &gone[..gone.len().min(MOST_CHANGED)]);
    event("clients", &json!({ "changed": changed, "gone": gone, "more": more }))
}

/// The dashboard as it changes, as server-sent events: `snapshot`, `clients`, `stopping`
#[utoipa::path(get, path = "/v1/stream", responses(
    (status = 200, body = String, content_type = "text/event-stream", description = "It goes on until one side ends it"),
))]
pub(in crate::web) async fn watch(shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let Some(place) = shared.streams.place() else {
        return Err(Problem::unavailable(format!("{MOST_STREAMS} streams are open: no more are served")));
    };
    let mut snapshots = shared.service.dashboard.watch();
    // The first event comes at once.
    snapshots.mark_changed();
    let until = Instant::now() + LIFE;
    let watcher = Watcher { shared, snapshots, seen: 0, until, ended: false, _place: place };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((Ok::<_, actix_web::Error>(event), watcher))
    });
    Ok(HttpResponse::Ok()
        .content_type("text/event-stream")
        // Proxies that buffer would make it late.
        .insert_header(("x-accel-buffering", "no"))
        .streaming(events))
}

impl Watcher {
    /// `None`: the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        tokio::select! {
            biased;
            () = self.shared.service.dashboard.stopping() => {
                self.ended = true;
                return Some(event("stopping", &json!({})));
            }
            () = sleep_until(self.until) => return None,
            changed = self.snapshots.changed() => changed.ok()?,
            () = sleep(HEARTBEAT) => return Some(Bytes::from_static(b": still here\n\n")),
        }
        let snapshot = self.snapshots.borrow_and_update().clone();
        let (overview, mut clients) = self.shared.streams.write(&self.shared, &snapshot);
        let mut events = Vec::with_capacity(overview.len() + clients.len() + 32);
        if self.seen == 0 {
            events.extend_from_slice(b"retry: 1000\n");
        }
        if self.seen + 1 != snapshot.number {
            clients = event("clients", &json!({ "changed": [], "gone": [], "more": true }));
        }
        self.seen = snapshot.number;
        events.extend_from_slice(&overview);
        events.extend_from_slice(&clients);
        Some(events.into())
    }
}
