//! The transfer record: one change on its way to one client, and its place in the transfer log.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::config::ClientId;

/// The version of the record format; a record of another version stops its partition.
pub const FORMAT: u8 = 1;

/// Where a source record stands in the source stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePosition {
    /// The source topic, `<prefix>.<db>.<collection>`.
    pub topic: Arc<str>,
    /// The partition within the topic.
    pub partition: i32,
    /// The offset within the partition.
    pub offset: i64,
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.topic, self.partition, self.offset)
    }
}

/// The place of a transfer in the transfer log: the order of everything that is sent to a client.
/// Comparable within one client; a transfer log that was created again has a larger incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence {
    /// Which creation of the transfer log.
    pub incarnation: u32,
    /// The partition: murmur2 of the client.
    pub partition: u32,
    /// The offset within the partition.
    pub offset: i64,
}

impl fmt::Display for Sequence {
    /// As in the header `webhook-sequence`: `<incarnation>-<partition>-<offset>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.incarnation, self.partition, self.offset)
    }
}

impl FromStr for Sequence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let broken = || format!("{text:?} is no sequence");
        let mut parts = text.split('-');
        let mut part = || parts.next().ok_or_else(broken);
        let (incarnation, partition, offset) = (part()?, part()?, part()?);
        if parts.next().is_some() {
            return Err(broken());
        }
        Ok(Self {
            incarnation: incarnation.parse().map_err(|_| broken())?,
            partition: partition.parse().map_err(|_| broken())?,
            offset: offset.parse().map_err(|_| broken())?,
        })
    }
}

/// The `webhook-id`: `evt_` (of a resync `rs_`) and 26 characters of base32. The same at every attempt, another for another
/// client or a topic that was created again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(Arc<str>);

impl EventId {
    /// Derives the id from what identifies the source record, and the client.
    pub fn derive(position: &SourcePosition, record_timestamp_ms: i64, client: &ClientId) -> Self {
        let mut hash = Sha256::new();
        // Lengths keep the parts apart: no two different inputs share one byte string.
        hash.update((position.topic.len() as u64).to_be_bytes());
        hash.update(position.topic.as_bytes());
        hash.update(position.partition.to_be_bytes());
        hash.update(position.offset.to_be_bytes());
        hash.update(record_timestamp_ms.to_be_bytes());
        hash.update(client.as_str().as_bytes());
        Self::of_hash("evt_", hash)
    }

    /// Derives the id of what a resync sends of a document. `run` names the run of the resync and the client. The same body again is the same
    /// event; a document that changed since is another.
    pub fn of_resync(run: &str, document: &str, body: &[u8]) -> Self {
        let mut hash = Sha256::new();
        for part in [run.as_bytes(), document.as_bytes(), body] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self::of_hash("rs_", hash)
    }

    fn of_hash(prefix: &str, hash: Sha256) -> Self {
        let mut text = data_encoding::BASE32_NOPAD.encode(&hash.finalize());
        text.truncate(26);
        Self(format!("{prefix}{}", text.to_ascii_lowercase()).into())
    }

    /// An id that was stored before.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// 16 bytes that stand for a document in indexes and lanes: ids may be 3 KB long and hold U+0000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentHash(pub [u8; 16]);

impl DocumentHash {
    /// The hash of a document of a collection.
    pub fn of(db: &str, collection: &str, id: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [db, collection, id] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        Self(bytes)
    }
}

/// What brought the transfer into the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// A change event.
    Live,
    /// An operator's replay of a dead letter.
    Replay,
    /// The same, although the receiver has, or will get, something newer: going back is wanted.
    ForcedReplay,
    /// A row of a resync.
    Resync,
}

impl TransferKind {
    /// The word in the record's header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Replay => "replay",
            Self::ForcedReplay => "forced-replay",
            Self::Resync => "resync",
        }
    }

    /// Whether it brings back what has a row in the stash.
    pub fn is_replay(self) -> bool {
        matches!(self, Self::Replay | Self::ForcedReplay)
    }
}

impl FromStr for TransferKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "live" => Ok(Self::Live),
            "replay" => Ok(Self::Replay),
            "forced-replay" => Ok(Self::ForcedReplay),
            "resync" => Ok(Self::Resync),
            other => Err(format!("{other:?} is no transfer kind")),
        }
    }
}

