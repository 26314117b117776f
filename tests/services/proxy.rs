//! A wire to a service that can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

use super::ports;

/// Forwards a port of its own to another one. Healthy at first; ends when it is dropped.
pub(crate) struct Proxy {
    port: u16,
    wire: Arc<Wire>,
}

struct Wire {
    target: u16,
    now: Mutex<Now>,
    changed: Condvar,
}

struct Now {
    state: State,
    /// Whether the port is listened on.
    listens: bool,
    /// Both ends of every connection that is not over.
    connections: Vec<Weak<TcpStream>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Healthy,
    Stalled,
    Cut,
    Gone,
}

impl Proxy {
    /// A proxy to a port of this machine.
    pub(crate) fn to(target: u16) -> Self {
        let port = ports::free_port();
        let now = Now { state: State::Healthy, listens: false, connections: vec![] };
        let wire = Arc::new(Wire { target, now: Mutex::new(now), changed: Condvar::new() });
        let its = Arc::clone(&wire);
        std::thread::spawn(move || its.listen(port));
        drop(wire.until(|now| now.listens));
        Self { port, wire }
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Drops all connections, and refuses new ones.
    pub(crate) fn cut(&self) {
        self.leave_off(State::Cut);
    }

    /// Keeps connections, takes new ones, and forwards nothing. What was sent meanwhile arrives after [`Proxy::heal`].
    pub(crate) fn stall(&self) {
        self.wire.set(State::Stalled);
        drop(self.wire.until(|now| now.listens));
    }

    /// Forwards again.
    pub(crate) fn heal(&self) {
        self.wire.set(State::Healthy);
        drop(self.wire.until(|now| now.listens));
    }

    fn leave_off(&self, state: State) {
        self.wire.set(state);
        // The listener sees the change when something comes in.
        let _nobody_listens = TcpStream::connect(("127.0.0.1", self.port));
        let mut now = self.wire.until(|now| !now.listens);
        for connection in now.connections.drain(..).filter_map(|connection| connection.upgrade()) {
            let _ended_before = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.leave_off(State::Gone);
    }
}

impl Wire {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap()
    }

    fn set(&self, state: State) {
        self.now().state = state;
        self.changed.notify_all();
    }

    fn until(&self, holds: impl Fn(&Now) -> bool) -> MutexGuard<'_, Now> {
        self.changed.wait_while(self.now(), |now| !holds(now)).unwrap()
    }

    fn set_listens(&self, listens: bool) {
        self.now().listens = listens;
        self.changed.notify_all();
    }

    /// Listens while it is not cut, until it is gone.
    fn listen(self: Arc<Self>, port: u16) {
        loop {
            if self.until(|now| now.state != State::Cut).state == State::Gone {
                return;
            }
            let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
            self.set_listens(true);
            self.accept(&listener);
            drop(listener);
            self.set_listens(false);
        }
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let (client, _) = listener.accept().unwrap();
            let mut now = self.now();
            if matches!(now.state, State::Cut | State::Gone) {
                return;
            }
            // A service that is away: the client sees its connection end.
            let Ok(service) = TcpStream::connect(("127.0.0.1", self.target)) else { continue };
            let (client, service) = (Arc::new(client), Arc::new(service));
            now.connections.retain(|connection| connection.strong_count() > 0);
            for end in [&client, &service] {
                end.set_nodelay(true).unwrap();
                now.connections.push(Arc::downgrade(end));
            }
            drop(now);
            self.forward(Arc::clone(&client), Arc::clone(&service));
            self.forward(service, client);
        }
    }

    fn forward(self: &Arc<Self>, from: Arc<TcpStream>, to: Arc<TcpStream>) {
        let wire = Arc::clone(self);
        std::thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = (&*from).read(&mut bytes) {
                drop(wire.until(|now| now.state != State::Stalled));
                if (&*to).write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            // Each direction ends by itself.
            let _ended_before = to.shutdown(Shutdown::Write);
        });
    }
}
