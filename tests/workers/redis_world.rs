//! The world with its queues in Redis.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use dispatcher::backends::bullmq::{BullMq, BullMqOptions};
use dispatcher::domain::config::Secret;
use dispatcher::ports::clock::SystemClock;

use crate::services::Service;
use crate::world::World;

/// Locks are short in tests that lose workers.
pub(crate) fn store(url: &str, prefix: &str) -> BullMq {
    let mut options = BullMqOptions::new(Secret::new(url), prefix, Arc::new(SystemClock));
    options.lock = Duration::from_secs(1);
    options.stalled_check = Duration::from_millis(500);
    BullMq::new(options)
}

impl World {
    pub(crate) fn new(redis: &Service, prefix: &str) -> Self {
        Self::at(redis.url(), prefix)
    }

    pub(crate) fn at(url: &str, prefix: &str) -> Self {
        Self::of(&store(url, prefix), None)
    }
}

/// Redis's answer to a command that has no client yet.
pub(crate) fn ask(redis: &Service, command: &str) -> String {
    let mut stream = TcpStream::connect((redis.host(), redis.port())).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}
