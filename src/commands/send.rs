//! `dispatcher send`: hands a file of change events to a running service, in order.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use actix_web::http::StatusCode;
use anyhow::Context;
use bytes::{BufMut, Bytes, BytesMut};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::api::{Api, ApiError, ApiOptions};
use super::output;
use super::records::Records;
use crate::settings::Environment;

/// Records of one request.
const CHUNK_RECORDS: usize = 500;
/// Bytes of one request; a larger record is a request of its own.
const CHUNK_BYTES: usize = 8 << 20;
/// How long a service that is unavailable is asked again.
const PATIENCE: Duration = Duration::from_secs(120);
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Options of `send`.
#[derive(Debug, Args)]
#[command(after_help = "\
A record is {\"topic\", \"key\", \"value\", \"headers\"} with key and value as the strings that Kafka would hold, or a bare
Debezium value. The file is a JSON array, JSON lines, or one record. Records are taken in order, request by request:
when a request fails, the records before it were taken.

Examples:
  dispatcher send events.json
  zcat events.jsonl.gz | dispatcher send -
  dispatcher send --topic mongo.wnx-identity.users values.jsonl")]
pub(super) struct SendOptions {
    /// The file; `-` reads standard input
    file: PathBuf,
    /// The topic of bare values that do not say where they belong
    #[arg(long)]
    topic: Option<String>,
    #[command(flatten)]
    api: ApiOptions,
}

/// Sends all records; says how many were accepted, also when not all were.
pub(super) async fn run(options: SendOptions, environment: &Environment) -> anyhow::Result<()> {
    let api = options.api.open(environment)?;
    let (input, length) = open(&options.file)?;
    let path = match &options.topic {
        Some(topic) => {
            let query =
                url::form_urlencoded::Serializer::new(String::new()).append_pair("topic", topic).finish();
            format!("/v1/events?{query}")
        }
        None => "/v1/events".to_owned(),
    };
    let bar = progress(length);
    let mut records = Records::new(input);
    let mut accepted = 0;
    let outcome = send_all(&api, &path, &mut records, &bar, &mut accepted).await;
    bar.finish_and_clear();
    outcome.with_context(|| format!("stopped, accepted {}", output::counted(accepted, "record")))?;
    output::note(&format!("accepted {}", output::counted(accepted, "record")));
    Ok(())
}

fn open(path: &Path) -> anyhow::Result<(Box<dyn BufRead>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(BufReader::new(io::stdin())), None));
    }
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(cannot)?;
    let length = file.metadata().with_context(cannot)?.len();
    Ok((Box::new(BufReader::new(file)), Some(length)))
}

