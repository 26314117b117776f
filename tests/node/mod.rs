//! The real BullMQ of Node, and Bull Board, in a process of their own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

use crate::process::spawn;

/// A Node process with the library.
pub(crate) struct Node(Mutex<Child>);

impl Node {
    /// On the queues below `prefix` of the Redis at this port. `library`: `bullmq` (version 6) or `bullmq5`.
    pub(crate) fn new(redis_port: u16, prefix: &str, library: &str) -> Self {
        static INSTALLED: OnceLock<()> = OnceLock::new();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node");
        INSTALLED.get_or_init(|| {
            let installed = Command::new(format!("{folder}/install")).status().unwrap();
            assert!(installed.success(), "tests/node/install needs node and npm");
        });
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "node", &format!("{folder}/interop.js")])
            .args([&redis_port.to_string(), prefix, library])
            .env("NODE_PATH", concat!(env!("CARGO_MANIFEST_DIR"), "/target/services/node/node_modules"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Self(Mutex::new(spawn(command)))
    }

    fn try_ask(&self, command: &Value) -> Result<Value, String> {
        let mut child = self.0.lock().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{command}").unwrap();
        let mut line = String::new();
        BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("node said {line:?}"));
        match answer.get("err") {
            Some(err) => Err(err.to_string()),
            None => Ok(answer["ok"].clone()),
        }
    }

    /// What it answers to a command. Holds the thread meanwhile.
    pub(crate) fn ask(&self, command: &Value) -> Value {
        self.try_ask(command).unwrap()
    }

    /// A job as it sees it; null: it does not.
    pub(crate) fn job(&self, queue: &str, id: &str) -> Value {
        self.ask(&json!({"do": "job", "queue": queue, "id": id}))
    }

    /// Promotes, retries or removes a job.
    pub(crate) fn act(&self, queue: &str, id: &str, act: &str) {
        self.ask(&json!({"do": "act", "queue": queue, "id": id, "act": act}));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut child = self.0.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Bull Board on some queues.
pub(crate) struct Board {
    node: Node,
    queues: Vec<String>,
}

impl Board {
    pub(crate) fn new(node: Node, queues: &[&str]) -> Self {
        Self { node, queues: queues.iter().map(|queue| (*queue).to_owned()).collect() }
    }

    /// What it answers to a request of its page, without `/api`.
    pub(crate) fn request(&self, method: &str, path: &str, query: Value) -> (u64, Value) {
        let path = format!("/api{path}");
        let answer = self.node.ask(&json!({
            "do": "board", "queues": self.queues, "method": method, "path": path, "query": query,
        }));
        (answer["status"].as_u64().unwrap(), answer["body"].clone())
    }

    /// What it shows.
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.request("get", path, json!({}));
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// A queue as its page shows it, with the jobs of one state.
    pub(crate) fn queue(&self, name: &str, state: &str) -> Value {
        let query = json!({ "activeQueue": name, "status": state, "page": "1", "jobsPerPage": "100" });
        let (status, body) = self.request("get", "/queues", query);
        assert_eq!(status, 200, "{body}");
        let queues = body["queues"].as_array().unwrap();
        queues
            .iter()
            .find(|queue| queue["name"] == name)
            .unwrap_or_else(|| panic!("no {name}: {body}"))
            .clone()
    }

    /// A job as its page shows it: its state, and all else.
    pub(crate) fn job(&self, queue: &str, id: &str) -> Option<(String, Value)> {
        let (status, body) = self.request("get", &format!("/queues/{queue}/{id}"), json!({}));
        let state = || body["status"].as_str().unwrap().to_owned();
        (status == 200).then(|| (state(), body["job"].clone()))
    }

    /// Presses a button, which must work.
    pub(crate) fn press(&self, path: &str) {
        let (status, body) = self.request("put", path, json!({}));
        assert!((200..300).contains(&status), "{path}: {status} {body}");
    }
}
