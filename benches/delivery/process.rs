//! What Linux says of a process.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

/// A tick of the times in `/proc/<pid>/stat`: USER_HZ, 100 a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of all its threads, user and system.
///
/// # Errors
/// There is no such process, or no `/proc`.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name stands in parentheses and may hold anything; after it come the state (field 3) and numbers only.
    let (_, fields) = stat.rsplit_once(')').with_context(|| path.clone())?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    Ok(TICK * ticks.sum::<Result<u32, _>>().with_context(|| path.clone())?)
}

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Memory {
    /// The most that was resident.
    pub(crate) peak: u64,
    /// Resident now.
    pub(crate) end: u64,
}

/// The memory of a process.
///
/// # Errors
/// There is no such process, or no `/proc`.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kilobytes: u64 = line?.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kilobytes * 1024)
    };
    let memory = bytes("VmHWM").zip(bytes("VmRSS")).map(|(peak, end)| Memory { peak, end });
    memory.with_context(|| format!("{path} tells no memory"))
}
