//! `GET /v1/stream`: what happens, as it happens, as server-sent events.
//!
//! | event | each second | data |
//! |---|---|---|
//! | `snapshot` | always | `service` and `overview`, as in `GET /v1/dashboard` |
//! | `clients` | when some of those changed that were asked for | `changed`, `gone` |
//! | `stopping` | once | the service stops; the stream ends |
//!
//! A snapshot is written once for all who watch. One that cannot take it in time misses some, and gets what is newest: nothing waits in memory
//! for anybody.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use url::form_urlencoded;
use utoipa::IntoParams;

use super::service;
use crate::actors::dashboard::{ClientView, Snapshot};
use crate::web::Shared;
use crate::web::problem::Problem;

/// Who may watch at a time.
const MOST_STREAMS: usize = 32;
/// Clients that one stream tells of: what is on a screen.
const MOST_CLIENTS: usize = 100;
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
    event: Bytes,
}

/// A client of which one who watches is told when it changes.
struct Watched {
    id: String,
    /// As it was told last.
    told: Option<Arc<ClientView>>,
}

/// One who watches; counted while it lives.
struct Watcher {
    shared: web::Data<Shared>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    clients: Vec<Watched>,
    has_begun: bool,
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

    /// The event of a snapshot.
    fn write(&self, shared: &Shared, snapshot: &Snapshot) -> Bytes {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.number != snapshot.number || written.event.is_empty() {
            let data = json!({
                "number": snapshot.number,
                "service": service(shared, &snapshot.overview),
                "overview": snapshot.overview,
            });
            *written = Written { number: snapshot.number, event: event("snapshot", &data).into() };
        }
        written.event.clone()
    }
}

fn event(name: &str, data: &serde_json::Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// What is new of those that one watches; nothing when nothing is.
fn news(clients: &mut [Watched], snapshot: &Snapshot) -> String {
    let (mut changed, mut gone) = (Vec::new(), Vec::new());
    for client in clients {
        let now = snapshot.client(&client.id);
        match (&client.told, now) {
            (Some(told), Some(now)) if Arc::ptr_eq(told, now) => continue,
            (None, None) => continue,
            (_, Some(now)) => changed.push(now),
            (Some(_), None) => gone.push(&client.id),
        }
        client.told = now.cloned();
    }
    match changed.is_empty() && gone.is_empty() {
        true => String::new(),
        false => event("clients", &json!({ "changed": changed, "gone": gone })),
    }
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "for the document: the same name many times is no query that serde reads")]
struct Asked {
    /// Clients of which to tell when they change.
    #[param(style = Form, explode, max_items = 100, required = false)]
    client: Vec<String>,
}

/// The clients that a query names.
fn watched(query: &str) -> Result<Vec<Watched>, Problem> {
    let mut clients = Vec::new();
    for (name, id) in form_urlencoded::parse(query.as_bytes()) {
        if name != "client" {
            return Err(Problem::bad_request(format!("query: unknown field `{name}`, expected `client`")));
        }
        clients.push(Watched { id: id.into_owned(), told: None });
    }
    if clients.len() > MOST_CLIENTS {
        return Err(Problem::bad_request(format!("query: client: at most {MOST_CLIENTS}")));
    }
    Ok(clients)
}

/// The dashboard as it changes, as server-sent events: `snapshot`, `clients`, `stopping`
#[utoipa::path(get, path = "/v1/stream", params(Asked), responses(
    (status = 200, body = String, content_type = "text/event-stream", description = "It goes on until one side ends it"),
))]
pub(in crate::web) async fn watch(
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Problem> {
    let clients = watched(request.query_string())?;
    let Some(place) = shared.streams.place() else {
        return Err(Problem::unavailable(format!("{MOST_STREAMS} streams are open: no more are served")));
    };
    let mut snapshots = shared.service.dashboard.watch();
    // The first event comes at once.
    snapshots.mark_changed();
    let until = Instant::now() + LIFE;
    let watcher =
        Watcher { shared, snapshots, clients, has_begun: false, until, ended: false, _place: place };
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
                return Some(event("stopping", &json!({})).into());
            }
            () = sleep_until(self.until) => return None,
            changed = self.snapshots.changed() => changed.ok()?,
            () = sleep(HEARTBEAT) => return Some(Bytes::from_static(b": still here\n\n")),
        }
        let snapshot = self.snapshots.borrow_and_update().clone();
        let overview = self.shared.streams.write(&self.shared, &snapshot);
        let clients = news(&mut self.clients, &snapshot);
        let retry: &[u8] = if self.has_begun { b"" } else { b"retry: 1000\n" };
        self.has_begun = true;
        Some([retry, overview.as_ref(), clients.as_bytes()].concat().into())
    }
}
