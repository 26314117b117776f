//! `dispatcher check`: what it says of settings that fit, and of those that do not.

use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::kit::service::{Service, command, text};

/// Runs the check with this environment.
fn check(environment: &[(String, String)], arguments: &[&str]) -> Output {
    let arguments: Vec<&str> = std::iter::once("check").chain(arguments.iter().copied()).collect();
    command(&arguments).envs(environment.iter().map(|(name, value)| (name, value))).output().unwrap()
}

fn embedded(data: &Path, port: u16) -> Vec<(String, String)> {
    let variables =
        [("DISPATCHER_DATA_DIR", data.display().to_string()), ("DISPATCHER_API_PORT", port.to_string())];
    variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The findings as JSON.
fn findings(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The worst that was found of something.
fn outcome(findings: &[Value], dependency: &str, check: &str) -> String {
    let of_it = findings.iter().filter(|found| found["dependency"] == dependency && found["check"] == check);
    let outcomes: Vec<&str> = of_it.filter_map(|found| found["outcome"].as_str()).collect();
    ["fault", "warning", "ok"]
        .into_iter()
        .find(|outcome| outcomes.contains(outcome))
        .unwrap_or("none")
        .to_owned()
}

#[test]
fn a_port_that_is_taken_is_a_fault_with_advice_and_exit_1() {
    let folder = tempfile::tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = check(&embedded(folder.path(), other.local_addr().unwrap().port()), &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("FAULT") && table.contains("-> set DISPATCHER_API_PORT"), "{table}");
    assert!(text(&output.stderr).contains("1 fault of "), "{}", text(&output.stderr));
}

#[test]
fn wrong_settings_are_exit_2() {
    let folder = tempfile::tempdir().unwrap();
    let mut environment = embedded(folder.path(), 0);
    environment.push(("DISPATCHER_MODE".to_owned(), "both".to_owned()));
    assert_eq!(check(&environment, &[]).status.code(), Some(2));
}

#[test]
fn a_machine_that_fits_is_exit_0_and_nothing_is_left_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = check(&embedded(&folder.path().join("data"), 0), &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let findings = findings(&output);
    assert!(findings.iter().all(|found| found["outcome"] != "fault"), "{findings:?}");
    assert_eq!(outcome(&findings, "embedded", "folder"), "ok");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[actix_web::test]
async fn a_service_that_runs_is_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::shared().data(folder.path()).start().await;
    let port = service.api().url().rsplit(':').next().unwrap().parse().unwrap();
    let output = check(&embedded(folder.path(), port), &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(outcome(&findings(&output), "embedded", "lock"), "ok");
}

#[cfg(feature = "cluster")]
mod cluster {
    use std::time::{Duration, Instant};

    use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
    use rdkafka::client::DefaultClientContext;

    use super::*;
    use crate::kit::cluster::Cluster;
    use crate::kit::service::free_port;
    use crate::services::{self, Kind, USER};

    fn stores_that_fit() -> Vec<(String, String)> {
        let cluster = Cluster::shared("check");
        let mut environment = cluster.environment();
        environment.push(("DISPATCHER_API_PORT".to_owned(), "0".to_owned()));
        environment
    }

    fn with(mut environment: Vec<(String, String)>, variables: &[(&str, &str)]) -> Vec<(String, String)> {
        environment.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        environment
    }

    #[test]
    fn stores_that_fit_are_exit_0_and_stay_as_they_were() {
        let environment = stores_that_fit();
        for _ in 0..2 {
            let output = check(&environment, &["--json"]);
            let findings = findings(&output);
            assert_eq!(output.status.code(), Some(0), "{findings:#?}");
            for dependency in ["kafka", "redis", "mongo", "postgres"] {
                assert_eq!(outcome(&findings, dependency, "connection"), "ok", "{dependency}");
            }
            for (dependency, check) in [
                ("redis", "clock"),
                ("postgres", "clock"),
                ("mongo", "configs"),
                ("kafka", "events topic"),
                ("kafka", "transactions"),
                ("queues", "dispatcher"),
                ("queues", "dispatcher-heavy"),
                ("replicas", "roles"),
            ] {
                assert_eq!(outcome(&findings, dependency, check), "ok", "{dependency} {check}");
            }
            // The second look still says so: the first made nothing.
            let said = |check: &str| {
                let found = findings.iter().find(|found| found["check"] == check).unwrap();
                found["found"].as_str().unwrap().to_owned()
            };
            assert!(said("transfer topic").contains("will be made"), "{findings:#?}");
            assert!(said("schema").contains("will be made"), "{findings:#?}");
        }
    }

    #[actix_web::test]
    async fn the_partitions_of_the_transfer_log_are_compared_with_what_the_service_remembers() {
        let cluster = Cluster::shared("partitions");
        drop(cluster.replica().start().await);
        let config = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(config.path(), "[transfer]\npartitions = 5\n").unwrap();
        let config = config.path().display().to_string();
        let partitions = |arguments: &[&str]| {
            let environment = with(cluster.environment(), &[("DISPATCHER_API_PORT", "0")]);
            let output = check(&environment, arguments);
            let findings = findings(&output);
            outcome(&findings, "transfer log", "partitions")
        };

        assert_eq!(partitions(&["--json"]), "ok");
        assert_eq!(partitions(&["--json", "--config", &config]), "warning");

        let admin: AdminClient<DefaultClientContext> = rdkafka::ClientConfig::new()
            .set("bootstrap.servers", format!("{}:{}", cluster.kafka.host(), cluster.kafka.port()))
            .create()
            .unwrap();
        let topic = cluster.transfer_topic();
        let grown = admin.create_partitions(&[NewPartitions::new(&topic, 13)], &AdminOptions::new()).await;
        assert!(matches!(grown.unwrap().as_slice(), [Ok(_)]));
        assert_eq!(partitions(&["--json"]), "fault");
    }

    /// What shows only when the first change comes, the first job runs, or an operator wonders why nothing is done.
    #[test]
    fn what_would_stand_still_later_is_told_now() {
        let redis = services::own_redis();
        let mut keys = ::redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
        let policy = ["SET", "maxmemory-policy", "allkeys-lru"];
        ::redis::cmd("CONFIG").arg(&policy).exec(&mut keys).unwrap();
        let meta = ["bull:dispatcher:meta", "version", "bullmq:4.12.2"];
        ::redis::cmd("HSET").arg(&meta).exec(&mut keys).unwrap();
        let environment = with(
            stores_that_fit(),
            &[
                ("DISPATCHER_KAFKA__TRANSACTION_TIMEOUT_MS", "3600000"),
                ("DISPATCHER_ROLES", "ingest,web"),
                ("DISPATCHER_QUEUE_PREFIX", "bull"),
                ("REDIS_PORT", &redis.port().to_string()),
            ],
        );
        let output = check(&environment, &["--json"]);
        assert_eq!(output.status.code(), Some(1));
        let findings = findings(&output);
        for (dependency, check, expected) in [
            ("kafka", "transactions", "fault"),
            ("redis", "eviction", "fault"),
            ("queues", "dispatcher", "fault"),
            ("queues", "dispatcher-schedule", "ok"),
            ("replicas", "roles", "warning"),
        ] {
            assert_eq!(outcome(&findings, dependency, check), expected, "{dependency} {check}: {findings:#?}");
        }
    }

    #[test]
    fn each_store_that_is_away_is_named_with_what_to_do_in_time() {
        // Nobody listens there: the port belongs to a listener that is gone.
        let nowhere = free_port().to_string();
        let environment = with(
            stores_that_fit(),
            &[
                ("KAFKA_BROKERS", &format!("127.0.0.1:{nowhere}")),
                ("REDIS_PORT", &nowhere),
                ("MONGO_HOST", &format!("127.0.0.1:{nowhere}")),
                ("POSTGRES_PORT", &nowhere),
            ],
        );
        let begin = Instant::now();
        let output = check(&environment, &["--json"]);
        assert!(
            begin.elapsed() < Duration::from_secs(15),
            "side by side, each bounded: {:?}",
            begin.elapsed()
        );
        assert_eq!(output.status.code(), Some(1));
        let findings = findings(&output);
        for dependency in ["kafka", "redis", "mongo", "postgres"] {
            assert_eq!(outcome(&findings, dependency, "connection"), "fault", "{dependency}: {findings:#?}");
        }
        let faults = findings.iter().filter(|found| found["outcome"] == "fault");
        assert!(
            faults.into_iter().all(|found| !found["advice"].as_str().unwrap().is_empty()),
            "{findings:#?}"
        );
    }

    #[test]
    fn a_server_that_takes_the_connection_and_says_nothing_is_named_in_time() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port().to_string();
        let environment = with(
            stores_that_fit(),
            &[
                ("KAFKA_BROKERS", &format!("127.0.0.1:{port}")),
                ("REDIS_PORT", &port),
                ("MONGO_HOST", &format!("127.0.0.1:{port}")),
                ("POSTGRES_PORT", &port),
            ],
        );
        let begin = Instant::now();
        let output = check(&environment, &["--json"]);
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
        let findings = findings(&output);
        for dependency in ["kafka", "redis", "mongo", "postgres"] {
            let faults = findings
                .iter()
                .filter(|found| found["dependency"] == dependency && found["outcome"] == "fault");
            assert_eq!(faults.count(), 1, "{dependency}: {findings:#?}");
        }
    }

    #[test]
    fn a_wrong_password_is_a_fault_that_does_not_show_it() {
        let [kafka, redis, mongo, postgres] =
            [Kind::Kafka, Kind::Redis, Kind::Mongo, Kind::Postgres].map(services::own_with_password);
        let environment = with(
            stores_that_fit(),
            &[
                ("KAFKA_BROKERS", &format!("127.0.0.1:{}", kafka.port())),
                ("DISPATCHER_KAFKA__SECURITY_PROTOCOL", "SASL_PLAINTEXT"),
                ("DISPATCHER_KAFKA__SASL_MECHANISMS", "PLAIN"),
                ("DISPATCHER_KAFKA__SASL_USERNAME", USER),
                ("DISPATCHER_KAFKA__SASL_PASSWORD", "hunter2"),
                ("REDIS_PORT", &redis.port().to_string()),
                ("REDIS_PASSWORD", "hunter2"),
                ("MONGO_HOST", &format!("127.0.0.1:{}", mongo.port())),
                ("MONGO_USER", USER),
                ("MONGO_PASS", "hunter2"),
                ("POSTGRES_PORT", &postgres.port().to_string()),
                ("POSTGRES_PASSWORD", "hunter2"),
            ],
        );
        let output = check(&environment, &["--json"]);
        assert_eq!(output.status.code(), Some(1));
        let findings = findings(&output);
        for dependency in ["kafka", "redis", "mongo", "postgres"] {
            assert_eq!(outcome(&findings, dependency, "connection"), "fault", "{dependency}: {findings:#?}");
        }
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains("hunter2"), "{said}");
    }
}
