//! Processes that end with this one, and signals to them.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};

type Order = (Command, Sender<io::Result<Child>>);

/// Starts a process from a thread that lives as long as ours: the kernel sends the parent-death signal when the *thread* ends that
/// has forked, and a test's thread ends with its test.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static LAUNCHER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
        let (orders, taken) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in taken {
                // Who asked waits for it.
                let _asker_is_gone = answer.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (answer, child) = channel();
    LAUNCHER.lock().unwrap().send((command, answer)).unwrap();
    child.recv().unwrap()
}

/// SIGKILL to a process and its children (PostgreSQL has one a connection), and waits until all are gone. Nothing when it has
/// ended already: its id may be another's.
pub(super) fn kill(child: &mut Child) {
    if child.try_wait().unwrap().is_some() {
        return;
    }
    let pid = child.id();
    // A stopped process has no more children.
    let mut all = freeze(pid);
    all.push(pid);
    signal("-KILL", &all);
    child.wait().unwrap();
    while all.iter().any(|pid| state_and_parent(*pid).is_some_and(|(state, _)| state != 'Z')) {
        std::thread::yield_now();
    }
}

/// SIGSTOP to a process and its children, whom it returns.
pub(super) fn freeze(pid: u32) -> Vec<u32> {
    signal("-STOP", &[pid]);
    let children = children(pid);
    signal("-STOP", &children);
    children
}

/// SIGCONT to a process and its children.
pub(super) fn thaw(pid: u32) {
    signal("-CONT", &children(pid));
    signal("-CONT", &[pid]);
}

/// What has ended already is passed over.
fn signal(signal: &str, pids: &[u32]) {
    if !pids.is_empty() {
        let pids = pids.iter().map(u32::to_string);
        Command::new("kill").arg(signal).args(pids).stderr(std::process::Stdio::null()).status().unwrap();
    }
}

fn children(pid: u32) -> Vec<u32> {
    let names =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = names.filter_map(|name| name.parse().ok());
    pids.filter(|other| state_and_parent(*other).is_some_and(|(_, parent)| parent == pid)).collect()
}

/// The state and the parent of a process, from `pid (name) state parent …`.
fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
