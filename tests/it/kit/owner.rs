//! Which process a connection belongs to: so that a test knows which replica sent a request.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

/// From which port to which, both of 127.0.0.1: a local port alone may have connections to several places.
type Ports = (u16, u16);
/// Of a socket.
type Inode = u64;

/// The table of all connections of a machine is long, and takes tens of milliseconds to read: it is read for all who asked meanwhile.
const GATHER: Duration = Duration::from_millis(30);

/// Finds the owners of connections among some processes, in a thread of its own. A clone is the same.
#[derive(Clone)]
pub(crate) struct Owners {
    questions: mpsc::Sender<Question>,
    processes: Arc<Mutex<Vec<u32>>>,
}

struct Question {
    ports: Ports,
    answer: oneshot::Sender<Option<u32>>,
}

impl Owners {
    /// Its thread ends with the last clone.
    pub(crate) fn start() -> Self {
        let (questions, asked) = mpsc::channel::<Question>();
        let processes: Arc<Mutex<Vec<u32>>> = Arc::default();
        let among = processes.clone();
        std::thread::spawn(move || {
            while let Ok(first) = asked.recv() {
                std::thread::sleep(GATHER);
                let questions: Vec<_> = std::iter::once(first).chain(asked.try_iter()).collect();
                let owners = owners_now(&among.lock().unwrap());
                for Question { ports, answer } in questions {
                    // A connection that has ended meanwhile asks no more.
                    let _nobody_asks = answer.send(owners.get(&ports).copied());
                }
            }
        });
        Self { questions, processes }
    }

    /// This process may own connections.
    pub(crate) fn expect(&self, process: u32) {
        self.processes.lock().unwrap().push(process);
    }

    /// Which process has the near end of a connection that is there now. `None`: none of those that are expected.
    pub(crate) fn of(&self, ports: Ports) -> oneshot::Receiver<Option<u32>> {
        let (answer, owner) = oneshot::channel();
        self.questions.send(Question { ports, answer }).expect("its thread runs");
        owner
    }
}

/// The connections of these processes.
fn owners_now(processes: &[u32]) -> HashMap<Ports, u32> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let sockets: HashMap<Inode, Ports> = table.lines().skip(1).filter_map(row).collect();
    let of = |process: &u32| {
        let open = open_sockets(*process).into_iter();
        open.filter_map(|inode| Some((*sockets.get(&inode)?, *process))).collect::<Vec<_>>()
    };
    processes.iter().flat_map(of).collect()
}

/// A line of the table of connections; `None`: nobody has that socket any more.
fn row(line: &str) -> Option<(Inode, Ports)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = |field: usize| u16::from_str_radix(fields.get(field)?.rsplit(':').next()?, 16).ok();
    let inode = fields.get(9)?.parse().ok()?;
    (inode != 0).then_some((inode, (port(1)?, port(2)?)))
}

/// The sockets that a process has open.
fn open_sockets(process: u32) -> HashSet<Inode> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return HashSet::new() };
    let inode = |entry: std::fs::DirEntry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        let target = target.to_str()?;
        target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.flatten().filter_map(inode).collect()
}

#[actix_web::test]
async fn a_connection_belongs_to_the_process_that_opened_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (near, far) = (stream.local_addr().unwrap().port(), stream.peer_addr().unwrap().port());
    let owners = Owners::start();
    owners.expect(1);
    assert_eq!(owners.of((near, far)).await, Ok(None));
    owners.expect(std::process::id());
    assert_eq!(owners.of((near, far)).await, Ok(Some(std::process::id())));
    assert_eq!(owners.of((near, far ^ 1)).await, Ok(None), "the same port, but not this connection");
}
