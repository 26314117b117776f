//! A webhook receiver: one port, a path for each client, answers by script. It speaks HTTP by hand, so that it can
//! also misbehave as no HTTP library would.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc as commands};
use tokio::task::JoinSet;

use super::ledger::{Arrival, Change, Ledger};
use super::owner::Owners;
use super::{from_path_segment, path_segment};

/// What a receiver does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A status and nothing else.
    Status(u16),
    /// A status and a body.
    Text(u16, String),
    /// A status with one header.
    WithHeader(u16, &'static str, String),
    /// A status after a time.
    Late(Duration, u16),
    /// A status when the gate is open.
    Held(Gate, u16),
    /// No answer, the connection stays open.
    Hang,
    /// The connection is reset.
    Reset,
    /// 200 and a body of so many bytes.
    Body(u64),
    /// A status line, and headers for ever.
    EndlessHeaders,
}

/// Holds answers back until it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn shut() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub(crate) fn open(&self) {
        self.0.close();
    }

    async fn pass(&self) {
        // Nobody adds permits: this ends only when the gate is opened, with an error that says so.
        let _opened = self.0.acquire().await;
    }
}

type Script = dyn Fn(&Arrival) -> Answer + Send + Sync;

/// A receiver in its own thread. Ends with its drop.
pub(crate) struct Receiver {
    address: SocketAddr,
    ledger: Ledger,
    answer_bytes: Arc<AtomicU64>,
    commands: commands::UnboundedSender<Command>,
}

enum Command {
    /// Close the port and every connection, then say so.
    Pause(mpsc::Sender<()>),
    /// Open the port again, then say so.
    Resume(mpsc::Sender<()>),
}

impl Receiver {
    /// A receiver that answers 200 to everything.
    pub(crate) fn healthy() -> Self {
        Self::start(|_| Answer::Status(200))
    }

    /// A receiver that answers by a script.
    pub(crate) fn start(script: impl Fn(&Arrival) -> Answer + Send + Sync + 'static) -> Self {
        Self::with(Ledger::default(), None, script)
    }

    /// The same, with a ledger that stays empty: for more arrivals than fit into memory.
    pub(crate) fn forgetful(script: impl Fn(&Arrival) -> Answer + Send + Sync + 'static) -> Self {
        Self::with(Ledger::forgetful(), None, script)
    }

    /// A receiver that enters who sent each request.
    pub(crate) fn that_knows(
        owners: Owners,
        script: impl Fn(&Arrival) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::with(Ledger::default(), Some(owners), script)
    }

    fn with(
        ledger: Ledger,
        owners: Option<Owners>,
        script: impl Fn(&Arrival) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let answer_bytes = Arc::new(AtomicU64::new(0));
        let (commands, inbox) = commands::unbounded_channel();
        let (ready, address) = mpsc::channel();
        let state = Connection {
            ledger: ledger.clone(),
            script: Arc::new(script),
            bytes: answer_bytes.clone(),
            owners,
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                ready.send(listener.local_addr().unwrap()).unwrap();
                serve(listener, inbox, state).await;
            });
        });
        let address = address.recv().expect("the receiver starts");
        Self { address, ledger, answer_bytes, commands }
    }

    /// The webhook of a client.
    pub(crate) fn hook(&self, client: &str) -> String {
        format!("http://{}/hook/{}", self.address, path_segment(client))
    }

    /// What arrived.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// How many bytes of answer bodies and endless headers could be written.
    pub(crate) fn answer_bytes(&self) -> u64 {
        self.answer_bytes.load(Ordering::Relaxed)
    }

    /// Closes the port, and every connection: who connects now is refused.
    pub(crate) fn pause(&self) {
        self.command(Command::Pause);
    }

    /// Opens the same port again.
    pub(crate) fn resume(&self) {
        self.command(Command::Resume);
    }

    fn command(&self, command: impl FnOnce(mpsc::Sender<()>) -> Command) {
        let (done, wait) = mpsc::channel();
        self.commands.send(command(done)).expect("the receiver runs");
        wait.recv().expect("the receiver obeys");
    }
}

