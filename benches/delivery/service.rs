//! The dispatcher as a process of its own, as its users run it.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::clock::Deadline;
use crate::process::{self, Memory};

/// How long it may take to be ready, and to stop.
const START_OR_STOP: Duration = Duration::from_secs(45);

/// A service that runs. Killed when it is dropped.
pub(crate) struct Service {
    process: Child,
    url: String,
    http: awc::Client,
}

impl Service {
    /// Starts one and waits until it is ready.
    ///
    /// # Errors
    /// It is not ready in time.
    pub(crate) async fn start(
        environment: &[(String, String)],
        log: &Path,
        deadline: Deadline,
    ) -> anyhow::Result<Self> {
        // Free now: another process could take it before the service does, and the start would fail.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let output = File::options().create(true).append(true).open(log)?;
        // Ends with the bench, also when that is killed.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_dispatcher"), "run"])
            .env_clear()
            .env("DISPATCHER_API_PORT", port.to_string())
            .env("DISPATCHER_EGRESS_ALLOW", "127.0.0.1")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let http = awc::Client::builder().timeout(Duration::from_secs(30)).finish();
        let mut service = Self { process, url: format!("http://127.0.0.1:{port}"), http };
        service.wait_until_ready(deadline).await?;
        Ok(service)
    }

    /// Sends change events, which must be taken.
    ///
    /// # Errors
    /// They are not.
    pub(crate) async fn post_events(&self, records: Vec<Value>) -> anyhow::Result<()> {
        let request = self.http.post(format!("{}/v1/events", self.url));
        let answer = request.send_json(&records).await;
        let status = answer.map_err(|err| anyhow::anyhow!("POST of events: {err}"))?.status();
        anyhow::ensure!(status.is_success(), "POST of events: {status}");
        Ok(())
    }

    /// The sum of a metric, `dispatcher_<name>`, over the series with this label.
    ///
    /// # Errors
    /// The service does not answer.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> anyhow::Result<f64> {
        let answer = self.http.get(format!("{}/metrics", self.url)).send().await;
        let mut answer = answer.map_err(|err| anyhow::anyhow!("GET of the metrics: {err}"))?;
        let body = answer.body().limit(16 << 20).await?;
        let series = format!("dispatcher_{name}{{");
        let samples = std::str::from_utf8(&body)?.lines().filter_map(|line| line.strip_prefix(&series));
        let values = samples.filter(|sample| sample.contains(label)).filter_map(|sample| {
            let (_, value) = sample.rsplit_once(' ')?;
            value.parse::<f64>().ok()
        });
        Ok(values.sum())
    }

    /// The processor time that it has used.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        process::cpu(self.process.id())
    }

    /// Its memory.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        process::memory(self.process.id())
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Errors
    /// It does not, or it fails.
    pub(crate) async fn stop(mut self, deadline: Deadline) -> anyhow::Result<()> {
        let pid = self.process.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status()?;
        anyhow::ensure!(asked.success(), "kill -TERM: {asked}");
        let ended = deadline
            .or_after(START_OR_STOP)
            .wait("the end of the service", async || {
                let ended = self.process.try_wait().map_err(|err| err.to_string())?;
                ended.ok_or_else(|| "it still runs".to_owned())
            })
            .await?;
        anyhow::ensure!(ended.success(), "the service ended with {ended}");
        Ok(())
    }

    async fn wait_until_ready(&mut self, deadline: Deadline) -> anyhow::Result<()> {
        let ended = deadline
            .or_after(START_OR_STOP)
            .wait("a ready service", async || {
                if let Ok(Some(ended)) = self.process.try_wait() {
                    return Ok(Some(ended));
                }
                let answer = self.http.get(format!("{}/readyz", self.url)).send().await;
                let status = answer.map_err(|err| err.to_string())?.status();
                if status.is_success() { Ok(None) } else { Err(format!("/readyz answers {status}")) }
            })
            .await?;
        anyhow::ensure!(ended.is_none(), "the service ended at its start: {ended:?}");
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have been stopped: that is no error here.
        let _ended_before = self.process.kill();
        let _reaped_before = self.process.wait();
    }
}

/// The end of a service's log, for messages.
pub(crate) fn end_of(log: &Path) -> String {
    const LINES: usize = 20;
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    format!("the end of its log:\n{}", lines[lines.len().saturating_sub(LINES)..].join("\n"))
}
