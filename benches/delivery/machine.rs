//! On what it ran: figures mean nothing without it.

use std::process::Command;

use serde::Serialize;

/// The machine and the build.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    dispatcher: &'static str,
    commit: String,
    optimised: bool,
    rustc: String,
    cpu: String,
    cores: usize,
    load_average_at_start: String,
    kernel: String,
}

impl Machine {
    /// This one, now. What cannot be found out is empty.
    pub(crate) fn here() -> Self {
        let first_line = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().map(|output| output.stdout);
            let text = String::from_utf8(output.unwrap_or_default()).unwrap_or_default();
            text.lines().next().unwrap_or_default().to_owned()
        };
        let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let load: Vec<String> = file("/proc/loadavg").split(' ').take(3).map(str::to_owned).collect();
        let cpu =
            file("/proc/cpuinfo").lines().find_map(|line| Some(line.strip_prefix("model name")?.to_owned()));
        Self {
            dispatcher: env!("CARGO_PKG_VERSION"),
            commit: first_line("git", &["describe", "--always", "--dirty"]),
            optimised: !cfg!(debug_assertions),
            rustc: first_line("rustc", &["--version"]),
            cpu: cpu.unwrap_or_default().trim_start_matches([':', ' ', '\t']).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            load_average_at_start: load.join(" "),
            kernel: file("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }

    /// One line.
    pub(crate) fn describe(&self) -> String {
        let build = if self.optimised { "" } else { " NOT OPTIMISED: the figures mean nothing," };
        format!(
            "dispatcher {} ({}),{build} {}; {} cores of {}, Linux {}, load average {} at the start; sender, service, sink and stores share the cores",
            self.dispatcher,
            self.commit,
            self.rustc,
            self.cores,
            self.cpu,
            self.kernel,
            self.load_average_at_start,
        )
    }
}