async fn serve(listener: TcpListener, mut inbox: commands::UnboundedReceiver<Command>, state: Connection) {
    let address = listener.local_addr().unwrap();
    let mut port = Port::Open(listener);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = port.accept() => {
                if let Ok(stream) = accepted {
                    connections.spawn(state.clone().run(stream));
                }
            }
            Some(_ended) = connections.join_next() => {}
            command = inbox.recv() => match command {
                None => return,
                Some(Command::Pause(done)) => {
                    drop(port);
                    connections.shutdown().await;
                    port = Port::reserve(address);
                    let _nobody_waits = done.send(());
                }
                Some(Command::Resume(done)) => {
                    port = port.open();
                    let _nobody_waits = done.send(());
                }
            },
        }
    }
}

enum Port {
    Open(TcpListener),
    /// Bound, so that nobody else gets the port, but not listening.
    Reserved(TcpSocket),
}

impl Port {
    fn reserve(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        Self::Reserved(socket)
    }

    fn open(self) -> Self {
        match self {
            Self::Open(listener) => Self::Open(listener),
            Self::Reserved(socket) => Self::Open(socket.listen(1024).unwrap()),
        }
    }

    async fn accept(&self) -> io::Result<TcpStream> {
        match self {
            Self::Open(listener) => Ok(listener.accept().await?.0),
            Self::Reserved(_) => std::future::pending().await,
        }
    }
}

#[derive(Clone)]
struct Connection {
    ledger: Ledger,
    script: Arc<Script>,
    bytes: Arc<AtomicU64>,
    owners: Option<Owners>,
}

impl Connection {
    /// Serves requests until the other side, or the script, ends it.
    async fn run(self, mut stream: TcpStream) {
        let _quietly = self.serve(&mut stream).await;
    }

    async fn serve(&self, stream: &mut TcpStream) -> io::Result<()> {
        let ports = (stream.peer_addr()?.port(), stream.local_addr()?.port());
        let mut asked = self.owners.as_ref().map(|owners| owners.of(ports));
        let mut sender = None;
        let mut buffer = Vec::new();
        while let Some(mut arrival) = read_request(stream, &mut buffer).await? {
            // The first waits for the answer, and holds the connection meanwhile: else nobody has it any more.
            if let Some(owner) = asked.take() {
                sender = owner.await.expect("its thread answers");
            }
            arrival.sender = sender;
            let answer = (self.script)(&arrival);
            let number = self.ledger.enter(arrival);
            match answer {
                Answer::Status(status) => write_status(stream, status, "").await?,
                Answer::Text(status, text) => {
                    let head =
                        format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n\r\n", text.len());
                    stream.write_all(&[head.as_bytes(), text.as_bytes()].concat()).await?;
                }
                Answer::WithHeader(status, name, value) => {
                    write_status(stream, status, &format!("{name}: {value}\r\n")).await?;
                }
                Answer::Late(time, status) => {
                    tokio::time::sleep(time).await;
                    write_status(stream, status, "").await?;
                }
                Answer::Held(gate, status) => {
                    gate.pass().await;
                    write_status(stream, status, "").await?;
                }
                Answer::Hang => std::future::pending().await,
                Answer::Reset => return stream.set_zero_linger(),
                Answer::Body(length) => {
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                    stream.write_all(head.as_bytes()).await?;
                    self.flood(stream, &[b'x'; 8192], length).await?;
                }
                Answer::EndlessHeaders => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
                    self.flood(stream, b"x-more: and more, and more, and more\r\n", u64::MAX).await?;
                }
            }
            self.ledger.answered(number);
        }
        Ok(())
    }

    /// Writes a piece again and again, `length` bytes in all.
    async fn flood(&self, stream: &mut TcpStream, piece: &[u8], length: u64) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let size = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
            stream.write_all(&piece[..size]).await?;
            left -= size as u64;
            self.bytes.fetch_add(size as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

async fn write_status(stream: &mut TcpStream, status: u16, headers: &str) -> io::Result<()> {
    let answer = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: 0\r\n{headers}\r\n");
    stream.write_all(answer.as_bytes()).await
}

/// Reads the next request; `None` when the connection ends before one. What was read beyond it stays in the buffer.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Arrival>> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("").to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while buffer.len() < head_end + length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = Bytes::copy_from_slice(&buffer[head_end..head_end + length]);
    buffer.drain(..head_end + length);
    let client = from_path_segment(path.strip_prefix("/hook/").unwrap_or(&path));
    let change = Change::read(&body);
    Ok(Some(Arrival { at: Instant::now(), answered: None, sender: None, client, headers, body, change }))
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
