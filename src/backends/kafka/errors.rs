//! What an error of librdkafka means: by its code, never by its text.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::ports::StoreError;

/// Why the log could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The brokers or the registry cannot be asked right now: try again.
    #[error("kafka unavailable: {0}")]
    Unavailable(String),
    /// A setting that librdkafka does not take. Names the setting, not its value.
    #[error("librdkafka does not take {0}")]
    Option(String),
    /// A topic of ours would be read as a source topic.
    #[error("topic {topic} is one of the source topics, {sources}: choose another name")]
    SourceTopic {
        /// The topic.
        topic: String,
        /// What is read as source.
        sources: String,
    },
    /// A topic of ours has another number of partitions than it must have: a client would have two of them.
    #[error("topic {topic} has {found} partitions, but must have {expected}")]
    Partitions {
        /// The topic.
        topic: String,
        /// What it has.
        found: usize,
        /// What it was created with.
        expected: usize,
    },
    /// A topic of ours would forget records that are not delivered.
    #[error("topic {topic} has cleanup.policy {policy}, but must have delete")]
    CleanupPolicy {
        /// The topic.
        topic: String,
        /// What it has.
        policy: String,
    },
    /// The brokers do not let us.
    #[error("kafka refused: {0}")]
    Refused(String),
}

impl OpenError {
    /// Whether the same may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl From<StoreError> for OpenError {
    fn from(err: StoreError) -> Self {
        match err {
            StoreError::Unavailable(text) => Self::Unavailable(text),
            StoreError::Refused(text) | StoreError::Fenced(text) => Self::Refused(text),
        }
    }
}

/// An error while a client is made.
pub(super) fn open_error(err: KafkaError) -> OpenError {
    match err {
        KafkaError::ClientConfig(_, _, name, _) => OpenError::Option(name),
        err => OpenError::from(store_error(err)),
    }
}

impl From<KafkaError> for StoreError {
    fn from(err: KafkaError) -> Self {
        store_error(err)
    }
}

/// Reads librdkafka's error.
pub(super) fn store_error(err: KafkaError) -> StoreError {
    if let KafkaError::ClientConfig(_, _, name, _) = &err {
        return StoreError::Refused(format!("librdkafka does not take {name}"));
    }
    let code = err.rdkafka_error_code();
    let text = match &err {
        KafkaError::Transaction(err) => err.string(),
        err => err.to_string(),
    };
    code.map_or(StoreError::Unavailable(text.clone()), |code| classed(code, text))
}

/// An error code with what is said of it.
pub(super) fn classed(code: Code, text: String) -> StoreError {
    match code {
        Code::MessageSizeTooLarge
        | Code::InvalidRecord
        | Code::InvalidTopic
        | Code::TopicAuthorizationFailed
        | Code::PolicyViolation => StoreError::Refused(text),
        Code::IllegalGeneration
        | Code::UnknownMemberId
        | Code::FencedInstanceId
        | Code::AssignmentLost
        | Code::StaleMemberEpoch
        | Code::FencedMemberEpoch => StoreError::Fenced(text),
        _ => StoreError::Unavailable(text),
    }
}

/// What to do when the brokers never let us write transactions. `None`: they may later.
pub(super) fn refused_transactions(err: &KafkaError) -> Option<&'static str> {
    match err.rdkafka_error_code()? {
        Code::TransactionalIdAuthorizationFailed => {
            Some("allow Write and Describe on the transactional ids that begin with dispatcher-")
        }
        Code::ClusterAuthorizationFailed => Some("allow IdempotentWrite on the cluster"),
        Code::InvalidTransactionTimeout => Some(
            "lower transaction.timeout.ms in [kafka.options], or raise transaction.max.timeout.ms of the brokers",
        ),
        _ => None,
    }
}

/// Why a record was not written. What the brokers do not let us do says nothing of the record: it waits until somebody has let us.
pub(super) fn unwritten(code: Code, text: String) -> StoreError {
    match code {
        Code::TopicAuthorizationFailed => StoreError::Unavailable(text),
        _ => classed(code, text),
    }
}

/// The same, where librdkafka says it before it has asked: what the brokers told it before.
pub(super) fn unwritten_error(err: KafkaError) -> StoreError {
    match err.rdkafka_error_code() {
        Some(code @ Code::TopicAuthorizationFailed) => unwritten(code, err.to_string()),
        _ => store_error(err),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_classed_by_their_code() {
        let of = |code| store_error(KafkaError::ConsumerCommit(code));
        assert!(matches!(of(Code::IllegalGeneration), StoreError::Fenced(_)));
        assert!(matches!(of(Code::RebalanceInProgress), StoreError::Unavailable(_)));
        assert!(matches!(of(Code::AllBrokersDown), StoreError::Unavailable(_)));
        assert!(matches!(of(Code::MessageSizeTooLarge), StoreError::Refused(_)));
    }

    #[test]
    fn a_right_that_was_taken_away_makes_no_dead_letters() {
        let at_once = unwritten_error(KafkaError::MessageProduction(Code::TopicAuthorizationFailed));
        assert!(matches!(at_once, StoreError::Unavailable(_)), "{at_once:?}");
        let refused = unwritten_error(KafkaError::MessageProduction(Code::MessageSizeTooLarge));
        assert!(matches!(refused, StoreError::Refused(_)), "{refused:?}");
        let of = |code| unwritten(code, String::new());
        assert!(matches!(of(Code::InvalidRecord), StoreError::Refused(_)));
        assert!(of(Code::TopicAuthorizationFailed).is_transient());
    }

    #[test]
    fn a_refused_setting_is_named_without_its_value() {
        let mut config = rdkafka::ClientConfig::new();
        config.set("sasl.mechanisms", "PLAIN").set("security.protocol", "planted-secret");
        let err = config.create::<rdkafka::consumer::BaseConsumer>().err().map(open_error);
        assert_eq!(err, Some(OpenError::Option("security.protocol".to_owned())));
    }
}
