//! What is measured. Each scenario has stores of its own, ends with a stop of the service, and counts only when exactly the
//! right deliveries arrived in order.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::changes::{Change, ClientConfig, Workload, Writer};
use crate::clock::{Deadline, now_us};
use crate::report::Row;
use crate::service::{self, Service};
use crate::sink::Sink;
use crate::stores::{Mode, Stores};

/// The longest that a scenario waits for its deliveries.
const DELIVERIES_WITHIN: Duration = Duration::from_secs(60);

/// Events in one request, where the rate is not the question.
const EVENTS_A_REQUEST: usize = 250;

/// The retry schedule of `drain`: every client tries every half second, so that the figure is the drain's and not the schedule's.
const EVERY_HALF_SECOND: &str = "[retry]\nbase = \"500ms\"\ncap = \"500ms\"\njitter = 0.0\n";

/// A scenario with its size.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scenario {
    /// Changes wait in the source before the service starts.
    Preload(Workload),
    /// Changes come at a steady rate.
    Steady(Workload, Rate),
    /// Changes come while the receiver is down; then it is up.
    Drain(Workload),
    /// As preload, with many clients and little to do: what counts is the memory.
    Memory(Workload),
}

/// Events a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate(pub(crate) u64);

impl Scenario {
    /// Its name in the table.
    pub(crate) fn name(&self, mode: Mode) -> String {
        let mode = mode.as_str();
        match self {
            Self::Preload(_) => format!("{mode} preload"),
            Self::Steady(_, rate) => format!("{mode} steady {}/s", rate.0),
            Self::Drain(_) => format!("{mode} drain"),
            Self::Memory(workload) => format!("{mode} memory {} clients", workload.clients),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// Something failed, or what arrived is not what had to.
    pub(crate) async fn run(self, mode: Mode, sink: &mut Sink, deadline: Deadline) -> anyhow::Result<Row> {
        sink.open()?;
        sink.forget()?;
        let (Self::Preload(workload)
        | Self::Steady(workload, _)
        | Self::Drain(workload)
        | Self::Memory(workload)) = self;
        let mut stage = Stage::new(mode, workload, sink, deadline).await?;
        let name = self.name(mode);
        let row = match self {
            Self::Preload(_) | Self::Memory(_) => preload(&mut stage, name).await,
            Self::Steady(_, rate) => steady(&mut stage, name, rate).await,
            Self::Drain(_) => drain(&mut stage, name).await,
        };
        row.map_err(|err| anyhow::anyhow!("{err:#}\n{}", service::end_of(&stage.log)))
    }
}

/// What a scenario works with. The stores know its clients.
struct Stage<'a> {
    workload: Workload,
    writer: Writer,
    stores: Stores,
    environment: Vec<(String, String)>,
    log: PathBuf,
    folder: TempDir,
    sink: &'a mut Sink,
    deadline: Deadline,
}

impl<'a> Stage<'a> {
    async fn new(
        mode: Mode,
        workload: Workload,
        sink: &'a mut Sink,
        deadline: Deadline,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("dispatcher-bench-").tempdir()?;
        let stores = mode.fresh(folder.path()).await?;
        let environment = stores.environment();
        let clients: Vec<_> = (0..workload.clients).map(|number| ClientConfig::of(number, sink)).collect();
        stores.put_clients(&clients).await?;
        let (writer, log) = (Writer::new(), folder.path().join("service.log"));
        Ok(Self { workload, writer, stores, environment, log, folder, sink, deadline })
    }

    async fn start(&self) -> anyhow::Result<Service> {
        Service::start(&self.environment, &self.log, self.deadline).await
    }

    async fn wait_for_deliveries(&mut self) -> anyhow::Result<()> {
        self.sink.wait_for(self.workload.deliveries(), self.deadline.or_after(DELIVERIES_WITHIN)).await
    }

    /// Has one change of some documents delivered, for each client some, so that partitions are assigned and connections open.
    /// They count nowhere.
    async fn warm_up(&mut self, service: &Service) -> anyhow::Result<()> {
        let some = Workload { documents: self.workload.clients, versions: 1, ..self.workload };
        self.send_all(service, some).await?;
        self.sink.wait_for(some.deliveries(), self.deadline.or_after(DELIVERIES_WITHIN)).await?;
        self.sink.forget()
    }

