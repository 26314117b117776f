//! Which process a connection belongs to: so that a test knows which replica sent a request.

use std::collections::{HashMap, HashSet};

use super::ledger::Arrival;

/// The process among `pids` that owns the local TCP port of a connection on 127.0.0.1; `None`: none of them, any more.
pub(crate) fn owner_of(port: u16, pids: &[u32]) -> Option<u32> {
    let sockets = sockets_of_port(port);
    pids.iter().copied().find(|pid| open_sockets(*pid).iter().any(|socket| sockets.contains(socket)))
}

/// Remembers the owners of connections: each is asked for once.
#[derive(Default)]
pub(crate) struct Owners(HashMap<u64, Option<u32>>);

impl Owners {
    /// As [`owner_of`], when this connection was first seen.
    pub(crate) fn of(&mut self, arrival: &Arrival, pids: &[u32]) -> Option<u32> {
        *self.0.entry(arrival.connection).or_insert_with(|| owner_of(arrival.port, pids))
    }
}

/// The inodes of the sockets whose local port is this one.
fn sockets_of_port(port: u16) -> HashSet<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local = fields.get(1)?.rsplit(':').next()?;
        let inode: u64 = fields.get(9)?.parse().ok()?;
        (u16::from_str_radix(local, 16).ok()? == port && inode != 0).then_some(inode)
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// The inodes of the sockets that a process has open.
fn open_sockets(pid: u32) -> HashSet<u64> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return HashSet::new() };
    let inode = |entry: std::fs::DirEntry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        let target = target.to_str()?;
        target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.flatten().filter_map(inode).collect()
}

#[test]
fn a_connection_belongs_to_the_process_that_opened_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let port = stream.local_addr().unwrap().port();
    let (me, init) = (std::process::id(), 1);
    assert_eq!(owner_of(port, &[init, me]), Some(me));
    assert_eq!(owner_of(port, &[init]), None);
}
