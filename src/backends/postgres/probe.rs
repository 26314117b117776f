//! Looks at a PostgreSQL server from outside: on a session of its own, changing nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use diesel::sql_types::{BigInt, Bool, Integer, Text};
use diesel::{OptionalExtension as _, QueryResult, QueryableByName};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};

use super::connect::Connector;
use super::migrations;
use super::options::{OpenError, PostgresOptions};
use crate::ports::clock::{Clock as _, SystemClock};
use crate::ports::findings::Findings;

/// The first version with what the queries use.
const LEAST_VERSION: i32 = 12;

const ANSWER_WITHIN: Duration = Duration::from_secs(3);

#[derive(QueryableByName)]
struct Server {
    #[diesel(sql_type = Integer)]
    version_number: i32,
    #[diesel(sql_type = Text)]
    version: String,
    #[diesel(sql_type = BigInt)]
    now_ms: i64,
    #[diesel(sql_type = Text)]
    fsync: String,
    #[diesel(sql_type = Text)]
    synchronous_commit: String,
    #[diesel(sql_type = Bool)]
    has_schema: bool,
    #[diesel(sql_type = Bool)]
    may_create: bool,
    #[diesel(sql_type = Bool)]
    has_migrations: bool,
}

/// The schema is the first of the session's search path, there or not.
const SERVER: &str = "
    SELECT current_setting('server_version_num')::int AS version_number,
        current_setting('server_version') AS version,
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
        current_setting('fsync') AS fsync,
        current_setting('synchronous_commit') AS synchronous_commit,
        EXISTS (SELECT FROM pg_namespace WHERE nspname = $1) AS has_schema,
        CASE WHEN EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)
            THEN (SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1)
            ELSE has_database_privilege(current_database(), 'CREATE') END AS may_create,
        EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = '__diesel_schema_migrations') AS has_migrations";

#[derive(QueryableByName)]
struct Remembered {
    #[diesel(sql_type = BigInt)]
    partitions: i64,
}

const REMEMBERED: &str =
    "SELECT partitions FROM transfer_logs WHERE name = $1 ORDER BY incarnation DESC LIMIT 1";

#[derive(QueryableByName)]
struct Applied {
    #[diesel(sql_type = Text)]
    version: String,
}

/// Looks whether the server can hold the tables. Returns the partitions that are remembered of the transfer log of this name;
/// `None`: it was never used, or that was not seen.
pub async fn probe(options: &PostgresOptions, transfer_log: &str, findings: &mut Findings) -> Option<u32> {
    let options = PostgresOptions { connect_timeout: ANSWER_WITHIN, ..options.clone() };
    let connected = match Connector::new(&options) {
        Ok(connector) => {
            let schema = connector.schema().to_owned();
            connector.connect().await.map(|session| (session.connection, schema))
        }
        Err(err) => Err(err),
    };
    let (mut connection, schema) = match connected {
        Ok(connected) => connected,
        Err(err) => {
            let advice = match &err {
                OpenError::Options(_) => "correct the settings of [postgres]",
                OpenError::Rejected(_) => {
                    "set POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB; the database must exist"
                }
                _ => "start it, or set POSTGRES_HOST and POSTGRES_PORT, or POSTGRES_URL; name the primary",
            };
            findings.fault("connection", err.to_string(), advice);
            return None;
        }
    };
    findings.ok("connection", "answers, and takes writes");
    look(&mut connection, &schema, transfer_log, findings).await.unwrap_or_else(|err| {
        findings.fault("queries", err.to_string(), "let the role of the service own the schema");
        None
    })
}

async fn look(
    connection: &mut AsyncPgConnection,
    schema: &str,
    transfer_log: &str,
    findings: &mut Findings,
) -> QueryResult<Option<u32>> {
    let before = SystemClock.now_ms();
    let server: Server = diesel::sql_query(SERVER).bind::<Text, _>(schema).get_result(connection).await?;
    findings.clock(server.now_ms, before, SystemClock.now_ms());
    judge(&server, schema, findings);
    let applied = if server.has_migrations {
        diesel::sql_query("SELECT version FROM __diesel_schema_migrations")
            .load::<Applied>(connection)
            .await?
    } else {
        Vec::new()
    };
    let applied: BTreeSet<String> = applied.into_iter().map(|row| row.version).collect();
    tables(&applied, &migrations::versions(), findings);
    if applied.is_empty() {
        return Ok(None);
    }
    let remembered: Option<Remembered> = diesel::sql_query(REMEMBERED)
        .bind::<Text, _>(transfer_log)
        .get_result(connection)
        .await
        .optional()?;
    Ok(remembered.and_then(|log| log.partitions.try_into().ok()))
}

