//! TLS to PostgreSQL, in libpq's modes.

use dispatcher::backends::postgres::{OpenError, PostgresOptions, TlsMode};

use super::{at, client, options};
use crate::fixture::soon;
use crate::services;

async fn open(options: &PostgresOptions, tls: TlsMode) -> Result<(), OpenError> {
    let postgres = super::open(&PostgresOptions { tls, ..options.clone() }).await?;
    postgres.health().await.unwrap();
    Ok(())
}

/// Writes lines into a file that only the server may read.
async fn write(client: &tokio_postgres::Client, path: &str, text: &str) {
    let lines = format!(
        "COPY (SELECT unnest(string_to_array('{}', E'\\n'))) TO PROGRAM 'umask 077; cat > {path}'",
        text.trim_end()
    );
    client.batch_execute(&lines).await.unwrap();
}

#[tokio::test]
async fn a_connection_is_as_safe_as_it_was_asked_for() {
    let server = services::own_postgres();
    let mut options = options(&server);
    assert_eq!(open(&options, TlsMode::Prefer).await, Ok(()), "without, if it has none");
    assert!(matches!(open(&options, TlsMode::Require).await, Err(OpenError::Unavailable(_))));

    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let admin = client(&options).await;
    let folder: String = admin.query_one("SHOW data_directory", &[]).await.unwrap().get(0);
    write(&admin, &format!("{folder}/server.crt"), &certified.cert.pem()).await;
    write(&admin, &format!("{folder}/server.key"), &certified.signing_key.serialize_pem()).await;
    admin.batch_execute("ALTER SYSTEM SET ssl = on").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    soon(async {
        while admin.query_one("SHOW ssl", &[]).await.unwrap().get::<_, String>(0) != "on" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // From now on nobody gets in without.
    write(&admin, &format!("{folder}/pg_hba.conf"), "hostssl all all 127.0.0.1/32 trust").await;
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let plain = soon(async {
        loop {
            if let Err(refused) = open(&options, TlsMode::Disable).await {
                return refused;
            }
        }
    })
    .await;
    assert!(matches!(plain, OpenError::Rejected(_)), "{plain:?}");
    assert_eq!(open(&options, TlsMode::Prefer).await, Ok(()));
    assert_eq!(open(&options, TlsMode::Require).await, Ok(()));
    let unknown = open(&options, TlsMode::VerifyFull).await;
    assert!(
        matches!(&unknown, Err(OpenError::Unavailable(why)) if why.contains("certificate")),
        "{unknown:?}"
    );
    options.extra_roots = Some(certified.cert.pem().into_bytes());
    assert_eq!(open(&options, TlsMode::VerifyFull).await, Ok(()));
    let elsewhere = at(&options, |url| url.set_host(Some("localhost")).unwrap());
    assert!(open(&elsewhere, TlsMode::VerifyFull).await.is_err(), "a certificate for another host");
}
