//! Processes of the tests.

use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, mpsc};

/// Starts a process that ends with this one: from a thread that lives as long, since it is the thread that counts.
pub(crate) fn spawn(command: Command) -> Child {
    type Order = (Command, mpsc::Sender<Child>);
    static LAUNCHER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let launcher = LAUNCHER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in orders {
                let child = command.spawn().expect("setpriv or node is missing");
                let _ = reply.send(child);
            }
        });
        Mutex::new(sender)
    });
    let (reply, child) = mpsc::channel();
    launcher.lock().unwrap().send((command, reply)).unwrap();
    child.recv().unwrap()
}
