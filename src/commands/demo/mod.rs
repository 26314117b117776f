//! `dispatcher demo`: the service at work. Three webhooks (a healthy one, one that fails now and then, a dead one), a
//! steady stream of change events, and a summary; all in a temporary folder that goes when it ends.

mod events;
mod receivers;
mod summary;

use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::events::Events;
use self::receivers::Receivers;
use self::summary::Summary;
use super::api::Api;
use super::output;
use crate::app::{Service, Signals};
use crate::settings::{Environment, Settings, Sources};

/// Options of the demo.
#[derive(Debug, Args)]
pub(super) struct DemoOptions {
    /// Change events a second
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,

    /// End by itself after this time (30s, 5min); else Ctrl-C ends it
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,

    /// The port of the service; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
}

/// The clients of the demo, as they stand in the documents.
const CLIENTS: [&str; 3] = ["healthy", "flaky", "dead"];

/// Runs the demo until it is interrupted.
///
/// # Errors
/// When something of it cannot start.
pub(super) async fn run(options: DemoOptions) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let folder = tempfile::Builder::new().prefix("dispatcher-demo-").tempdir()?;
    let environment = Environment::from_iter(
        [
            ("DISPATCHER_MODE", "embedded".to_owned()),
            ("DISPATCHER_DATA_DIR", folder.path().display().to_string()),
            ("DISPATCHER_API_PORT", options.port.to_string()),
            ("DISPATCHER_EGRESS_ALLOW", "127.0.0.1".to_owned()),
            ("DISPATCHER_RETRY_BASE", "1s".to_owned()),
            ("DISPATCHER_STOP_IN_FLIGHT", "5s".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let settings = Settings::load(&Sources { environment, ..Sources::default() })?;
    let service = Service::start(settings).await?;
    let receivers = Receivers::start()?;
    let api = Api::local(service.address());
    let shown = show(&options, &mut signals, &api, &receivers, service.address()).await;
    service.stop().await;
    receivers.stop().await;
    folder.close()?;
    shown?;
    output::note("The demo is over; its folder is gone.");
    Ok(())
}

/// Sends events and shows what becomes of them, until the time is over or a signal comes.
async fn show(
    options: &DemoOptions,
    signals: &mut Signals,
    api: &Api,
    receivers: &Receivers,
    address: std::net::SocketAddr,
) -> anyhow::Result<()> {
    for client in CLIENTS {
        let value = json!({ "webhook": receivers.url(client), "timeout_ms": 2000 });
        api.put(&format!("/v1/clients/{client}"), &json!({ "status": "ACTIVE", "value": value })).await?;
    }
    output::note(&format!("The service runs at   http://{address}"));
    output::note(&format!("  look at it          http://{address}/dashboard"));
    output::note(&format!("  its state           http://{address}/status"));
    output::note(&format!("  its metrics         http://{address}/metrics"));
    output::note(&format!("  its clients         http://{address}/v1/clients"));
    output::note(&format!("Send it something:    dispatcher send --url http://{address} FILE"));
    output::note(
        "healthy takes everything, flaky fails for 5 of every 17 seconds, where dead should be nobody listens.",
    );
    output::note("Ctrl-C ends it.\n");

    let end = options.duration.map(|duration| Instant::now() + duration);
    let mut events = Events::new(&CLIENTS);
    let mut summary = Summary::default();
    let mut next_event = interval(Duration::from_secs(1) / options.rate);
    let mut next_summary = interval(Duration::from_secs(1));
    for ticks in [&mut next_event, &mut next_summary] {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        tokio::select! {
            _ = signals.next() => break,
            () = until(end) => break,
            _ = next_event.tick() => {
                api.post("/v1/events", events.next().into()).await?;
            }
            _ = next_summary.tick() => {
                let clients = api.get("/v1/clients").await?;
                summary.show(&clients, receivers, events.count())?;
            }
        }
    }
    Ok(())
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
