//! Which process a connection belongs to: so that a test knows which replica sent a request.

use std::collections::{HashMap, HashSet};

use super::ledger::Arrival;

/// The process among `pids` that has the near end of a connection on 127.0.0.1, known by its two ports: a local port alone may
/// have connections to several places. `None`: none of them, any more.
pub(crate) fn owner_of(ports: (u16, u16), pids: &[u32]) -> Option<u32> {
    let sockets = sockets_between(ports);
    pids.iter().copied().find(|pid| open_sockets(*pid).iter().any(|socket| sockets.contains(socket)))
}

/// Remembers the owners of connections: each is asked for once.
#[derive(Default)]
pub(crate) struct Owners(HashMap<u64, Option<u32>>);

impl Owners {
    /// As [`owner_of`], when this connection was first seen.
    pub(crate) fn of(&mut self, arrival: &Arrival, pids: &[u32]) -> Option<u32> {
        *self.0.entry(arrival.connection).or_insert_with(|| owner_of(arrival.ports, pids))
    }
}

/// The inodes of the sockets with this local port and this remote one.
fn sockets_between((local, remote): (u16, u16)) -> HashSet<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = |field: usize| u16::from_str_radix(fields.get(field)?.rsplit(':').next()?, 16).ok();
        let inode: u64 = fields.get(9)?.parse().ok()?;
        (port(1)? == local && port(2)? == remote && inode != 0).then_some(inode)
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
    let ports = (stream.local_addr().unwrap().port(), stream.peer_addr().unwrap().port());
    let (me, init) = (std::process::id(), 1);
    assert_eq!(owner_of(ports, &[init, me]), Some(me));
    assert_eq!(owner_of(ports, &[init]), None);
    assert_eq!(owner_of((ports.0, ports.1 ^ 1), &[me]), None, "the same port, but not this connection");
}
