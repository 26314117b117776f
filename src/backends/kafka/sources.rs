//! The topics of the source stream: those that there are, and those that will be.

use std::sync::Arc;

/// `<prefix>.<db>.<collection>`.
#[derive(Debug, Clone)]
pub(super) struct SourceTopics {
    prefix: Arc<str>,
}

impl SourceTopics {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    /// Whether this topic is one of them.
    pub(super) fn contains(&self, topic: &str) -> bool {
        topic.strip_prefix(&*self.prefix).is_some_and(|rest| rest.starts_with('.'))
    }

    /// What a consumer subscribes to.
    pub(super) fn subscription(&self) -> String {
        format!("^{}\\..*", escaped(&self.prefix))
    }
}

impl std::fmt::Display for SourceTopics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.*", self.prefix)
    }
}

fn escaped(name: &str) -> String {
    let mut pattern = String::new();
    for character in name.chars() {
        if !character.is_ascii_alphanumeric() && !matches!(character, '_' | '-') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_topics_are_told_from_others() {
        let sources = SourceTopics::new("mongo");
        for topic in ["mongo.wnx-identity.users", "mongo.x"] {
            assert!(sources.contains(topic), "{topic}");
        }
        for topic in
            ["mongo", "mongodb.a.b", "__debezium-heartbeat.mongo", "dispatcher-events", "dispatcher-transfer"]
        {
            assert!(!sources.contains(topic), "{topic}");
        }
        assert_eq!(SourceTopics::new("m.o").subscription(), r"^m\.o\..*");
    }
}
