//! That no question takes long, however many rows wait for one client. `DISPATCHER_TEST_ROWS` says how many.

use std::time::{Duration, Instant};

use diesel::Connection as _;
use diesel::connection::SimpleConnection as _;
use diesel::sqlite::SqliteConnection;
use dispatcher::domain::dead_row::{ByAge, DeadRowQuery, GivenUp};
use dispatcher::domain::stash::{Claim, RowState};
use dispatcher::domain::stash_view::RowQuery;
use dispatcher::domain::transfer::{EventId, Sequence};
use dispatcher::ports::clock::{Clock as _, SystemClock};

use crate::fixture::{Backend as _, EmbeddedBackend, Stores, client, transfer};

/// What any of them may take.
const LIMIT: Duration = Duration::from_millis(50);

/// Client `a`: of twenty rows three are of one document, the others of one of their own, of which two rows failed and may be tried in an hour.
/// Client `hot`: half as many, all of that one document. Every other row waits, the others were given up. Each of `(client, rows, document, next
/// attempt)` by its `n`, in words that SQLite and PostgreSQL have.
pub(crate) fn clients(
    rows: i64,
    bytes: impl Fn(&str) -> String,
    of_n: &str,
) -> [(&'static str, i64, String, String); 2] {
    let hash = transfer(1, "a", "hot", 1).document_hash;
    let hot = bytes(&hash.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let in_an_hour = SystemClock.now_ms() + 3_600_000;
    let document = format!("CASE WHEN n % 20 < 3 THEN {hot} ELSE {of_n} END");
    let next = format!("CASE WHEN n % 2 = 1 AND n % 5 = 0 THEN {in_an_hour} ELSE 0 END");
    [("a", rows, document, next), ("hot", rows / 2, hot, "0".to_owned())]
}

/// The columns of a row by its `n`, but for the client, the document, the next attempt and the body.
pub(crate) const COLUMNS: &str = "document, event_id, incarnation, partition, \"offset\", kind, source_topic,
    source_partition, source_offset, ts_ms, bytes, stashed_at_ms, state, attempts, payload_failures,
    first_failed_at_ms, last_failed_at_ms, client, document_hash, next_attempt_at_ms, body";

/// The state of a row.
pub(crate) const STATE: &str =
    "CASE WHEN n % 2 = 1 THEN 'pending' WHEN n % 4 = 0 THEN 'dead' ELSE 'superseded' END";

fn fill(rows: i64) -> String {
    let clients = clients(rows, |hex| format!("x'{hex}'"), "CAST(printf('%016d', n / 20) AS BLOB)");
    let insert = clients.map(|(client, rows, document, next)| {
        format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2 * {rows})
            INSERT INTO stash ({COLUMNS})
            SELECT x'64', '{client}-' || n, 1, 3, n, 'live', 't', 0, n, n, 300, n, {STATE}, 1, 0, n, n,
                '{client}', {document}, {next}, randomblob(300)
            FROM numbers;"
        )
    });
    insert.concat()
}

/// The quickest of a few: what else the machine does is not asked for.
#[expect(clippy::print_stdout, reason = "its figures are for people")]
async fn ask<T>(what: String, question: impl AsyncFn() -> T) -> T {
    let mut quickest = Duration::MAX;
    let mut answer = None;
    for _ in 0..5 {
        let began = Instant::now();
        answer = Some(question().await);
        quickest = quickest.min(began.elapsed());
    }
    println!("{what}: {quickest:?}");
    assert!(quickest < LIMIT, "{what} takes {quickest:?}");
    answer.unwrap()
}

/// Rows that wait for client `a`: 20,000, or what `DISPATCHER_TEST_ROWS` says.
pub(crate) fn rows() -> i64 {
    std::env::var("DISPATCHER_TEST_ROWS")
        .map_or(20_000, |text| text.parse().expect("DISPATCHER_TEST_ROWS is a number of rows"))
}

#[tokio::test]
async fn no_question_takes_long_in_a_large_file() {
    let (backend, rows) = (EmbeddedBackend::new(), rows());
    backend.open().await.close().await;
    {
        let path = backend.path().join("dispatcher.db");
        let mut file = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
        file.batch_execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000").unwrap();
        file.batch_execute(&fill(rows)).unwrap();
    }
    ask_everything(backend.open().await, rows).await;
}

/// What the API, the promoter and the delivery ask of a stash that was filled.
pub(crate) async fn ask_everything(stores: Stores, rows: i64) {
    let stash = &stores.stash;
    stash.take_ownership(1, 3, i64::MAX).await.unwrap();
    let held = (SystemClock.now_ms(), Claim(1));
    for name in ["a", "hot"] {
        let id = client(name);
        let at = |offset| Some(Sequence { incarnation: 1, partition: 3, offset });
        for after in [None, at(rows / 2), at(rows)] {
            let page = ask(format!("{name}: a page"), async || {
                stash.drainable(&id, after, held, 100, usize::MAX).await.unwrap()
            });
            assert_eq!(page.await.rows.len(), if after == at(rows) && name == "hot" { 0 } else { 100 });
        }
        let hot = transfer(1, "a", "hot", 1).document_hash;
        let events: Vec<_> =
            (1..=200).map(|n| EventId::from_stored(&format!("{name}-{}", n * (rows / 400)))).collect();
        let known = ask(format!("{name}: a check"), async || {
            stash.check(&id, vec![hot], events.clone()).await.unwrap()
        });
        assert_eq!(known.await.stashed.len(), 200);
        ask(format!("{name}: a backlog"), async || stash.backlog(&id).await.unwrap()).await;
        for state in [None, Some(RowState::Pending), Some(RowState::Dead), Some(RowState::Superseded)] {
            for document in [None, Some(hot)] {
                for after in [None, at(rows / 2)] {
                    let query = RowQuery { client: id.clone(), state, document, after, limit: 100 };
                    let what =
                        format!("{name}: rows {state:?} of a document {} {after:?}", document.is_some());
                    let page =
                        ask(what.clone(), async || stores.stash_rows.rows(query.clone()).await.unwrap());
                    assert_eq!(page.await.len(), 100, "{what}");
                }
            }
        }
        for order in [ByAge::OldestFirst, ByAge::NewestFirst] {
            for whose in [Some(id.clone()), None] {
                let query = DeadRowQuery {
                    client: whose,
                    kind: GivenUp::Dead,
                    from_ms: rows / 4,
                    until_ms: i64::MAX,
                    after: None,
                    order,
                    limit: 100,
                };
                let page = ask(format!("{name}: dead rows {order:?}"), async || {
                    stash.dead_rows(query.clone()).await.unwrap()
                });
                assert_eq!(page.await.len(), 100);
            }
        }
        let event = EventId::from_stored(&format!("{name}-4"));
        ask(format!("{name}: a row"), async || stores.stash_rows.row(&id, &event).await.unwrap().unwrap())
            .await;
        ask(format!("{name}: a dead row"), async || stash.dead_row(&id, &event).await.unwrap().unwrap())
            .await;
    }
    assert_eq!(ask("all backlogs".into(), async || stash.backlogs().await.unwrap()).await.len(), 2);
    stores.close().await;
}
