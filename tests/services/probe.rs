//! One question to each service in its own protocol, without a client that would need a runtime.

use std::io::{self, Error, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use mongodb::bson::{doc, serialize_to_vec};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use super::kind::USER;

/// After this the answer is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(2);

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// It names a broker that takes requests.
pub(super) fn kafka(port: u16, password: Option<&str>) -> bool {
    if connect(port).is_err() {
        return false;
    }
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", format!("127.0.0.1:{port}"));
    if let Some(password) = password {
        config.set("security.protocol", "sasl_plaintext").set("sasl.mechanism", "PLAIN");
        config.set("sasl.username", USER).set("sasl.password", password);
    }
    let client: Result<BaseConsumer, _> = config.create();
    client.is_ok_and(|client| {
        client.fetch_metadata(None, PATIENCE).is_ok_and(|metadata| !metadata.brokers().is_empty())
    })
}

/// It answers a ping: OP_MSG with one document, little-endian.
pub(super) fn mongo(port: u16) -> io::Result<()> {
    const OP_MSG: i32 = 2013;
    let ping = serialize_to_vec(&doc! {"ping": 1, "$db": "admin"}).map_err(Error::other)?;
    let length = i32::try_from(16 + 4 + 1 + ping.len()).map_err(Error::other)?;
    let mut message = Vec::new();
    for number in [length, 1, 0, OP_MSG, 0] {
        message.extend(number.to_le_bytes());
    }
    message.push(0);
    message.extend(ping);
    let mut stream = connect(port)?;
    stream.write_all(&message)?;
    let mut header = [0; 16];
    stream.read_exact(&mut header)
}

/// It takes the start-up message (big-endian), and authenticates (`R`) instead of saying no (`E`).
pub(super) fn postgres(port: u16) -> io::Result<()> {
    const PROTOCOL: i32 = 3 << 16;
    let parameters = b"user\0postgres\0database\0postgres\0\0";
    let length = i32::try_from(8 + parameters.len()).map_err(Error::other)?;
    let mut message = Vec::new();
    message.extend(length.to_be_bytes());
    message.extend(PROTOCOL.to_be_bytes());
    message.extend(parameters);
    let mut stream = connect(port)?;
    stream.write_all(&message)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    if answer == *b"R" { Ok(()) } else { Err(Error::other("it does not take sessions")) }
}

/// It answers a ping, and not that it is loading. Asking for a password is an answer too.
pub(super) fn redis(port: u16) -> io::Result<()> {
    let mut stream = connect(port)?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    if matches!(&answer, b"+PONG\r\n" | b"-NOAUTH") { Ok(()) } else { Err(Error::other("no pong")) }
}
