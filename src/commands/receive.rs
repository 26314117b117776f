//! `dispatcher receive`: a webhook for developers. It prints what arrives, checks signatures and order, and fails on
//! request.

mod ledger;
mod plan;
mod report;
mod signature;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::net::TcpListener;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use anyhow::Context as _;

use self::ledger::Ledger;
use self::plan::{AnswerPlan, Failures};
use self::report::Webhook;
use crate::domain::config::Secret;

/// Above the largest body that is ever sent: two images of a 16 MiB record.
const BODY_BYTES: usize = 64 << 20;

/// A webhook for developers: prints what arrives, checks signatures and order, and fails on request
#[derive(Debug, Clone, clap::Args)]
pub struct ReceiveOptions {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,

    /// Port to listen on; 0 takes a free one
    #[arg(long, short, default_value_t = 4011)]
    pub port: u16,

    /// Secret to check signatures with, as in the client's config (whsec_...). Several may be given: one has to fit
    #[arg(long = "secret", value_name = "SECRET", value_parser = signature::parse_secret)]
    pub secrets: Vec<Secret>,

    /// Status to answer with
    #[arg(long, default_value_t = 200, value_parser = plan::parse_status)]
    pub status: u16,

    /// Answer STATUS to the first COUNT webhooks (--fail 500:3). Several are used up one after the other
    #[arg(long = "fail", value_name = "STATUS:COUNT")]
    pub failures: Vec<Failures>,

    /// Answer 500 to every Nth webhook
    #[arg(long, value_name = "N")]
    pub fail_every: Option<NonZeroU64>,

    /// Wait before each answer (300ms, 20s)
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub delay: Duration,

    /// Print bodies too
    #[arg(long)]
    pub show_body: bool,

    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Receives until Ctrl-C, then says what it learned. Prints the address that it listens on first.
///
/// # Errors
/// When it cannot listen there.
pub async fn run(options: ReceiveOptions) -> anyhow::Result<()> {
    let listener = TcpListener::bind((options.host.as_str(), options.port))
        .with_context(|| format!("cannot listen on {}:{}", options.host, options.port))?;
    let address = listener.local_addr()?;
    let receiver = web::Data::new(Receiver::new(options, Box::new(std::io::stdout())));
    let served = receiver.clone();
    let server = HttpServer::new(move || App::new().configure(|config| routes(config, served.clone())))
        .workers(1)
        // Ctrl-C is meant: senders will try again.
        .shutdown_timeout(1)
        .listen(listener)?
        .run();
    receiver.print(&report::listening(address, receiver.options.json));
    server.await?;
    receiver.print(&receiver.summary());
    Ok(())
}

fn routes(config: &mut web::ServiceConfig, receiver: web::Data<Receiver>) {
    config
        .app_data(receiver)
        .app_data(web::PayloadConfig::new(BODY_BYTES))
        .service(web::resource("/{path:.*}").route(web::post().to(receive)));
}

async fn receive(receiver: web::Data<Receiver>, request: HttpRequest, body: web::Bytes) -> HttpResponse {
    let status = receiver.take(&request, &body);
    tokio::time::sleep(receiver.options.delay).await;
    HttpResponse::new(status)
}

/// One receiver: what it was told, what it saw.
struct Receiver {
    options: ReceiveOptions,
    seen: Mutex<(AnswerPlan, Ledger)>,
    out: Mutex<Box<dyn Write + Send>>,
}

impl Receiver {
    fn new(options: ReceiveOptions, out: Box<dyn Write + Send>) -> Self {
        let plan = AnswerPlan::new(options.status, options.failures.clone(), options.fail_every);
        Self { options, seen: Mutex::new((plan, Ledger::default())), out: Mutex::new(out) }
    }

    /// Notes and prints a webhook. Returns the status to answer.
    fn take(&self, request: &HttpRequest, body: &[u8]) -> StatusCode {
        let signature = signature::check(&self.options.secrets, request.headers(), body);
        let mut webhook = Webhook::read(request, body, signature);
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let (plan, ledger) = &mut *seen;
            webhook.status = plan.next_status();
            webhook.arrival = ledger.note(&webhook, body);
        }
        let body = self.options.show_body.then(|| String::from_utf8_lossy(body));
        self.print(&if self.options.json {
            webhook.json(body.as_deref())
        } else {
            webhook.text(body.as_deref())
        });
        StatusCode::from_u16(webhook.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn summary(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let summary = seen.1.summary();
        if self.options.json { report::json_summary(&summary) } else { report::text_summary(&summary) }
    }

    /// A reader that went away (`| head`) is no reason to stop answering.
    fn print(&self, line: &str) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