fn judge(server: &Server, schema: &str, findings: &mut Findings) {
    if server.version_number / 10_000 >= LEAST_VERSION {
        findings.ok("version", &server.version);
    } else {
        findings.fault("version", &server.version, format!("use {LEAST_VERSION} or newer"));
    }
    let durable = format!("fsync {}, synchronous_commit {} for us", server.fsync, server.synchronous_commit);
    if server.fsync == "on" {
        findings.ok("durability", durable);
    } else {
        let advice = "set fsync=on: what was acknowledged is lost with the power";
        findings.warning("durability", durable, advice);
    }
    match (server.has_schema, server.may_create) {
        (true, true) => findings.ok("schema", format!("{schema} is there")),
        (false, true) => findings.ok("schema", format!("{schema} will be made")),
        (true, false) => findings.fault(
            "schema",
            format!("no table can be made in {schema}"),
            format!("GRANT USAGE, CREATE ON SCHEMA \"{schema}\" TO the role of the service"),
        ),
        (false, false) => findings.fault(
            "schema",
            format!("{schema} is missing, and cannot be made"),
            format!("CREATE SCHEMA \"{schema}\" AUTHORIZATION the role of the service"),
        ),
    }
}

/// Compares what was applied to the tables with what this build knows.
fn tables(applied: &BTreeSet<String>, known: &BTreeSet<String>, findings: &mut Findings) {
    let newer = applied.difference(known).count();
    let missing = known.difference(applied).count();
    if newer > 0 {
        findings.warning(
            "tables",
            format!("migrations of a newer version: {newer}"),
            "run that version or a newer one: this one may not fit the tables any more",
        );
    } else if missing > 0 {
        findings.ok("tables", format!("migrations that run at the next start: {missing}"));
    } else {
        findings.ok("tables", format!("up to date, migrations: {}", applied.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::findings::Outcome;

    fn good() -> Server {
        Server {
            version_number: 150_008,
            version: "15.8".to_owned(),
            now_ms: 0,
            fsync: "on".to_owned(),
            synchronous_commit: "on".to_owned(),
            has_schema: false,
            may_create: true,
            has_migrations: false,
        }
    }

    fn outcomes(server: &Server) -> Vec<Outcome> {
        let mut findings = Findings::of("postgres");
        judge(server, "dispatcher", &mut findings);
        findings.into_list().into_iter().map(|finding| finding.outcome).collect()
    }

    #[test]
    fn what_the_server_says_is_judged() {
        use Outcome::{Fault, Ok, Warning};
        assert_eq!(outcomes(&good()), [Ok, Ok, Ok]);
        assert_eq!(outcomes(&Server { version_number: 110_022, ..good() }), [Fault, Ok, Ok]);
        assert_eq!(outcomes(&Server { fsync: "off".to_owned(), ..good() }), [Ok, Warning, Ok]);
        assert_eq!(outcomes(&Server { may_create: false, ..good() }), [Ok, Ok, Fault]);
        assert_eq!(outcomes(&Server { may_create: false, has_schema: true, ..good() }), [Ok, Ok, Fault]);
    }

    #[test]
    fn tables_of_a_newer_version_are_a_warning() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let outcome = |applied: &[&str], known: &[&str]| {
            let mut findings = Findings::of("postgres");
            tables(&set(applied), &set(known), &mut findings);
            findings.into_list()[0].outcome
        };
        assert_eq!(outcome(&["1", "2"], &["1"]), Outcome::Warning);
        assert_eq!(outcome(&["1"], &["1", "2"]), Outcome::Ok);
        assert_eq!(outcome(&["1"], &["1"]), Outcome::Ok);
    }
}
