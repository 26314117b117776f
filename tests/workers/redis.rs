//! A real Redis, on a free port of this machine and in a folder of its own.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

pub(crate) struct Redis {
    port: u16,
    folder: tempfile::TempDir,
    child: Mutex<Option<Child>>,
}

/// Shared by the tests of a binary; each uses a key prefix of its own.
pub(crate) fn shared() -> &'static Redis {
    static SHARED: OnceLock<Redis> = OnceLock::new();
    SHARED.get_or_init(Redis::start)
}

/// A name that no other test uses.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{name}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Redis {
    /// One of its own, for tests that stop it.
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let redis = Self { port, folder: tempfile::tempdir().unwrap(), child: Mutex::new(None) };
        redis.start_again();
        redis
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// On the same port, with what is in its folder. Ready when this returns.
    pub(crate) fn start_again(&self) {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "redis-server", "--port", &self.port.to_string()])
            .args(["--bind", "127.0.0.1", "--appendonly", "yes", "--appendfsync", "always", "--save", ""])
            .current_dir(self.folder.path())
            .stdout(Stdio::null());
        *self.child.lock().unwrap() = Some(spawn(command));
        let end = Instant::now() + Duration::from_secs(20);
        while self.ask("PING").is_none_or(|answer| !answer.starts_with("+PONG")) {
            assert!(Instant::now() < end, "redis-server does not answer: scripts/services install");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn kill(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn freeze(&self) {
        self.signal("STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.lock().unwrap().as_ref().unwrap().id();
        assert!(
            Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().unwrap().success()
        );
    }

    /// The first bytes of what it answers to an inline command.
    pub(crate) fn ask(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut answer = vec![0; 65536];
        let length = stream.read(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..length]).into_owned())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a process that ends with this one: from a thread that lives as long, since it is the thread that counts.
pub(crate) fn spawn(command: Command) -> Child {
    type Order = (Command, mpsc::Sender<Child>);
    static LAUNCHER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let launcher = LAUNCHER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in orders {
                let child = command.spawn().expect("a program is missing: scripts/services install");
                let _ = reply.send(child);
            }
        });
        Mutex::new(sender)
    });
    let (reply, child) = mpsc::channel();
    launcher.lock().unwrap().send((command, reply)).unwrap();
    child.recv().unwrap()
}
