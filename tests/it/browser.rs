//! The dashboard in a real browser (`tests/browser`), on a running service.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::kit::api::Api;
use crate::kit::events::Document;
use crate::kit::receiver::{Answer, Receiver};
use crate::kit::service::Service;

const TOKEN: &str = "open-sesame";
/// As in `tests/browser/page.js`.
const VIEWER: &str = "look-only";
const LONG: Duration = Duration::from_secs(60);

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

/// How the webhooks of two clients are.
#[derive(Clone, Copy)]
enum Webhook {
    Up,
    Slow,
    Down,
}

/// What the browser wishes for happens here.
struct World {
    service: Service,
    admin: Api,
    receiver: Receiver,
    webhook: Arc<Mutex<Webhook>>,
    documents: Vec<Document>,
    sent: u64,
}

impl World {
    async fn start(settings: &Path) -> Self {
        let service = Service::shared()
            .env("DISPATCHER_ADMIN_TOKEN", TOKEN)
            .env("DISPATCHER_CONFIG", &settings.display().to_string())
            .env("DISPATCHER_CANARY_INTERVAL", "1s")
            // The same request kills its actor twice (the second fault does not see it the first time), so that it is given up.
            .env("DISPATCHER_FAULT", "panic=frail:3 panic=frail:3 freeze=icy:2 spin8s=dizzy:2")
            .start()
            .await;
        let webhook = Arc::new(Mutex::new(Webhook::Up));
        let mood = webhook.clone();
        let receiver = Receiver::start(move |arrival| {
            let concerned = matches!(arrival.client.as_str(), "acme" | "<b>bold</b>");
            match *mood.lock().unwrap() {
                Webhook::Down if concerned => Answer::Text(503, "<img src=x onerror=alert(1)>".to_owned()),
                Webhook::Slow if concerned => Answer::Late(Duration::from_millis(100), 200),
                _ => Answer::Status(200),
            }
        });
        let admin = service.api().with_token(TOKEN);
        for client in ["acme", "<b>bold</b>", "frail", "icy", "dizzy"] {
            admin.put_client(client, json!({ "webhook": receiver.hook(client) })).await;
        }
        let documents = (0..4).map(|number| Document::new(number, &["acme", "<b>bold</b>"])).collect();
        Self { service, admin, receiver, webhook, documents, sent: 0 }
    }

    async fn change(&mut self, times: usize, clients: &[&str]) {
        self.sent += 1;
        let mut document = Document::new(1_000 + self.sent, clients);
        let changes: Vec<_> = (0..times).map(|_| document.change()).collect();
        self.admin.send(&changes).await;
    }

    async fn fulfil(&mut self, wish: &str) {
        match wish {
            "up" => *self.webhook.lock().unwrap() = Webhook::Up,
            "slow" => *self.webhook.lock().unwrap() = Webhook::Slow,
            "down" => *self.webhook.lock().unwrap() = Webhook::Down,
            "changes" => {
                let changes: Vec<_> = self.documents.iter_mut().map(Document::change).collect();
                self.admin.send(&changes).await;
            }
            "many changes for acme" => self.change(400, &["acme"]).await,
            "break frail" => self.change(3, &["frail"]).await,
            "break icy" => self.change(3, &["icy"]).await,
            "break dizzy" => self.change(3, &["dizzy"]).await,
            "the replayed one has arrived" => {
                self.receiver.ledger().wait_for_client("frail", 3, LONG).await;
            }
            "kill" => self.service.kill(),
            "start" => self.service.start_again().await,
            "hostile clients" => {
                for client in ["<img src=x onerror=alert(1)>", "safe\u{202e}exe.live", &"x".repeat(512)] {
                    self.admin.put_client(client, json!({ "webhook": self.receiver.hook("any") })).await;
                }
            }
            "many clients" => {
                let config = json!({ "webhook": self.receiver.hook("any") });
                let numbers = futures_util::stream::iter(0..many_clients());
                let put = async |number| self.admin.put_client(&many(number), config.clone()).await;
                numbers.for_each_concurrent(16, put).await;
            }
            "changes for many" => {
                // Others are the busiest each time.
                let first = usize::try_from(self.sent).unwrap() * 37 % (many_clients() - 60);
                let clients: Vec<_> = (first..first + 60).map(many).collect();
                let clients: Vec<_> = clients.iter().map(String::as_str).collect();
                self.change(4, &clients).await;
            }
            said => println!("browser: {said}"),
        }
    }
}

fn many(number: usize) -> String {
    format!("many-{number:04}")
}

/// How many clients "very many" are. By hand it may be more than is made in the time of a test.
fn many_clients() -> usize {
    std::env::var("DISPATCHER_BROWSER_CLIENTS").map_or(500, |text| text.parse().unwrap())
}

#[actix_web::test]
async fn an_operator_watches_and_acts_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("dispatcher.toml");
    let hash = data_encoding::HEXLOWER.encode(&Sha256::digest(VIEWER));
    let token = format!("[[api.tokens]]\nname = \"wall\"\nrole = \"viewer\"\nsha256 = \"{hash}\"\n");
    std::fs::write(&settings, token).unwrap();
    let mut world = World::start(&settings).await;
    let mut browser = Browser::start(world.service.api().url());
    while let Some(wish) = browser.wishes.recv().await {
        world.fulfil(&wish).await;
        browser.fulfilled();
    }
    let ended = browser.child.wait().unwrap();
    assert!(ended.success(), "the browser's part failed: {ended}");
}