/// A bar on a terminal; nothing elsewhere.
fn progress(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{bar:40} {bytes}/{total_bytes} {msg} {eta}"),
        None => (ProgressBar::no_length(), "{spinner} {bytes} {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

async fn send_all(
    api: &Api,
    path: &str,
    records: &mut Records<Box<dyn BufRead>>,
    bar: &ProgressBar,
    accepted: &mut u64,
) -> anyhow::Result<()> {
    let mut left_over = None;
    loop {
        let mut chunk = BytesMut::from(&b"["[..]);
        let mut count = 0;
        let mut fault = None;
        while count < CHUNK_RECORDS {
            let record = match left_over.take() {
                Some(record) => record,
                None => match records.next() {
                    Some(Ok(record)) => record,
                    Some(Err(err)) => {
                        fault = Some(err);
                        break;
                    }
                    None => break,
                },
            };
            if count > 0 && chunk.len() + record.len() > CHUNK_BYTES {
                left_over = Some(record);
                break;
            }
            if count > 0 {
                chunk.put_u8(b',');
            }
            chunk.extend_from_slice(&record);
            count += 1;
        }
        if count > 0 {
            chunk.put_u8(b']');
            send_chunk(api, path, chunk.freeze(), *accepted).await?;
            *accepted += count as u64;
            bar.set_position(records.bytes);
            bar.set_message(format!("{accepted} records"));
        }
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        if count == 0 {
            return Ok(());
        }
    }
}

/// Sends one request until it is taken. While it is not, no later one is sent: that keeps the order.
async fn send_chunk(api: &Api, path: &str, chunk: Bytes, sent_before: u64) -> anyhow::Result<()> {
    let started = tokio::time::Instant::now();
    let mut wait = FIRST_WAIT;
    loop {
        match api.post(path, chunk.clone()).await {
            Ok(_) => return Ok(()),
            Err(ApiError::Refused { status: StatusCode::SERVICE_UNAVAILABLE, retry_after, .. })
                if started.elapsed() < PATIENCE =>
            {
                let asked = retry_after.unwrap_or_default().min(LONGEST_WAIT);
                tokio::time::sleep(wait.max(asked)).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            Err(ApiError::Refused { problem, detail, .. }) if problem["index"].is_u64() => {
                let number = sent_before + problem["index"].as_u64().unwrap_or_default() + 1;
                anyhow::bail!("record {number} is broken: {detail}");
            }
            Err(err) => return Err(err.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use actix_web::http::header;
    use actix_web::{App, HttpResponse, HttpServer, web};

    use super::*;

    /// What a service was sent, and what it answers: the statuses in order, then 202.
    #[derive(Default)]
    struct Service {
        answers: Mutex<Vec<HttpAnswer>>,
        bodies: Mutex<Vec<Vec<serde_json::Value>>>,
    }

    struct HttpAnswer(u16, &'static str);

    async fn take(service: web::Data<Service>, body: Bytes) -> HttpResponse {
        service.bodies.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
        let next = service.answers.lock().unwrap().pop().unwrap_or(HttpAnswer(202, "{}"));
        HttpResponse::build(next.0.try_into().unwrap()).insert_header((header::RETRY_AFTER, "0")).body(next.1)
    }

    /// Sends a file to a service that gives these answers first. What it was sent, and what came of it.
    async fn sent(file: &str, mut answers: Vec<HttpAnswer>) -> (Arc<Service>, u64, Result<(), String>) {
        answers.reverse();
        let service = web::Data::new(Service { answers: Mutex::new(answers), ..Service::default() });
        let served = service.clone();
        let server = HttpServer::new(move || {
            App::new()
                .app_data(served.clone())
                .app_data(web::PayloadConfig::new(32 << 20))
                .route("/v1/events", web::post().to(take))
        })
        .workers(1)
        .disable_signals()
        .bind("127.0.0.1:0")
        .unwrap();
        let url = format!("http://{}", server.addrs()[0]).parse().unwrap();
        let running = server.run();
        let handle = running.handle();
        actix_rt::spawn(running);
        let api = Api::open(&url, None, &Environment::new()).unwrap();
        let input: Box<dyn BufRead> = Box::new(io::Cursor::new(file.to_owned()));
        let mut accepted = 0;
        let bar = ProgressBar::hidden();
        let outcome = send_all(&api, "/v1/events", &mut Records::new(input), &bar, &mut accepted).await;
        handle.stop(false).await;
        (service.into_inner(), accepted, outcome.map_err(|err| err.to_string()))
    }

    fn numbers(service: &Service) -> Vec<usize> {
        service.bodies.lock().unwrap().iter().map(Vec::len).collect()
    }

    #[actix_web::test]
    async fn records_go_out_in_order_in_requests_of_500() {
        let file: String = (0..1201).map(|number| format!("{{\"n\":{number}}}\n")).collect();
        let (service, accepted, outcome) = sent(&file, vec![]).await;
        assert_eq!((accepted, outcome), (1201, Ok(())));
        assert_eq!(numbers(&service), [500, 500, 201]);
        let bodies = service.bodies.lock().unwrap();
        assert!(bodies.iter().flatten().map(|record| &record["n"]).eq((0..1201).collect::<Vec<_>>().iter()));
    }

    #[actix_web::test]
    async fn requests_stay_below_8_mib_but_for_a_larger_record() {
        let record = |mib: usize| format!("\"{}\"\n", "x".repeat((mib << 20) - 2));
        let file = [record(3), record(3), record(3), record(10), record(1)].concat();
        let (service, accepted, outcome) = sent(&file, vec![]).await;
        assert_eq!((accepted, outcome), (5, Ok(())));
        assert_eq!(numbers(&service), [2, 1, 1, 1]);
    }

    #[actix_web::test]
    async fn an_unavailable_service_is_asked_again_before_anything_newer_is_sent() {
        let file = "{\"n\":0}{\"n\":1}";
        let (service, accepted, outcome) =
            sent(file, vec![HttpAnswer(503, ""), HttpAnswer(503, r#"{"detail":"full"}"#)]).await;
        assert_eq!((accepted, outcome), (2, Ok(())));
        let bodies = service.bodies.lock().unwrap();
        assert_eq!(bodies.len(), 3);
        assert!(bodies.iter().all(|body| *body == bodies[0]));
    }

    #[actix_web::test]
    async fn a_broken_record_is_named_by_its_place_in_the_file() {
        let file = "{}".repeat(600);
        let answers = vec![HttpAnswer(202, "{}"), HttpAnswer(400, r#"{"detail":"no topic","index":7}"#)];
        let (_, accepted, outcome) = sent(&file, answers).await;
        assert_eq!((accepted, outcome), (500, Err("record 508 is broken: no topic".to_owned())));
    }

    #[actix_web::test]
    async fn what_comes_before_a_cut_off_record_is_sent() {
        let (service, accepted, outcome) = sent("{}{}{", vec![]).await;
        assert_eq!((accepted, numbers(&service)), (2, vec![2]));
        assert_eq!(outcome, Err("the input ends in the middle of a record".to_owned()));
    }

    #[actix_web::test]
    async fn other_refusals_end_it() {
        let (_, accepted, outcome) = sent("{}", vec![HttpAnswer(401, r#"{"detail":"no token"}"#)]).await;
        assert_eq!((accepted, outcome), (0, Err("no token (status 401 Unauthorized)".to_owned())));
    }
}
