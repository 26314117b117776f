//! One running service.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::kind::Kind;
use super::{folder, ports, process};

/// For a machine on which much else runs; the slowest, Kafka, takes two seconds.
const START: Duration = Duration::from_secs(90);

/// A service under test. One that was started here ends when this is dropped, or with the process.
pub(crate) struct Service {
    kind: Kind,
    host: String,
    port: u16,
    url: String,
    password: Option<&'static str>,
    here: Option<Here>,
}

/// What a service has that this process has started.
struct Here {
    folder: PathBuf,
    arguments: Vec<u16>,
    child: Mutex<Child>,
}

impl Service {
    /// Where the environment points to, else one that is started here.
    pub(super) fn shared(kind: Kind) -> Result<Self, String> {
        if let Some(url) = std::env::var(kind.variable()).ok().filter(|url| !url.is_empty()) {
            let (host, port) =
                kind.address(&url).ok_or_else(|| format!("{} names no host and port", kind.variable()))?;
            folder::say(&format!("{} at {host}:{port}, by {}", kind.name(), kind.variable()));
            return Ok(Self { kind, host, port, url, password: None, here: None });
        }
        let begin = Instant::now();
        let service = Self::start(kind, &[], None)?;
        folder::say(&format!(
            "{} at 127.0.0.1:{}, ready in {:.1}s",
            kind.name(),
            service.port,
            begin.elapsed().as_secs_f32()
        ));
        Ok(service)
    }

    /// One that a test has for itself.
    pub(super) fn own(kind: Kind, arguments: &[u16], password: Option<&'static str>) -> Self {
        Self::start(kind, arguments, password).unwrap_or_else(|fault| panic!("{fault}"))
    }

    fn start(kind: Kind, more: &[u16], password: Option<&'static str>) -> Result<Self, String> {
        let port = ports::free_port();
        let mut arguments = vec![port];
        if kind == Kind::Kafka {
            arguments.push(ports::free_port());
        }
        arguments.extend(more);
        let folder = folder::of_service(kind.name());
        let child = Mutex::new(spawn(kind, &folder, &arguments, password)?);
        let here = Here { folder, arguments, child };
        let url = kind.url(port, password);
        let service = Self { kind, host: "127.0.0.1".to_owned(), port, url, password, here: Some(here) };
        service.wait_until_it_answers()?;
        Ok(service)
    }

    /// Where it listens.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Where it listens. The same after [`Service::start_again`].
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What a client of it is given: `redis://…`, `postgres://…`, `mongodb://…`; for Kafka `host:port`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        log(&self.here().folder)
    }

    /// kill -9, also of its children. Returns when all are gone; what it had stored stays.
    pub(crate) fn kill(&self) {
        process::kill(&mut self.child());
    }

    /// Starts it on the same port and data after [`Service::kill`]; returns when it answers.
    pub(crate) fn start_again(&self) {
        let here = self.here();
        let mut child = self.child();
        assert!(child.try_wait().unwrap().is_some(), "{} still runs", self.kind.name());
        *child = spawn(self.kind, &here.folder, &here.arguments, self.password).unwrap();
        drop(child);
        if let Err(fault) = self.wait_until_it_answers() {
            panic!("{fault}");
        }
    }

    /// SIGSTOP: it keeps its port and its connections, and does nothing.
    pub(crate) fn freeze(&self) {
        process::freeze(self.child().id());
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        process::thaw(self.child().id());
    }

    fn here(&self) -> &Here {
        let fault =
            || format!("this {} is by {}: it is not ours to stop", self.kind.name(), self.kind.variable());
        self.here.as_ref().unwrap_or_else(|| panic!("{}", fault()))
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.here().child.lock().unwrap()
    }

    fn wait_until_it_answers(&self) -> Result<(), String> {
        let deadline = Instant::now() + START;
        while !self.kind.answers(self.port, self.password) {
            let ended = self.child().try_wait().unwrap();
            if ended.is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            let how = ended.map_or_else(
                || format!("does not answer after {START:?}"),
                |how| format!("has ended: {how}"),
            );
            let name = self.kind.name();
            return Err(format!(
                "services: {name} could not be started: it {how}\n{}",
                tail(&log(&self.here().folder))
            ));
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let Some(here) = &mut self.here else { return };
        let child = here.child.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        process::kill(child);
        if !std::thread::panicking() {
            // What is left goes with the folder of the process.
            let _left = std::fs::remove_dir_all(&here.folder);
        }
    }
}

fn spawn(kind: Kind, folder: &Path, arguments: &[u16], password: Option<&str>) -> Result<Child, String> {
    let log = OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Command::new("setpriv");
    command.args([
        "--pdeathsig",
        "KILL",
        concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/services"),
        "run",
        kind.name(),
    ]);
    command.arg(folder).args(arguments.iter().map(u16::to_string));
    command.envs(password.map(|password| ("SERVICE_PASSWORD", password)));
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    process::spawn(command).map_err(|err| {
        format!(
            "services: {} could not be started: setpriv: {err}: run scripts/services install",
            kind.name()
        )
    })
}

fn log(folder: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(folder.join("log")).unwrap_or_default()).into_owned()
}

fn tail(log: &str) -> String {
    const LINES: usize = 30;
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
