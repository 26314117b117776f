//! Opens the TCP connection of a webhook: resolves the name, asks the egress rule about every address that came of
//! it, and connects to one of those that passed. Nothing is resolved a second time, so a name cannot change its mind
//! between the check and the connection.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use actix_service::{Service, fn_service};
use actix_tls::connect::{ConnectError, ConnectInfo, Connection};
use awc::http::Uri;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::egress::EgressRule;
use crate::ports::webhook_sender::SendLimits;

/// Names that one sender looks up at a time. A lookup holds a thread that all senders of an arbiter share, and a slow
/// name server holds it long after we stopped to wait.
const LOOKUPS: usize = 4;

/// Addresses of one name that are tried; each gets an equal share of the time to connect.
const ADDRESSES: usize = 3;

/// Why there is no connection. Travels through awc in a box, and is found again by its type.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectFault {
    /// The name does not resolve.
    #[error("the name does not resolve: {0}")]
    Dns(io::Error),
    /// It resolves to nothing that we may connect to. Which addresses these were is nobody's business outside.
    #[error("the address is not public (see DISPATCHER_EGRESS_ALLOW)")]
    Denied,
    /// No address takes connections; the error of the last.
    #[error("no connection: {0}")]
    Tcp(io::Error),
}

/// The connections of one sender.
#[derive(Clone)]
pub(super) struct TcpGuard {
    egress: Arc<EgressRule>,
    limits: SendLimits,
    lookups: Arc<Semaphore>,
}

impl TcpGuard {
    pub(super) fn new(egress: Arc<EgressRule>, limits: SendLimits) -> Self {
        Self { egress, limits, lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }

    /// As awc wants it.
    pub(super) fn service(
        &self,
    ) -> impl Service<ConnectInfo<Uri>, Response = Connection<Uri, TcpStream>, Error = ConnectError>
    + Clone
    + 'static {
        let guard = self.clone();
        fn_service(move |info: ConnectInfo<Uri>| {
            let guard = guard.clone();
            async move {
                // All our faults go by `Resolver`: the only variant that carries any error unchanged.
                let stream = guard
                    .connect(info.hostname(), info.port())
                    .await
                    .map_err(|fault| ConnectError::Resolver(Box::new(fault)))?;
                Ok(Connection::new(info.request().clone(), stream))
            }
        })
    }

    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ConnectFault> {
        let deadline = Instant::now() + self.limits.connect_timeout;
        // In a URL an IPv6 address stands in brackets.
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let resolved = timeout_at(deadline, self.resolve(host, port))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(ConnectFault::Dns)?;
        let permitted: Vec<SocketAddr> = resolved
            .into_iter()
            .filter(|address| self.egress.permits(host, address.ip()))
            .take(ADDRESSES)
            .collect();
        let mut fault = ConnectFault::Denied;
        let share = deadline.saturating_duration_since(Instant::now()) / permitted.len().max(1) as u32;
        for address in permitted {
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // A request leaves in several writes: none may wait for the acknowledgement of the one before.
                    stream.set_nodelay(true).map_err(ConnectFault::Tcp)?;
                    return Ok(stream);
                }
                Ok(Err(err)) => fault = ConnectFault::Tcp(err),
                Err(_) => fault = ConnectFault::Tcp(io::ErrorKind::TimedOut.into()),
            }
        }
        Err(fault)
    }

    /// At least one address, or an error.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let permit = self.lookups.clone().acquire_owned().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        let lookup = tokio::task::spawn_blocking(move || {
            let _until_the_thread_is_free = permit;
            (host.as_str(), port).to_socket_addrs().map(Vec::from_iter)
        });
        let addresses = lookup.await.map_err(io::Error::other)??;
        if addresses.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(addresses) }
    }
}
