//! Brokers in memory, for the tests of what a real broker does seldom. They know topics, groups and transactions, and nothing of settings.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ends::Ends;
use super::gaps::Gaps;
use super::ingest::{Destinations, Limits};
use super::member::Member;
use super::options::{KafkaOptions, Start};
use super::producer::{Outgoing, Transactions};
use super::watch::Watch;
use super::{source, transfers};
use crate::domain::operational_event::OperationalEvent;
use crate::metrics::Metrics;
use crate::ports::clock::{Clock, SystemClock};
use crate::ports::event_log::BatchLimits;

pub(super) const LIMITS: BatchLimits = BatchLimits { records: 100, bytes: 1 << 20 };

/// A cluster, and readers of it.
pub(super) struct Mock {
    pub(super) cluster: MockCluster<'static, DefaultProducerContext>,
    pub(super) options: KafkaOptions,
    pub(super) told: Arc<Mutex<Vec<OperationalEvent>>>,
    pub(super) clock: Arc<dyn Clock>,
    members: watch::Sender<()>,
}

impl Mock {
    /// So many brokers, with the transfer topic.
    pub(super) fn new(brokers: i32, partitions: u32) -> Self {
        let cluster = MockCluster::new(brokers).unwrap();
        let options = KafkaOptions {
            brokers: cluster.bootstrap_servers(),
            options: BTreeMap::new(),
            source_prefix: "mongo".to_owned(),
            transfer_topic: "transfer".to_owned(),
            dead_topic: "dead".to_owned(),
            events_topic: "events".to_owned(),
            start: Start::Earliest,
            partitions,
            retention: Duration::from_secs(3600),
            session_timeout: Duration::from_secs(10),
        };
        cluster.create_topic(&options.transfer_topic, partitions as i32, 1).unwrap();
        let (told, members) = (Arc::default(), watch::Sender::new(()));
        Self { cluster, options, told, clock: Arc::new(SystemClock), members }
    }

    /// The next answer to a fetch says of every partition that it cannot be read where it is asked for.
    pub(super) fn give_up_once(&self) {
        self.cluster.request_errors(
            RDKafkaApiKey::Fetch,
            &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE],
        );
    }

    pub(super) fn produce(&self, records: &[Outgoing]) {
        let producer: BaseProducer = self.options.reader().create().unwrap();
        for record in records {
            let mut base = BaseRecord::<[u8], [u8]>::to(&record.topic).headers(record.headers.clone());
            (base.partition, base.key, base.payload) =
                (record.partition, record.key.as_deref(), record.value.as_deref());
            producer.send(base).map_err(|(err, _)| err).unwrap();
        }
        producer.flush(Duration::from_secs(10)).unwrap();
    }

    fn gaps(&self) -> Gaps {
        let told = Arc::clone(&self.told);
        let tell = Arc::new(move |event| told.lock().unwrap().push(event));
        Gaps::new(Metrics::new().gaps, tell, Arc::new(SystemClock))
    }

    fn ends(&self) -> Arc<Ends> {
        Arc::new(Ends::new(self.options.reader(), Watch::default()).unwrap())
    }

    pub(super) fn source(&self) -> source::Reader {
        source::Reader {
            config: self.options.member("g", 1 << 20),
            subscription: self.options.sources().subscription(),
            member: Member::new(Watch::default()),
            limits: LIMITS,
            destinations: Destinations {
                transfers: "transfer".into(),
                partitions: self.options.partitions,
                dead: "dead".into(),
                limits: Arc::new(Limits::new(1 << 20, 1 << 20)),
            },
            admin: Arc::new(self.options.reader().create_with_context(Watch::default()).unwrap()),
            ends: self.ends(),
            transactions: Transactions::new(
                self.options.producer("ingest", 1 << 20),
                self.options.transaction_timeout(),
                Watch::default(),
            ),
            gaps: self.gaps(),
            stop: CancellationToken::new(),
            left: Box::new(self.members.subscribe()),
        }
    }

    pub(super) fn transfers(&self) -> transfers::Reader {
        transfers::Reader {
            config: self.options.member("t", 1 << 20),
            topic: "transfer".into(),
            incarnation: 1,
            member: Member::new(Watch::default()),
            limits: LIMITS,
            session_timeout: self.options.session_timeout,
            clock: Arc::clone(&self.clock),
            ends: self.ends(),
            gaps: self.gaps(),
            watch: Watch::default(),
            stop: CancellationToken::new(),
            left: Box::new(self.members.subscribe()),
        }
    }
}

/// A record without headers.
pub(super) fn plain(topic: &str, value: &str) -> Outgoing {
    Outgoing {
        topic: topic.into(),
        partition: Some(0),
        key: None,
        value: Some(value.to_owned().into()),
        headers: rdkafka::message::OwnedHeaders::new(),
    }
}