/// A transfer that has no place in the log yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTransfer {
    /// Whom it is for.
    pub client: ClientId,
    /// `<db>.<collection>` and the document's id, for people: `<client>:<db>.<coll>:<id>` is the record key.
    pub document: Arc<str>,
    /// The document, for lanes and indexes.
    pub document_hash: DocumentHash,
    /// The `webhook-id`.
    pub event_id: EventId,
    /// What brought it here.
    pub kind: TransferKind,
    /// The source record it was made of.
    pub source: SourcePosition,
    /// The W3C trace context that came with the source record.
    pub traceparent: Option<Arc<str>>,
    /// When the change happened, milliseconds since 1970.
    pub ts_ms: i64,
    /// The exact webhook body. Clients that get the same body share it.
    pub body: Bytes,
}

impl NewTransfer {
    /// The bytes that it counts for in every bound: body, ids, and what a record costs beside them.
    pub fn weight(&self) -> usize {
        const RECORD: usize = 256;
        RECORD + self.body.len() + self.document.len() + self.client.as_str().len()
    }
}

/// A transfer with its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Its place: the order.
    pub sequence: Sequence,
    /// What is carried.
    pub content: NewTransfer,
}

impl std::ops::Deref for Transfer {
    type Target = NewTransfer;

    fn deref(&self) -> &NewTransfer {
        &self.content
    }
}

/// The partition of a client among `partitions`: murmur2 as Kafka's Java client counts it.
///
/// # Panics
/// When `partitions` is 0.
pub fn partition_of(client: &ClientId, partitions: u32) -> u32 {
    (murmur2(client.as_str().as_bytes()) & 0x7fff_ffff) % partitions
}

/// murmur2 with the seed and the byte order of `org.apache.kafka.common.utils.Utils.murmur2`.
pub fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let mut hash = SEED ^ data.len() as u32;
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Kafka's own test `UtilsTest.testMurmur2`.
    #[test]
    fn murmur2_equals_the_java_client() {
        for (text, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ] {
            assert_eq!(murmur2(text.as_bytes()) as i32, hash, "{text}");
        }
        assert_eq!(murmur2(b"abc") as i32, 479_470_107);
    }

    #[test]
    fn partitions_equal_the_java_client() {
        let table = include_str!("../../tests/fixtures/partitions.tsv");
        let rows = table.lines().filter(|line| !line.starts_with('#'));
        let checked = rows.map(|row| {
            let cells: Vec<&str> = row.split('\t').collect();
            let key: String = serde_json::from_str(cells[0]).unwrap();
            assert_eq!(murmur2(key.as_bytes()) as i32, cells[1].parse::<i32>().unwrap(), "{key}");
            for (partitions, expected) in [(7, cells[2]), (12, cells[3])] {
                let partition = partition_of(&ClientId::new(&key), partitions);
                assert_eq!(partition, expected.parse::<u32>().unwrap(), "{key} of {partitions}");
            }
        });
        assert!(checked.count() > 10);
        assert_eq!(murmur2(b"\xff\x80\x00\xfe\x81") as i32, 1_700_763_136);
    }

    #[test]
    fn an_event_id_is_stable_and_of_its_client() {
        let position = SourcePosition { topic: "mongo.wnx-identity.users".into(), partition: 3, offset: 42 };
        let a = EventId::derive(&position, 1_767_225_600_000, &ClientId::new("a"));
        assert_eq!(a, EventId::derive(&position, 1_767_225_600_000, &ClientId::new("a")));
        assert_eq!(a.as_str().len(), 30);
        assert_ne!(a, EventId::derive(&position, 1_767_225_600_000, &ClientId::new("b")));
        assert_ne!(a, EventId::derive(&position, 1_767_225_600_001, &ClientId::new("a")));
    }

    #[test]
    fn a_resync_repeats_an_id_only_with_its_body() {
        let id = |run, document, body: &str| EventId::of_resync(run, document, body.as_bytes());
        let one = id("resync-a/1", "identity.users:1", "{}");
        assert_eq!(one, id("resync-a/1", "identity.users:1", "{}"));
        assert!(one.as_str().starts_with("rs_") && one.as_str().len() == 29, "{one}");
        for other in [id("resync-a/2", "identity.users:1", "{}"), id("resync-a/1", "identity.users:1", "[]")]
        {
            assert_ne!(one, other);
        }
        assert_ne!(id("a", "bc", ""), id("ab", "c", ""));
    }

    #[test]
    fn a_sequence_reads_what_it_writes() {
        let sequence = Sequence { incarnation: 1, partition: 11, offset: 12_345 };
        assert_eq!(sequence.to_string().parse(), Ok(sequence));
        assert!("1-2".parse::<Sequence>().is_err());
        assert!("1-2-3-4".parse::<Sequence>().is_err());
    }
}
