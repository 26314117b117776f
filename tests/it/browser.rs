//! The dashboard in a real browser (`tests/browser`), on a running service.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::kit::events::Document;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::Service;

const TOKEN: &str = "open-sesame";

/// The browser's side: it tells what it wants of the world, a word a line, and waits until it has it.
struct Browser {
    child: Child,
    input: ChildStdin,
    wishes: UnboundedReceiver<String>,
}

impl Browser {
    fn start(url: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser");
        let installed = Command::new(format!("{folder}/install")).status().unwrap();
        assert!(installed.success(), "tests/browser/install needs node and npm");
        assert!(
            Path::new("/usr/bin/chromium").exists(),
            "the tests of the dashboard need the package chromium"
        );
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "node", &format!("{folder}/dashboard.js"), url, TOKEN])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, wishes) = unbounded_channel();
        // Waiting for the browser must not stop the receivers, which live on the test's thread.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, input, wishes }
    }

    fn fulfilled(&mut self) {
        writeln!(self.input, "done").unwrap();
    }
}

#[actix_web::test]
async fn an_operator_watches_and_acts_in_a_browser() {
    let mut service = Service::shared()
        .env("DISPATCHER_ADMIN_TOKEN", TOKEN)
        .env("DISPATCHER_CANARY_INTERVAL", "1s")
        .start()
        .await;
    let is_up = Arc::new(AtomicBool::new(true));
    let mood = is_up.clone();
    let receiver = Receiver::start(move |arrival| match arrival.change.as_ref() {
        Some(change) if change.id == Document::new(13, &[]).id() => Answer::Text(422, "unlucky".to_owned()),
        _ if mood.load(Ordering::SeqCst) => Answer::Text(200, String::new()),
        _ => Answer::Text(503, "<img src=x onerror=alert(1)>".to_owned()),
    });
    let admin = service.api().with_token(TOKEN);
    admin.put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    admin.put_client("<b>bold</b>", json!({ "webhook": receiver.hook("bold") })).await;
    let mut documents: Vec<_> =
        (0..4).map(|number| Document::new(number, &["acme", "<b>bold</b>"])).collect();
    let mut browser = Browser::start(service.api().url());
    while let Some(wish) = browser.wishes.recv().await {
        match wish.as_str() {
            "up" | "down" => is_up.store(wish == "up", Ordering::SeqCst),
            "changes" => {
                let changes: Vec<_> = documents.iter_mut().map(Document::change).collect();
                admin.send(&changes).await;
            }
            "kill" => service.kill(),
            "start" => service.start_again().await,
            "many clients" => {
                for number in 0..120 {
                    let id = format!("many-{number:03}");
                    admin.put_client(&id, json!({ "webhook": receiver.hook(&id) })).await;
                }
            }
            said => println!("browser: {said}"),
        }
        browser.fulfilled();
    }
    let ended = browser.child.wait().unwrap();
    assert!(ended.success(), "the browser's part failed: {ended}");
}
