//! Looks at a MongoDB server from outside: on a client of its own, changing nothing.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;

use super::check::{self, MongoServer, PreImages, Topology};
use super::documents::{ConfigDocument, KEY, newest};
use super::link::{CALL, MongoLink, bounded};
use super::options::MongoOptions;
use crate::ports::StoreResult;
use crate::ports::clock::{Clock as _, SystemClock};
use crate::ports::findings::Findings;

/// Shorter than what the service is patient for: somebody waits for the table.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// As many clients or collections are named one by one.
const NAMED: usize = 10;

/// Looks whether the server holds the platform's databases as the service needs them.
pub async fn probe(options: &MongoOptions, findings: &mut Findings) {
    let link = match connect(options).await {
        Ok(link) => link,
        Err(problem) => {
            let advice = "start it, or set MONGO_HOST, MONGO_USER, MONGO_PASS and MONGO_QUERY, or MONGO_URL";
            return findings.fault("connection", cause(&problem), advice);
        }
    };
    findings.ok("connection", "answers ping");
    if let Err(err) = look(&link, &options.prefix, findings).await {
        let prefix = &options.prefix;
        let advice =
            format!("let the user of the service read {prefix}-* and write {prefix}-context.configs");
        findings.fault("commands", err.to_string(), advice);
    }
}

/// The driver tells all that it knows of all servers: what is wrong with the first is enough.
fn cause(problem: &str) -> &str {
    let of_server =
        problem.split_once("Servers: [").and_then(|(_, servers)| servers.split_once("Error: Kind: "));
    match of_server {
        Some((_, cause)) => cause.split(", labels").next().unwrap_or(cause),
        None => problem,
    }
}

async fn connect(options: &MongoOptions) -> Result<MongoLink, String> {
    let address = options.connection_string().map_err(|err| err.to_string())?;
    let connected = bounded(CALL, async {
        let mut options = ClientOptions::parse(address).await?;
        options.server_selection_timeout = Some(ANSWER_WITHIN);
        options.connect_timeout = Some(ANSWER_WITHIN);
        Client::with_options(options)
    });
    let client = connected.await.map_err(|err| err.to_string())?;
    let link = MongoLink::of(options, client).map_err(|err| err.to_string())?;
    link.ping().await.map_err(|err| err.to_string())?;
    Ok(link)
}

async fn look(link: &MongoLink, prefix: &str, findings: &mut Findings) -> StoreResult<()> {
    server(&check::server(link).await?, findings);
    let before = SystemClock.now_ms();
    let hello = bounded(CALL, link.database().await?.run_command(doc! { "hello": 1 })).await?;
    if let Ok(theirs) = hello.get_datetime("localTime") {
        findings.clock(theirs.timestamp_millis(), before, SystemClock.now_ms());
    }
    configs(link, findings).await?;
    if check::can_write(link).await? {
        findings.ok("writing", "configs can be updated");
    } else {
        let advice = format!(
            "let the user of the service update {prefix}-context.configs: else no client can be switched off"
        );
        findings.warning("writing", "configs cannot be updated", advice);
    }
    pre_images(&check::pre_images(link).await?, findings);
    Ok(())
}

fn server(server: &MongoServer, findings: &mut Findings) {
    findings.ok(
        "version",
        match &server.ferretdb {
            Some(ferretdb) => format!("FerretDB {ferretdb}, as MongoDB {}", server.version),
            None => server.version.clone(),
        },
    );
    match &server.topology {
        Topology::ReplicaSet(name) => findings.ok("kind", format!("replica set {name}")),
        Topology::Sharded => findings.ok("kind", "sharded cluster"),
        Topology::Standalone => findings.warning(
            "kind",
            "a single server: it has no change streams, so Debezium reads nothing from it",
            "make it a replica set (of one), and name it in MONGO_QUERY: replicaSet=rs0",
        ),
    }
}

