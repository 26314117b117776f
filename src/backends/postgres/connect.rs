//! How a connection is opened, and what holds for every session.

use std::time::Duration;

use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{Client, Config, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::options::{OpenError, PostgresOptions, TlsMode};
use super::tls;

/// For every session, behind the schema. A commit is on the disk (and on a synchronous standby) before it is answered,
/// whatever the server's default. A process that is stopped inside of a transaction is thrown out before the next owner of
/// its partitions has waited for as long as it would. Plans are made for the values at hand: a client has no rows, or
/// millions.
const SESSION: &str = "
    SET statement_timeout = '15s';
    SET lock_timeout = '10s';
    SET idle_in_transaction_session_timeout = '5s';
    SET synchronous_commit = on;
    SET default_transaction_isolation = 'read committed';
    SET plan_cache_mode = force_custom_plan;
    SET jit = off;";

/// A session, and the task that moves its bytes.
pub(super) struct Session {
    pub(super) connection: AsyncPgConnection,
    driver: JoinHandle<()>,
}

impl Session {
    /// Whether the other side has gone.
    pub(super) fn is_closed(&self) -> bool {
        self.driver.is_finished()
    }
}

/// Opens sessions.
pub(super) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    schema: String,
    timeout: Duration,
}

impl Connector {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, OpenError> {
        let schema = options.schema()?;
        let (mut config, tls_mode) = match &options.url {
            Some(url) => read_url(url.expose(), options.tls)?,
            None => {
                let mut config = Config::new();
                config.host(&options.host).port(options.port).dbname(&options.database).user(&options.user);
                if let Some(password) = &options.password {
                    config.password(password.expose());
                }
                (config, options.tls)
            }
        };
        config
            .application_name("dispatcher")
            .connect_timeout(options.connect_timeout)
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .keepalives_idle(Duration::from_secs(30))
            .ssl_mode(match tls_mode {
                TlsMode::Disable => SslMode::Disable,
                TlsMode::Prefer => SslMode::Prefer,
                TlsMode::Require | TlsMode::VerifyFull => SslMode::Require,
            });
        let tls = tls::connector(tls_mode, options.extra_roots.as_deref())?;
        Ok(Self { config, tls, schema, timeout: options.connect_timeout })
    }

    /// The schema that holds the tables.
    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Opens a session. It is bounded in time, also against a server that takes the connection and says nothing.
    pub(super) async fn connect(&self) -> Result<Session, OpenError> {
        let late = |_| OpenError::Unavailable(format!("no connection within {:?}", self.timeout));
        tokio::time::timeout(self.timeout, self.open()).await.map_err(late)?
    }

    async fn open(&self) -> Result<Session, OpenError> {
        let (client, driver) = match &self.tls {
            None => drive(self.config.connect(NoTls).await.map_err(refused)?),
            Some(tls) => drive(self.config.connect(tls.clone()).await.map_err(refused)?),
        };
        let failed = |error: &dyn std::fmt::Display| OpenError::Unavailable(error.to_string());
        let mut connection = AsyncPgConnection::try_from(client).await.map_err(|error| failed(&error))?;
        let settings = format!("SET search_path TO \"{}\";{SESSION}", self.schema);
        connection.batch_execute(&settings).await.map_err(|error| failed(&error))?;
        Ok(Session { connection, driver })
    }
}

/// The connection ends with its client, or with an error that every statement on it gets as well.
fn drive<T>((client, connection): (Client, tokio_postgres::Connection<Socket, T>)) -> (Client, JoinHandle<()>)
where
    T: TlsStream + Unpin + Send + 'static,
{
    let driver = tokio::spawn(async move {
        if let Err(err) = connection.await {
            log::debug!("connection to postgres ended err={err}");
        }
    });
    (client, driver)
}

fn refused(error: tokio_postgres::Error) -> OpenError {
    /// Invalid authorization, and a database that does not exist.
    const REJECTED: [&str; 3] = ["28000", "28P01", "3D000"];
    match error.code() {
        Some(code) if REJECTED.contains(&code.code()) => OpenError::Rejected(with_causes(&error)),
        _ => OpenError::Unavailable(with_causes(&error)),
    }
}

/// The driver's errors say what it did, their causes say why that failed.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The driver does not know `verify-full`: the mode is taken out of the address. It is read as text: with several hosts it
/// is no URL.
fn read_url(text: &str, otherwise: TlsMode) -> Result<(Config, TlsMode), OpenError> {
    // Neither error may name the address: it holds a password.
    let broken = |why: &dyn std::fmt::Display| OpenError::Options(format!("the address of postgres: {why}"));
    let (address, query) = text.split_once('?').unwrap_or((text, ""));
    let (modes, others): (Vec<_>, Vec<_>) =
        query.split('&').partition(|parameter| parameter.starts_with("sslmode="));
    let tls = match modes.last().and_then(|mode| mode.split_once('=')) {
        Some((_, mode)) => mode.parse().map_err(|err: String| broken(&format!("sslmode: {err}")))?,
        None => otherwise,
    };
    let others = others.join("&");
    let address = if others.is_empty() { address.to_owned() } else { format!("{address}?{others}") };
    Ok((address.parse().map_err(|err: tokio_postgres::Error| broken(&with_causes(&err)))?, tls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::Secret;

    fn of_url(url: &str) -> Result<Connector, OpenError> {
        Connector::new(&PostgresOptions { url: Some(Secret::new(url)), ..Default::default() })
    }

    #[test]
    fn an_address_tells_everything() {
        let connector = of_url("postgres://me:p%40ss@db.example:6000/wnx?sslmode=verify-full").unwrap();
        assert_eq!(connector.config.get_dbname(), Some("wnx"));
        assert_eq!(connector.config.get_password(), Some(&b"p@ss"[..]));
        assert_eq!(connector.config.get_ports(), [6000]);
        assert_eq!(connector.config.get_ssl_mode(), SslMode::Require);
        assert!(connector.tls.is_some());
        assert!(of_url("postgres://db/wnx?sslmode=disable").unwrap().tls.is_none());
        let standby = of_url("postgres://a:1,b:2/wnx?sslmode=disable&connect_timeout=2").unwrap();
        assert_eq!(standby.config.get_ports(), [1, 2]);
    }

    #[test]
    fn a_broken_address_is_told_without_its_password() {
        for url in ["postgres://me:hidden@db:70000/x", "postgres://me:hidden@db/x?sslmode=maybe", "hidden"] {
            let error = of_url(url).err().unwrap();
            assert!(matches!(error, OpenError::Options(_)), "{error}");
            assert!(!error.to_string().contains("hidden"), "{error}");
        }
    }
}