    /// Sends all changes of a workload as fast as they are taken.
    async fn send_all(&self, service: &Service, workload: Workload) -> anyhow::Result<()> {
        let changes: Vec<(Change, u64)> = workload.changes().map(|change| (change, now_us())).collect();
        for batch in changes.chunks(EVENTS_A_REQUEST) {
            self.stores.send(service, &self.writer, batch).await?;
        }
        Ok(())
    }

    /// Everything has arrived: what was measured of `service` since `before`, and a stop, after which the sink has the last word.
    async fn finish(&mut self, service: Service, before: Used, name: String) -> anyhow::Result<Row> {
        let used = Used::by(&service, self.sink)?;
        let memory = service.memory()?;
        let spilled = service.metric("stashed_total", "").await?;
        service.stop(self.deadline).await?;
        let report = self.sink.report()?;
        report.verify(self.workload.deliveries(), self.workload.lines())?;
        let row = Row::of_deliveries(name, &report, used.cpu - before.cpu, used.sink - before.sink);
        let row = row.with_memory(memory);
        Ok(if spilled > 0.0 { row.with_note(format!("{spilled} by the stash")) } else { row })
    }
}

/// Processor time so far.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    cpu: Duration,
    sink: Duration,
}

impl Used {
    fn by(service: &Service, sink: &Sink) -> anyhow::Result<Self> {
        Ok(Self { cpu: service.cpu()?, sink: sink.cpu()? })
    }
}

/// All changes are in the source when the service starts; its processor time includes the start.
async fn preload(stage: &mut Stage<'_>, name: String) -> anyhow::Result<Row> {
    stage.stores.load(&stage.writer, stage.workload.changes()).await?;
    let before = Used { cpu: Duration::ZERO, sink: stage.sink.cpu()? };
    let service = stage.start().await?;
    stage.wait_for_deliveries().await?;
    stage.finish(service, before, name).await
}

/// One sender, which sends what is due when the request before was answered, as Debezium's sinks do. A change's time begins
/// when it is due, so a sender that is held up hides nothing.
async fn steady(stage: &mut Stage<'_>, name: String, rate: Rate) -> anyhow::Result<Row> {
    let service = stage.start().await?;
    stage.warm_up(&service).await?;
    let before = Used::by(&service, stage.sink)?;
    let (start, start_us) = (Instant::now(), now_us());
    let due_after_us = |number: u64| number * 1_000_000 / rate.0;
    let mut changes = (0..).zip(stage.workload.changes()).peekable();
    while let Some((next, _)) = changes.peek() {
        let due = start + Duration::from_micros(due_after_us(*next));
        actix_rt::time::sleep_until(due.into()).await;
        let elapsed_us = start.elapsed().as_micros();
        let mut batch = Vec::new();
        while let Some((number, change)) =
            changes.next_if(|(number, _)| u128::from(due_after_us(*number)) <= elapsed_us)
        {
            batch.push((change, start_us + due_after_us(number)));
        }
        stage.stores.send(&service, &stage.writer, &batch).await?;
    }
    stage.wait_for_deliveries().await?;
    let latency = stage.sink.report()?.latency;
    Ok(stage.finish(service, before, name).await?.with_latency(latency))
}

/// The rate and the processor time count from the moment at which the receiver is up.
async fn drain(stage: &mut Stage<'_>, name: String) -> anyhow::Result<Row> {
    let settings = stage.folder.path().join("retry.toml");
    std::fs::write(&settings, EVERY_HALF_SECOND)?;
    stage.environment.push(("DISPATCHER_CONFIG".to_owned(), settings.display().to_string()));
    let service = stage.start().await?;
    stage.sink.close()?;
    stage.send_all(&service, stage.workload).await?;
    let all = stage.workload.deliveries() as f64;
    let within = stage.deadline.or_after(DELIVERIES_WITHIN);
    within
        .wait("rows in the stash", async || {
            let rows =
                service.metric("stash_rows", r#"state="pending""#).await.map_err(|err| err.to_string())?;
            if rows >= all { Ok(()) } else { Err(format!("{rows} of {all}")) }
        })
        .await?;
    let before = Used::by(&service, stage.sink)?;
    let up_us = now_us();
    stage.sink.open()?;
    stage.wait_for_deliveries().await?;
    let report = stage.sink.report()?;
    let [first, last] = [report.first_us, report.last_us].map(|at_us| (at_us - up_us) as f64 / 1e6);
    let row = stage.finish(service, before, name).await?;
    Ok(row.with_note(format!("first after {first:.2} s, last after {last:.2} s")))
}
