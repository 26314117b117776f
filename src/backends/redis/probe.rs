//! Looks at a Redis server from outside: on a connection of its own, leaving nothing behind.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};

use super::{Keys, RedisOptions, RedisOptionsError, client};
use crate::ports::clock::{Clock as _, SystemClock};
use crate::ports::findings::Findings;

/// The least version that BullMQ's scripts run on.
const LEAST_VERSION: (u32, u32) = (6, 2);

const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Looks whether the server can hold our keys. Returns those of the roles that a replica has; `None`: nobody can tell.
pub async fn probe(
    options: &RedisOptions,
    roles: &[&'static str],
    findings: &mut Findings,
) -> Option<Vec<&'static str>> {
    let Some(client) = client(options) else {
        findings.fault("settings", RedisOptionsError.to_string(), "correct REDIS_URL");
        return None;
    };
    let mut connection = match connect(&client).await {
        Ok(connection) => connection,
        Err(err) => {
            let advice = "start it, or set REDIS_HOST, REDIS_PORT and REDIS_PASSWORD, or REDIS_URL (rediss:// for TLS)";
            findings.fault("connection", err.to_string(), advice);
            return None;
        }
    };
    if let Err(err) = look(&mut connection, &options.prefix, findings).await {
        findings.fault(
            "commands",
            err.to_string(),
            "let the user of the service run PING, INFO, TIME, SET and DEL",
        );
    }
    held(&mut connection, &Keys { prefix: options.prefix.clone() }, roles).await.ok()
}

async fn held(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    roles: &[&'static str],
) -> RedisResult<Vec<&'static str>> {
    let names: Vec<String> = roles.iter().map(|role| keys.role(role)).collect();
    let held: Vec<Option<String>> = redis::cmd("MGET").arg(names).query_async(connection).await?;
    Ok(roles.iter().zip(held).filter_map(|(role, held)| held.map(|_| *role)).collect())
}

async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_WITHIN))
        .set_response_timeout(Some(ANSWER_WITHIN));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    redis::cmd("PING").query_async::<()>(&mut connection).await?;
    Ok(connection)
}

async fn look(
    connection: &mut MultiplexedConnection,
    prefix: &str,
    findings: &mut Findings,
) -> RedisResult<()> {
    findings.ok("connection", "answers PING");
    let info: String = redis::cmd("INFO").query_async(connection).await?;
    judge(&info, findings);
    write(connection, prefix, findings).await;
    let before = SystemClock.now_ms();
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(connection).await?;
    findings.clock(seconds * 1000 + micros / 1000, before, SystemClock.now_ms());
    Ok(())
}

/// Writes a key that goes by itself, and takes it away.
async fn write(connection: &mut MultiplexedConnection, prefix: &str, findings: &mut Findings) {
    let key = format!("{prefix}:dsp:check:{:016x}", fastrand::u64(..));
    let written: RedisResult<()> =
        redis::cmd("SET").arg(&key).arg(1).arg("PX").arg(5000).query_async(connection).await;
    let deleted: RedisResult<()> = redis::cmd("DEL").arg(&key).query_async(connection).await;
    match written.and(deleted) {
        Ok(()) => findings.ok("writing", format!("a key {prefix}:dsp:… can be written")),
        Err(err) => findings.fault(
            "writing",
            err.to_string(),
            format!("let the user of the service write {prefix}:dsp:* and the keys of the queues"),
        ),
    }
}

/// What `INFO` says of the version and of what happens to the data.
fn judge(info: &str, findings: &mut Findings) {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
            .unwrap_or_default()
    };
    let version = field("redis_version");
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let is_new_enough = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= LEAST_VERSION;
    if is_new_enough {
        findings.ok("version", version);
    } else {
        let (major, minor) = LEAST_VERSION;
        findings.fault("version", format!("{version:?}"), format!("use {major}.{minor} or newer"));
    }
    if field("role") == "slave" {
        findings.fault("role", "a read-only replica", "name the primary");
    }
    match field("maxmemory_policy") {
        policy @ ("noeviction" | "") => {
            findings.ok("eviction", if policy.is_empty() { "not told" } else { policy })
        }
        policy => findings.fault(
            "eviction",
            format!("maxmemory-policy is {policy}: keys of the queues may vanish in the middle of a job"),
            "set maxmemory-policy to noeviction",
        ),
    }
    if field("cluster_enabled") == "1" {
        findings.warning(
            "cluster",
            "Redis Cluster: the keys of a queue must lie on one node",
            "set queue.prefix to a name in braces, \"{bull}\", for every program that uses the queues",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::Secret;
    use crate::ports::findings::{Finding, Outcome};

    fn judged(info: &str) -> Vec<(&'static str, Outcome)> {
        let mut findings = Findings::of("redis");
        judge(info, &mut findings);
        findings.into_list().into_iter().map(|Finding { check, outcome, .. }| (check, outcome)).collect()
    }

    #[test]
    fn what_info_says_is_judged() {
        let old = "# Server\r\nredis_version:6.0.16\r\nrole:slave\r\nmaxmemory_policy:allkeys-lru\r\ncluster_enabled:1\r\n";
        assert_eq!(
            judged(old),
            [
                ("version", Outcome::Fault),
                ("role", Outcome::Fault),
                ("eviction", Outcome::Fault),
                ("cluster", Outcome::Warning)
            ]
        );
        let good =
            "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\ncluster_enabled:0\r\n";
        assert_eq!(judged(good), [("version", Outcome::Ok), ("eviction", Outcome::Ok)]);
        assert_eq!(judged("redis_version:6.2.0")[0].1, Outcome::Ok);
        assert_eq!(judged("redis_version:10.1")[0].1, Outcome::Ok);
        assert_eq!(judged("nothing of the kind")[0].1, Outcome::Fault);
    }

    #[actix_rt::test]
    async fn a_server_that_is_not_there_is_one_fault() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://:hunter2@{}/", listener.local_addr().unwrap());
        drop(listener);
        let mut findings = Findings::of("redis");
        let options = RedisOptions { url: Secret::new(url), password: None, prefix: "wnx".to_owned() };
        assert_eq!(probe(&options, &["heavy"], &mut findings).await, None);
        let list = findings.into_list();
        assert_eq!(list.len(), 1);
        assert!(list[0].outcome == Outcome::Fault && !list[0].found.contains("hunter2"), "{list:?}");
    }
}
