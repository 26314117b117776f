//! A receiver that does to a connection whatever a test wants.

use std::cell::Cell;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Listens until it is dropped.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    connections: Rc<Cell<usize>>,
    accepting: JoinHandle<()>,
}

impl Receiver {
    /// Runs `script` on every connection, with its number from 1 on.
    pub(super) async fn start<F, Fut>(script: F) -> Self
    where
        F: Fn(usize, Peer<TcpStream>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Rc::new(Cell::new(0));
        let count = connections.clone();
        let accepting = actix_rt::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.set(count.get() + 1);
                actix_rt::spawn(script(count.get(), Peer::new(stream)));
            }
        });
        Self { address, connections, accepting }
    }

    /// Answers every request of every connection with `answer`.
    pub(super) async fn answering(answer: &'static str) -> Self {
        Self::start(move |_, mut peer| async move {
            while peer.request().await.is_some() {
                peer.write(answer).await;
            }
        })
        .await
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Connections that were accepted so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.get()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Received {
    /// Request line and headers, without line ends.
    pub(super) head: Vec<String>,
    pub(super) body: Vec<u8>,
}

impl Received {
    /// All values of a header, in order; names in lower case.
    pub(super) fn header(&self, name: &str) -> Vec<&str> {
        self.head.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
    }
}

/// The other end of one connection.
pub(super) struct Peer<S> {
    pub(super) stream: S,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// The next request with its body; `None` when the connection was closed.
    pub(super) async fn request(&mut self) -> Option<Received> {
        let head_end = loop {
            match self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(at) => break at,
                None => self.read_more().await?,
            }
        };
        let head = String::from_utf8(self.buffer[..head_end].to_vec()).unwrap();
        let head: Vec<String> = head.split("\r\n").map(str::to_owned).collect();
        self.buffer.drain(..head_end + 4);
        let mut received = Received { head, body: Vec::new() };
        let length: usize = received.header("content-length")[0].parse().unwrap();
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        received.body = self.buffer.drain(..length).collect();
        Some(received)
    }

    async fn read_more(&mut self) -> Option<()> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }

    /// Writes text. `false`: the other end is gone.
    pub(super) async fn write(&mut self, text: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(text.as_ref()).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Writes a piece again and again until the other end is gone, at most `limit` bytes. Returns the bytes written.
    pub(super) async fn write_without_end(&mut self, piece: &[u8], limit: usize) -> usize {
        let mut written = 0;
        while written < limit && self.write(piece).await {
            written += piece.len();
        }
        written
    }

    /// Waits until the other end has closed. Returns how many bytes came until then.
    pub(super) async fn closed(&mut self) -> usize {
        let mut bytes = 0;
        while self.read_more().await.is_some() {
            bytes += self.buffer.len();
            self.buffer.clear();
        }
        bytes
    }
}

impl Peer<TcpStream> {
    /// Closes with a reset instead of an orderly end.
    pub(super) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}
