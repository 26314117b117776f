//! The built binary as a process of its own, on a data folder of its own.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::api::Api;
use super::turn::Turn;
use super::wait::{eventually, holds};

/// The binary under test: the one that was built with the tests, or what `DISPATCHER_TEST_BINARY` names (a release build, to be measured).
pub(crate) fn binary() -> PathBuf {
    let named = std::env::var_os("DISPATCHER_TEST_BINARY");
    named.map_or_else(|| env!("CARGO_BIN_EXE_dispatcher").into(), PathBuf::from)
}

/// How a service is started.
pub(crate) struct Builder {
    turn: Turn,
    environment: Vec<(String, String)>,
    data: Option<PathBuf>,
}

/// A running service; killed when it is dropped. The log of a failed test is printed and kept.
pub(crate) struct Service {
    child: Child,
    api: Api,
    environment: Vec<(String, String)>,
    log: PathBuf,
    folder: Option<TempDir>,
    #[expect(dead_code, reason = "held until the process has ended")]
    turn: Turn,
}

impl Builder {
    /// Sets an environment variable of the service.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps the data in this folder, which the test owns.
    pub(crate) fn data(mut self, folder: &Path) -> Self {
        self.data = Some(folder.to_owned());
        self
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn start(self) -> Service {
        let mut service = self.launch();
        service.wait_until_ready().await;
        service
    }

    /// Starts it.
    pub(crate) fn launch(self) -> Service {
        let folder = tempfile::Builder::new().prefix("dispatcher-it-").tempdir().unwrap();
        let log = folder.path().join("service.log");
        let data = self.data.unwrap_or_else(|| folder.path().join("data"));
        let port = free_port();
        let mut environment = vec![
            ("DISPATCHER_DATA_DIR".to_owned(), data.display().to_string()),
            ("DISPATCHER_API_PORT".to_owned(), port.to_string()),
            ("DISPATCHER_EGRESS_ALLOW".to_owned(), "127.0.0.0/8".to_owned()),
            ("DISPATCHER_RETRY_BASE".to_owned(), "200ms".to_owned()),
        ];
        environment.extend(self.environment);
        let api = Api::at(&format!("http://127.0.0.1:{port}"));
        let child = spawn(&environment, &log);
        Service { child, api, environment, log, folder: Some(folder), turn: self.turn }
    }
}

impl Service {
    /// A service that runs beside those of other tests.
    pub(crate) fn shared() -> Builder {
        Builder { turn: Turn::shared(), environment: vec![], data: None }
    }

    /// A service that runs when no other does: for tests that measure, or load the machine.
    pub(crate) fn alone() -> Builder {
        Builder { turn: Turn::alone(), environment: vec![], data: None }
    }

    /// A service in a turn that the test has: several replicas run in one.
    pub(crate) fn within(turn: &Turn) -> Builder {
        Builder { turn: turn.clone(), environment: vec![], data: None }
    }

    /// Its HTTP API.
    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// How the process has ended; `None`: it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.ended().is_some()
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM: asks it to stop.
    pub(crate) fn terminate(&self) {
        send_signal("-TERM", self.pid());
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn wait_for_exit(&mut self, within: Duration) -> ExitStatus {
        eventually("the end of the process", within, async || {
            self.ended().ok_or_else(|| "it still runs".to_owned())
        })
        .await
    }

    /// Starts it again on the same data and port, after its process has ended.
    pub(crate) async fn start_again(&mut self) {
        assert!(self.has_ended(), "the process still runs");
        self.child = spawn(&self.environment, &self.log);
        self.wait_until_ready().await;
    }

    /// Starts it again where it must end by itself, and waits for that.
    pub(crate) async fn start_and_end(&mut self, within: Duration) -> ExitStatus {
        assert!(self.has_ended(), "the process still runs");
        self.child = spawn(&self.environment, &self.log);
        self.wait_for_exit(within).await
    }

    /// Waits until it is ready; its process must not end.
    pub(crate) async fn wait_until_ready(&mut self) {
        eventually("a ready service", Duration::from_secs(30), async || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the service ended at its start: {ended:?}\n{}", tail(&self.log));
            let status = self.api.get("/readyz").await?.status;
            holds(status == 200, || format!("/readyz answers {status}"))
        })
        .await;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // A process that has ended already is no error here.
        let _ended_before = self.child.kill();
        let _reaped_before = self.child.wait();
        if std::thread::panicking()
            && let Some(folder) = self.folder.take()
        {
            eprintln!("--- the end of {} ---\n{}", self.log.display(), tail(&self.log));
            let kept = folder.keep();
            eprintln!("--- kept: {} ---", kept.display());
        }
    }
}

/// Sends a signal to a process that a test has started.
pub(crate) fn send_signal(signal: &str, pid: u32) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill {signal} {pid}: {status}");
}

/// A command of the binary, with a clean environment: what the machine sets for others does not matter here.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Runs a command of the binary to its end.
pub(crate) fn run(arguments: &[&str], input: Option<&str>) -> Output {
    let mut child = command(arguments)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let writer = child.stdin.take().zip(input.map(str::to_owned)).map(|(mut stdin, input)| {
        // Beside the reading, or a long answer would block both.
        std::thread::spawn(move || stdin.write_all(input.as_bytes()))
    });
    let output = child.wait_with_output().unwrap();
    if let Some(writer) = writer {
        writer.join().unwrap().expect("the command reads its input");
    }
    output
}

/// What a command has written.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A port that stays free until it is listened on: below those that systems give to outgoing connections, another one at each
/// call, and in another region for another process of these tests.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(97);
    loop {
        let number = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + (number % 12_000) as u16;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn spawn(environment: &[(String, String)], log: &Path) -> Child {
    let log: File = OpenOptions::new().create(true).append(true).open(log).unwrap();
    command(&["run"])
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn tail(log: &Path) -> String {
    const LINES: usize = 60;
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
