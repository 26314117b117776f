//! The sink's process: HTTP by hand on one thread, so that it costs the machine as little as it can. It is told what to do by
//! lines on its standard input and answers with a line of JSON; it ends when its input does.

use std::cell::RefCell;
use std::io::{BufRead as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ledger::Ledger;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";

/// How many connections may wait to be accepted: thousands of clients connect at once.
const BACKLOG: u32 = 8192;

/// Runs until standard input ends. The first line on standard output is the port.
///
/// # Errors
/// No port, or nobody reads the answers.
pub(crate) fn run() -> anyhow::Result<()> {
    // A connection for each client at least.
    rlimit::increase_nofile_limit(u64::MAX)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tokio::task::LocalSet::new().run_until(serve()))
}

async fn serve() -> anyhow::Result<()> {
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let mut port = Port::reserve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    say(&json!(port.address()?.port()))?;
    let mut commands = commands();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            stream = port.accept() => {
                connections.spawn_local(answer(stream?, ledger.clone()));
            }
            Some(_ended) = connections.join_next() => {}
            command = commands.recv() => {
                let Some(command) = command else { return Ok(()) };
                let reply = match command.as_str() {
                    "open" => {
                        port = port.open()?;
                        Value::Null
                    }
                    "close" => {
                        let address = port.address()?;
                        drop(port);
                        connections.shutdown().await;
                        port = Port::reserve(address)?;
                        Value::Null
                    }
                    "forget" => {
                        *ledger.borrow_mut() = Ledger::default();
                        Value::Null
                    }
                    "progress" => serde_json::to_value(ledger.borrow().progress())?,
                    "report" => serde_json::to_value(ledger.borrow().report())?,
                    other => anyhow::bail!("the sink knows no {other:?}"),
                };
                say(&reply)?;
            }
        }
    }
}

fn say(reply: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{reply}")?;
    out.flush()
}

/// The lines of standard input.
fn commands() -> mpsc::UnboundedReceiver<String> {
    let (sender, commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    commands
}

/// The port, which is ours whether it is open or not.
enum Port {
    Open(TcpListener),
    /// Bound and not listening: who connects is refused.
    Reserved(TcpSocket),
}

impl Port {
    fn reserve(address: SocketAddr) -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self::Reserved(socket))
    }

    fn open(self) -> std::io::Result<Self> {
        match self {
            Self::Open(_) => Ok(self),
            Self::Reserved(socket) => Ok(Self::Open(socket.listen(BACKLOG)?)),
        }
    }

    fn address(&self) -> std::io::Result<SocketAddr> {
        match self {
            Self::Open(listener) => listener.local_addr(),
            Self::Reserved(socket) => socket.local_addr(),
        }
    }

    async fn accept(&self) -> std::io::Result<TcpStream> {
        match self {
            Self::Open(listener) => Ok(listener.accept().await?.0),
            Self::Reserved(_) => std::future::pending().await,
        }
    }
}

/// Answers the requests of one connection.
async fn answer(mut stream: TcpStream, ledger: Rc<RefCell<Ledger>>) {
    // Without it an answer may wait for the acknowledgement of the one before. Where it fails, the connection is gone.
    let _gone = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(8 << 10);
    loop {
        let mut start = 0;
        let mut answers = 0;
        while let Some(request) = Request::read(&buffer[start..]) {
            ledger.borrow_mut().enter(request.path, request.sequence, request.body);
            start += request.length;
            answers += 1;
        }
        buffer.drain(..start);
        if answers > 0 && stream.write_all(&ANSWER.repeat(answers)).await.is_err() {
            return;
        }
        if !matches!(stream.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
    }
}

struct Request<'a> {
    path: &'a str,
    sequence: &'a str,
    body: &'a [u8],
    length: usize,
}

impl<'a> Request<'a> {
    /// The first request in these bytes; `None`: it is not whole yet. What is missing in it stays empty, and the ledger
    /// will not take it.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let head_length = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&bytes[..head_length]).unwrap_or_default();
        let mut lines = head.lines();
        let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
        let (mut sequence, mut body_length) = ("", 0);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                body_length = value.trim().parse().unwrap_or(0);
            } else if name.eq_ignore_ascii_case("webhook-sequence") {
                sequence = value.trim();
            }
        }
        let length = head_length + body_length;
        let body = bytes.get(head_length..length)?;
        Some(Self { path, sequence, body, length })
    }
}
