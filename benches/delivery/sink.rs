//! The receiver of all webhooks: a process of its own that answers 200, counts, and checks the order.

pub(crate) mod ledger;
pub(crate) mod server;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde::de::DeserializeOwned;

use self::ledger::{Progress, Report};
use crate::clock::Deadline;
use crate::process;

/// What the bench is started with to be a sink.
pub(crate) const ARGUMENT: &str = "--be-the-sink";

/// A sink that runs. Ends with its drop.
pub(crate) struct Sink {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl Sink {
    /// Starts one, open.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take().context("the sink has no input")?;
        let output = BufReader::new(process.stdout.take().context("the sink has no output")?);
        let mut sink = Self { process, input, output, port: 0 };
        sink.port = sink.read()?;
        sink.open()?;
        Ok(sink)
    }

    /// The webhook of a client.
    pub(crate) fn hook(&self, client: &str) -> String {
        format!("http://127.0.0.1:{}/hook/{client}", self.port)
    }

    /// Opens the port.
    ///
    /// # Errors
    /// The sink is gone.
    pub(crate) fn open(&mut self) -> anyhow::Result<()> {
        self.ask("open")
    }

    /// Closes the port and every connection: who connects is refused.
    ///
    /// # Errors
    /// The sink is gone.
    pub(crate) fn close(&mut self) -> anyhow::Result<()> {
        self.ask("close")
    }

    /// Begins a new ledger.
    ///
    /// # Errors
    /// The sink is gone.
    pub(crate) fn forget(&mut self) -> anyhow::Result<()> {
        self.ask("forget")
    }

    /// What arrived.
    ///
    /// # Errors
    /// The sink is gone.
    pub(crate) fn report(&mut self) -> anyhow::Result<Report> {
        self.ask("report")
    }

    /// Waits for so many first arrivals.
    ///
    /// # Errors
    /// They did not come in time, something arrived that must not, or the sink is gone.
    pub(crate) async fn wait_for(&mut self, deliveries: u64, deadline: Deadline) -> anyhow::Result<()> {
        let faults = deadline
            .wait("deliveries", async || {
                let progress: Progress = self.ask("progress").map_err(|err| err.to_string())?;
                let is_over = progress.deliveries >= deliveries || progress.faults > 0;
                let missing = || format!("{} of {deliveries}", progress.deliveries);
                if is_over { Ok(progress.faults) } else { Err(missing()) }
            })
            .await?;
        if faults > 0 { self.report()?.verify_order() } else { Ok(()) }
    }

    /// The processor time that it has used.
    ///
    /// # Errors
    /// The sink is gone.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        process::cpu(self.process.id())
    }

    fn ask<T: DeserializeOwned>(&mut self, command: &str) -> anyhow::Result<T> {
        writeln!(self.input, "{command}").context("the sink is gone")?;
        self.read()
    }

    fn read<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the sink says {line:?}"))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // It may have ended by itself: that is no error here.
        let _ended_before = self.process.kill();
        let _reaped_before = self.process.wait();
    }
}
