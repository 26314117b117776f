//! Where MongoDB is: the platform's settings made into a connection string.

use std::fmt::Write;

use mongodb::options::ConnectionString;

use crate::domain::config::Secret;

/// How to reach MongoDB.
#[derive(Debug, Clone)]
pub struct MongoOptions {
    /// `host`, `a:27017,b:27017`, or a whole `mongodb://` or `mongodb+srv://` URI, which may hold a password.
    pub hosts: Secret,
    /// The user, when there is none in the URI.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
    /// The database in which the user is looked up, when neither the URI nor `query` says so.
    pub database: Option<String>,
    /// Options as they stand in a URI: `replicaSet=rs0&authSource=admin`.
    pub query: Option<String>,
    /// Databases are `<prefix>-<name>`.
    pub prefix: String,
}

/// The options of MongoDB cannot be used. Quotes nothing secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MongoOptionsError {
    /// The parts make no connection string.
    #[error("not a MongoDB address: {0}")]
    Address(String),
    /// The URI cannot be read. What is wrong may be a part of the password, so it is not quoted.
    #[error("not a MongoDB URI (user and password in it must be percent-encoded)")]
    Uri,
}

impl MongoOptions {
    pub(super) fn connection_string(&self) -> Result<ConnectionString, MongoOptionsError> {
        let uri = self.uri();
        ConnectionString::parse(&uri).map_err(|err| {
            // A password that is not encoded is taken for a host, and quoted.
            if self.hosts.expose().contains('@') {
                MongoOptionsError::Uri
            } else {
                MongoOptionsError::Address(message(&err))
            }
        })
    }

    fn uri(&self) -> String {
        let given = self.hosts.expose().trim();
        let (scheme, rest) = given.split_once("://").unwrap_or(("mongodb", given));
        let (rest, own_query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, own_database) = match rest.rsplit_once('/') {
            // A slash before the last @ is a fault that the driver finds.
            Some((authority, database)) if !database.contains('@') => (authority, database),
            _ => (rest, ""),
        };
        let mut uri = format!("{scheme}://");
        if let Some(user) = self.user.as_deref().filter(|_| !authority.contains('@')) {
            uri.push_str(&encoded(user));
            if let Some(password) = &self.password {
                uri.push(':');
                uri.push_str(&encoded(password.expose()));
            }
            uri.push('@');
        }
        uri.push_str(authority);
        uri.push('/');
        match (own_database, &self.database) {
            // Without a user it would say nothing.
            ("", Some(database)) if uri.contains('@') => uri.push_str(&encoded(database)),
            _ => uri.push_str(own_database),
        }
        let query = self.query.as_deref().unwrap_or("").trim_start_matches('?');
        let queries = [own_query, query].into_iter().filter(|query| !query.is_empty()).collect::<Vec<_>>();
        if !queries.is_empty() {
            uri.push('?');
            uri.push_str(&queries.join("&"));
        }
        uri
    }
}

fn message(err: &mongodb::error::Error) -> String {
    match &*err.kind {
        mongodb::error::ErrorKind::InvalidArgument { message, .. } => message.clone(),
        _ => err.to_string(),
    }
}

/// Percent-encoded, all but what never needs it.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(hosts: &str) -> MongoOptions {
        MongoOptions {
            hosts: Secret::new(hosts),
            user: None,
            password: None,
            database: None,
            query: None,
            prefix: "wnx".into(),
        }
    }

    #[test]
    fn the_platforms_settings_make_a_connection_string() {
        assert_eq!(options("a").uri(), "mongodb://a/");
        assert_eq!(options("a:1,b:2").uri(), "mongodb://a:1,b:2/");
        let full = MongoOptions {
            user: Some("u@x".into()),
            password: Some(Secret::new("p/:%ü")),
            database: Some("platform".into()),
            query: Some("replicaSet=rs0&authSource=admin".into()),
            ..options("a:1,b:2")
        };
        let uri = "mongodb://u%40x:p%2F%3A%25%C3%BC@a:1,b:2/platform?replicaSet=rs0&authSource=admin";
        assert_eq!(full.uri(), uri);
        let parsed = full.connection_string().unwrap();
        let credential = parsed.credential.unwrap();
        assert_eq!(credential.username.as_deref(), Some("u@x"));
        assert_eq!(credential.source.as_deref(), Some("admin"));
        assert_eq!(parsed.replica_set.as_deref(), Some("rs0"));
    }

    #[test]
    fn a_whole_uri_stays_and_may_be_completed() {
        assert_eq!(options("mongodb://u:p@a/db?w=1").uri(), "mongodb://u:p@a/db?w=1");
        let more = MongoOptions {
            user: Some("other".into()),
            database: Some("other".into()),
            query: Some("?tls=true".into()),
            ..options("mongodb+srv://u:p@cluster.test/db?w=1")
        };
        assert_eq!(more.uri(), "mongodb+srv://u:p@cluster.test/db?w=1&tls=true");
        let with_user = MongoOptions {
            user: Some("u".into()),
            password: Some(Secret::new("p")),
            database: Some("db".into()),
            ..options("mongodb://a")
        };
        assert_eq!(with_user.uri(), "mongodb://u:p@a/db");
        assert_eq!(MongoOptions { database: Some("db".into()), ..options("a") }.uri(), "mongodb://a/");
    }

    #[test]
    fn what_is_wrong_is_said_without_secrets() {
        let secret = "hunter2";
        for hosts in ["mongodb://u:hunter2/x@a", "mongodb://u:hunter2:@@a", "mongodb://u:%zzhunter2@a"] {
            let err = options(hosts).connection_string().unwrap_err();
            assert!(!format!("{err} {err:?}").contains(secret), "{err}");
        }
        assert!(!format!("{:?}", options("mongodb://u:hunter2@a")).contains(secret));
        for (hosts, query) in [("", ""), ("http://a", ""), ("a:port", ""), ("a", "tls=perhaps")] {
            let options = MongoOptions { query: Some(query.into()), ..options(hosts) };
            assert!(options.connection_string().is_err(), "{hosts} {query}");
        }
    }
}