/// How many clients could be served.
async fn configs(link: &MongoLink, findings: &mut Findings) -> StoreResult<()> {
    let configs = link.configs().await?;
    let read = async { configs.find(doc! { "key": KEY }).await?.try_collect().await };
    let stored: Vec<Document> = bounded(CALL, read).await?;
    let (mut documents, mut unusable) = (Vec::new(), Vec::new());
    for document in stored {
        let id = document.get("_id").map(ToString::to_string).unwrap_or_default();
        match ConfigDocument::read(document) {
            Ok(read) => documents.extend(read),
            Err(fault) => unusable.push(format!("document {id}: {}", fault.key)),
        }
    }
    let (newest, doubled) = newest(documents);
    let active = || newest.values().filter(|document| document.config.is_active());
    let faults = active().filter_map(|document| Some((document, document.config.delivery.as_ref().err()?)));
    unusable.extend(faults.map(|(document, fault)| format!("{}: {}", document.config.client, fault.key)));
    let found =
        format!("clients: {}, active: {}, unusable: {}", newest.len(), active().count(), unusable.len());
    if unusable.is_empty() {
        findings.ok("configs", found);
    } else {
        let advice = "correct these keys of their configs: changes for these clients wait until then";
        findings.warning("configs", format!("{found} ({})", some(&unusable)), advice);
    }
    if !doubled.is_empty() {
        let names: Vec<String> = doubled.iter().map(ToString::to_string).collect();
        findings.warning(
            "configs",
            format!("more than one that is active ({})", some(&names)),
            "switch off all but one of each: the newest counts",
        );
    }
    Ok(())
}

/// Without a pre-image a delete does not say whose the document was.
fn pre_images(collections: &[PreImages], findings: &mut Findings) {
    let without: Vec<String> = collections
        .iter()
        .filter(|collection| !collection.enabled)
        .map(|collection| collection.collection.clone())
        .collect();
    let found = format!("missing on {} of {} collections", without.len(), collections.len());
    if without.is_empty() {
        findings.ok("pre-images", found);
    } else {
        findings.warning(
            "pre-images",
            format!("{found}, whose deletes reach no client ({})", some(&without)),
            "db.runCommand({collMod: \"<collection>\", changeStreamPreAndPostImages: {enabled: true}})",
        );
    }
}

/// The first few, and how many more.
fn some(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::Secret;
    use crate::ports::findings::{Finding, Outcome};

    fn found(ask: impl FnOnce(&mut Findings)) -> Vec<Finding> {
        let mut findings = Findings::of("mongo");
        ask(&mut findings);
        findings.into_list()
    }

    #[test]
    fn the_cause_is_picked_out_of_what_the_driver_knows() {
        let said = "Server selection timeout: No available servers. Topology: { Type: Unknown, Servers: [ { Address: a:1, \
            Type: Unknown, Error: Kind: I/O error: Connection refused (os error 111), labels: {\"RetryableError\"} } ] }";
        assert_eq!(cause(said), "I/O error: Connection refused (os error 111)");
        assert_eq!(cause("SCRAM failure: Authentication failed."), "SCRAM failure: Authentication failed.");
    }

    #[test]
    fn a_server_without_change_streams_is_a_warning() {
        for (topology, outcome) in [
            (Topology::Standalone, Outcome::Warning),
            (Topology::ReplicaSet("rs0".to_owned()), Outcome::Ok),
            (Topology::Sharded, Outcome::Ok),
        ] {
            let it = MongoServer { version: "8.0".to_owned(), ferretdb: None, topology, clock_ms: None };
            assert_eq!(found(|findings| server(&it, findings))[1].outcome, outcome, "{it:?}");
        }
    }

    #[test]
    fn collections_without_pre_images_are_named_but_not_all() {
        let of = |number: usize, enabled| PreImages { collection: format!("wnx-a.c{number}"), enabled };
        let collections: Vec<_> = (0..NAMED + 2).map(|number| of(number, false)).collect();
        let list = found(|findings| pre_images(&collections, findings));
        assert_eq!(list[0].outcome, Outcome::Warning);
        assert!(list[0].found.contains("wnx-a.c0, ") && list[0].found.ends_with("and 2 more)"), "{list:?}");
        assert_eq!(found(|findings| pre_images(&[of(0, true)], findings))[0].outcome, Outcome::Ok);
    }

    #[actix_rt::test]
    async fn an_address_that_is_none_is_a_fault_without_the_password() {
        let options = MongoOptions {
            hosts: Secret::new("mongodb://u:hunter2@a:x/?y"),
            user: None,
            password: None,
            database: None,
            query: None,
            prefix: "wnx".to_owned(),
        };
        let mut findings = Findings::of("mongo");
        probe(&options, &mut findings).await;
        let list = findings.into_list();
        assert!(list[0].outcome == Outcome::Fault && !list[0].found.contains("hunter2"), "{list:?}");
    }
}
