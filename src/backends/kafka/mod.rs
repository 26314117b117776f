//! The event log on Kafka.
