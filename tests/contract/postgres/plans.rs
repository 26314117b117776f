//! That no question grows with the table. What a session read is counted by PostgreSQL itself and told when the session
//! ends, so each question has a session of its own.

use std::sync::Arc;
use std::time::Instant;

use dispatcher::backends::postgres::{Postgres, PostgresOptions};
use dispatcher::domain::dead_row::{ByAge, DeadRowPlace, DeadRowQuery, GivenUp};
use dispatcher::domain::delivery::FailureClass;
use dispatcher::domain::stash::{Claim, NewRow, RowFailure, RowState, StashWrite};
use dispatcher::domain::stash_view::RowQuery;
use dispatcher::domain::transfer::{DocumentHash, EventId, Sequence, Transfer, TransferKind};
use dispatcher::ports::clock::{Clock as _, SystemClock};
use dispatcher::ports::stash::{Ownership, Stash, StashBatch};

use super::{at, client, open, options};
use crate::fixture::{self, soon, transfer};
use crate::services;

/// 20 clients `c0` to `c19`; `c0` has half of the rows. A third of each is dead, documents have 10 rows, every fifth row
/// has failed and has its time, most of them in an hour.
fn fill(first: i64, last: i64) -> String {
    format!(
        "INSERT INTO stash (client, event_id, document_hash, document, incarnation, partition, \"offset\", kind,
        source_topic, source_partition, source_offset, ts_ms, bytes, stashed_at_ms, state, attempts, payload_failures,
        next_attempt_at_ms, first_failed_at_ms, last_failed_at_ms, body)
    SELECT convert_to('c' || CASE WHEN n % 2 = 0 THEN 0 ELSE n % 40 / 2 END, 'UTF8'), convert_to('event-' || n, 'UTF8'),
        substr(sha256(convert_to('d' || n / 400 || '-' || n % 40, 'UTF8')), 1, 16), 'd', 1, 3, n, 'live', 't', 0, n, n, 300,
        0, CASE WHEN n % 30 = 0 THEN 'superseded' WHEN n % 3 = 0 THEN 'dead' ELSE 'pending' END, 1, 0,
        CASE WHEN n % 5 > 0 THEN 0 WHEN n % 25 = 0 THEN 1 ELSE (extract(epoch FROM now()) * 1000)::bigint + 3600000 END,
        n, 1, repeat('x', 50)::bytea
    FROM generate_series({first}, {last}) AS n"
    )
}

/// Client `held` with 100 rows of each document, of which the first failed and may not be tried before an hour is over.
fn fill_held(rows: i64) -> String {
    format!(
        "INSERT INTO stash (client, event_id, document_hash, document, incarnation, partition, \"offset\", kind,
        source_topic, source_partition, source_offset, ts_ms, bytes, stashed_at_ms, state, attempts, payload_failures,
        next_attempt_at_ms, first_failed_at_ms, last_failed_at_ms, body)
    SELECT 'held'::bytea, convert_to('held-' || n, 'UTF8'), substr(sha256(convert_to('h' || n % ({rows} / 100), 'UTF8')), 1, 16),
        'd', 1, 3, n, 'live', 't', 0, n, n, 300, 0, 'pending', 1, 0,
        CASE WHEN n <= {rows} / 100 THEN (extract(epoch FROM now()) * 1000)::bigint + 3600000 ELSE 0 END, 1, 1,
        repeat('x', 50)::bytea
    FROM generate_series(1, {rows}) AS n"
    )
}

/// Client `hot` with rows of one document alone: the first half is dead, the others wait.
fn fill_hot(rows: i64) -> String {
    format!(
        "INSERT INTO stash (client, event_id, document_hash, document, incarnation, partition, \"offset\", kind,
        source_topic, source_partition, source_offset, ts_ms, bytes, stashed_at_ms, state, attempts, payload_failures,
        next_attempt_at_ms, first_failed_at_ms, last_failed_at_ms, body)
    SELECT 'hot'::bytea, convert_to('hot-' || n, 'UTF8'), '\\x{}', 'd', 1, 3, n, 'live', 't', 0, n, n, 300, 0,
        CASE WHEN n <= {rows} / 2 THEN 'dead' ELSE 'pending' END, 1, 0, 0, 1, 1, repeat('x', 50)::bytea
    FROM generate_series(1, {rows}) AS n",
        hex(&DocumentHash::of("identity", "users", "hot").0)
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Rows of the table: 200,000, or what `DISPATCHER_TEST_ROWS` says.
fn rows() -> i64 {
    std::env::var("DISPATCHER_TEST_ROWS")
        .map_or(200_000, |text| text.parse().expect("DISPATCHER_TEST_ROWS is a number of rows"))
}

/// Rows that are made by one statement.
const AT_ONCE: i64 = 500_000;

/// What was read of the tables of the stash so far: rows by scans of a table, and entries of indexes.
async fn read_so_far(observer: &tokio_postgres::Client) -> (i64, i64) {
    let counts = "SELECT
        (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables
            WHERE schemaname = current_schema AND relname = 'stash'),
        (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
            WHERE schemaname = current_schema AND relname = 'stash')";
    let row = observer.query_one(counts, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

struct Filled {
    options: PostgresOptions,
    observer: tokio_postgres::Client,
    owner: Ownership,
    rows: i64,
}

#[expect(clippy::print_stdout, reason = "its figures are for people")]
impl Filled {
    async fn new() -> Self {
        let rows = rows();
        let shared = options(services::postgres());
        let database = services::unique("plans");
        client(&shared).await.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
        let options = at(&shared, |url| url.set_path(&database));
        let stash = open(&options).await.unwrap().stash();
        let owner = stash.take_ownership(1, 3, 0).await.unwrap();
        stash.committed(owner, rows * 2).await.unwrap();
        let observer = client(&options).await;
        let began = Instant::now();
        for first in (1..=rows).step_by(AT_ONCE as usize) {
            observer.batch_execute(&fill(first, rows.min(first + AT_ONCE - 1))).await.unwrap();
        }
        observer.batch_execute(&fill_held(rows / 2)).await.unwrap();
        observer.batch_execute(&fill_hot(rows / 2)).await.unwrap();
        observer.batch_execute("VACUUM ANALYZE").await.unwrap();
        println!("{rows} rows made in {:?}", began.elapsed());
        Self { options, observer, owner, rows }
    }

    /// Asks the stash, as below.
    async fn ask<T>(&self, what: &str, bound: i64, question: impl AsyncFnOnce(Arc<dyn Stash>) -> T) -> T {
        self.ask_any(what, bound, async |postgres| question(postgres.stash()).await).await
    }

    /// Asks, and checks that at most `bound` entries of indexes were read for it, and no table whole.
    async fn ask_any<T>(&self, what: &str, bound: i64, question: impl AsyncFnOnce(Arc<Postgres>) -> T) -> T {
        let before = read_so_far(&self.observer).await;
        let postgres = open(&self.options).await.unwrap();
        // Opens the session that the question uses.
        postgres.health().await.unwrap();
        let began = Instant::now();
        let answer = question(postgres).await;
        let took = began.elapsed();
        self.until_sessions_end().await;
        let after = read_so_far(&self.observer).await;
        println!("{what}: {took:?}, {} entries of indexes", after.1 - before.1);
        assert_eq!(after.0 - before.0, 0, "{what} reads the whole table");
        assert!(
            after.1 - before.1 <= bound,
            "{what} reads {} entries, more than {bound}",
            after.1 - before.1
        );
        assert!(after.1 > before.1, "{what} was not counted");
        answer
    }

    /// A page, as an operator asks for it.
    async fn look_at_a_hot_document(&self, state: RowState, after: i64) {
        let query = RowQuery {
            client: fixture::client("hot"),
            state: Some(state),
            document: Some(DocumentHash::of("identity", "users", "hot")),
            after: Some(Sequence { incarnation: 1, partition: 3, offset: after }),
            limit: 100,
        };
        let what = format!("rows of a hot document, {state:?} after {after}");
        let view = async |postgres: Arc<Postgres>| postgres.stash_rows().rows(query).await;
        assert_eq!(self.ask_any(&what, 250, view).await.unwrap().len(), 100, "{what}");
    }

    /// Of one document there are very many rows: no question reads all of them.
    async fn ask_about_a_hot_document(&self) {
        let (hot, hash) = (fixture::client("hot"), DocumentHash::of("identity", "users", "hot"));
        let (rows, middle) = (self.rows / 2, self.rows / 4);
        let [oldest, newest] = [middle + 1, rows].map(|n| EventId::from_stored(&format!("hot-{n}")));
        let asked = vec![oldest.clone(), newest.clone()];
        let known = self
            .ask("a check of a hot document", 20, async |stash| stash.check(&hot, vec![hash], asked).await);
        let known = known.await.unwrap();
        assert!(known.waiting.contains(&hash) && known.dead.contains(&hash));
        assert_eq!((known.stashed[&oldest].newer_waits, known.stashed[&newest].newer_waits), (true, false));

        let held = (SystemClock.now_ms(), Claim(1));
        let page = async |stash: Arc<dyn Stash>| stash.drainable(&hot, None, held, 100, usize::MAX).await;
        assert_eq!(self.ask("a page of a hot document", 1_500, page).await.unwrap().rows.len(), 100);

        for after in [0, middle / 2] {
            self.look_at_a_hot_document(RowState::Dead, after).await;
            self.look_at_a_hot_document(RowState::Pending, middle + after).await;
        }

        let change = |offset: i64| {
            let transfer = transfer(1, "hot", "hot", offset);
            assert_eq!(transfer.document_hash, hash);
            transfer
        };
        let mut replay = Transfer::clone(&change(1));
        replay.content.event_id = EventId::from_stored("hot-200");
        replay.content.kind = TransferKind::Replay;
        let writes = vec![StashWrite::Replay { transfer: Arc::new(replay) }];
        let batch = StashBatch { client: hot.clone(), ownership: self.owner, lease: None, writes };
        let replayed =
            self.ask("a replay that is too late", 20, async |stash| stash.apply(vec![batch]).await);
        assert_eq!(replayed.await, Ok(vec![Ok(())]));

        // With few rows before it, and very many behind.
        for (what, write) in [
            ("a delivery among dead rows", StashWrite::Delivered { transfer: change(101) }),
            ("a row in place of others", StashWrite::Coalesced { transfer: change(middle + 101) }),
        ] {
            let batch =
                StashBatch { client: hot.clone(), ownership: self.owner, lease: None, writes: vec![write] };
            let written = self.ask(what, 1_500, async |stash| stash.apply(vec![batch]).await).await;
            assert_eq!(written, Ok(vec![Ok(())]));
        }
        // What was deleted before the first row that waits is passed over until it is vacuumed.
        let backlog =
            self.ask("a backlog of a hot document", 250, async |stash| stash.backlog(&hot).await).await;
        let backlog = backlog.unwrap();
        let left = u64::try_from(middle - 100).unwrap();
        assert_eq!((backlog.pending, backlog.dead), (left, left));

        self.look_at_a_hot_document(RowState::Superseded, 0).await;
    }

    async fn until_sessions_end(&self) {
        let others =
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND backend_type = 'client backend'";
        soon(async {
            while !self.observer.query(others, &[]).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn no_question_grows_with_the_table() {
    let filled = Filled::new().await;
    let (c0, c1, owner) = (fixture::client("c0"), fixture::client("c1"), filled.owner);
    let now_ms = SystemClock.now_ms();
    let held = (now_ms, Claim(1));

    // A page, and for each of its candidates the rows that hold its document.
    let first = filled
        .ask("the first page", 1_500, async |stash| stash.drainable(&c0, None, held, 100, usize::MAX).await)
        .await
        .unwrap()
        .rows;
    assert_eq!(first.len(), 100);
    let half = filled.rows / 2;
    let middle = Some(Sequence { incarnation: 1, partition: 3, offset: half });
    let page = filled
        .ask("a later page", 1_500, async |stash| stash.drainable(&c0, middle, held, 100, usize::MAX).await)
        .await
        .unwrap()
        .rows;
    assert!(page.len() == 100 && page[0].transfer.sequence.offset > half);
    filled
        .ask("a page by bytes", 1_500, async |stash| stash.drainable(&c0, None, held, 100, 1).await)
        .await
        .unwrap();

    // Of very many that are held a part, with a look at what holds each.
    let patient = fixture::client("held");
    let page = filled
        .ask("a page of what is held", 20_000, async |stash| {
            stash.drainable(&patient, None, held, 100, usize::MAX).await
        })
        .await
        .unwrap();
    assert!(page.rows.is_empty() && page.end.is_some(), "it goes on behind them");

    let documents: Vec<_> = first.iter().map(|row| row.transfer.document_hash).collect();
    let known_events: Vec<_> = first.iter().map(|row| row.transfer.event_id.clone()).collect();
    let unknown = (0..100).map(|n| DocumentHash::of("x", "y", &n.to_string())).collect::<Vec<_>>();
    let asked = [documents.clone(), unknown].concat();
    let events = [known_events, vec![EventId::from_stored("none"); 100]].concat();
    let known =
        filled.ask("a check", 1_000, async |stash| stash.check(&c0, asked, events).await).await.unwrap();
    assert!(known.stashed.len() == 100 && !known.waiting.is_empty());

    let backlog = filled.ask("a backlog", 10, async |stash| stash.backlog(&c0).await).await.unwrap();
    let tenth = u64::try_from(filled.rows / 10).unwrap();
    assert!(backlog.pending > 3 * tenth && backlog.dead > tenth);
    let all = filled.ask("all backlogs", 100, async |stash| stash.backlogs().await).await.unwrap();
    assert_eq!(all.len(), 22);

    let failure = || RowFailure {
        class: FailureClass::Payload,
        reason: "status_400".into(),
        status: Some(400),
        next_attempt_at_ms: now_ms,
    };
    let mut writes: Vec<StashWrite> = Vec::new();
    for row in &first[..50] {
        writes.push(StashWrite::Failed { event_id: row.transfer.event_id.clone(), failure: failure() });
    }
    writes
        .extend(first[50..].iter().map(|row| StashWrite::Delivered { transfer: Arc::clone(&row.transfer) }));
    writes.extend((0..100).map(|n| {
        let transfer = transfer(1, "c0", &n.to_string(), filled.rows + 1 + n);
        StashWrite::Insert(NewRow { transfer, failure: None, claim: None })
    }));
    let batch = StashBatch { client: c0.clone(), ownership: owner, lease: None, writes };
    // A delivery looks at the dead rows of its document: a few.
    let written = filled.ask("a batch", 3_000, async |stash| stash.apply(vec![batch]).await).await.unwrap();
    assert_eq!(written, [Ok(())]);

    // It writes a part of the client's rows, which are a fortieth of all.
    let buried = filled
        .ask("a burial", filled.rows / 10, async |stash| stash.bury(&c1, owner, "client_gone").await)
        .await
        .unwrap();
    assert!(buried > (tenth / 10).min(4_999), "{buried}");

    let query = |client, kind, order, after| DeadRowQuery {
        client,
        kind,
        from_ms: 1_000,
        until_ms: 190_000,
        after,
        order,
        limit: 100,
    };
    let sequence = Sequence { incarnation: 1, partition: 3, offset: 100_000 };
    let middle = DeadRowPlace { first_failed_at_ms: 100_000, sequence };
    for client in [Some(c0.clone()), None] {
        for kind in [GivenUp::Dead, GivenUp::Superseded] {
            for order in [ByAge::OldestFirst, ByAge::NewestFirst] {
                for after in [None, Some(middle)] {
                    let query = query(client.clone(), kind, order, after);
                    let what = format!("{query:?}");
                    let ask = async |stash: Arc<dyn Stash>| stash.dead_rows(query).await;
                    assert_eq!(filled.ask(&what, 250, ask).await.unwrap().len(), 100, "{what}");
                }
            }
        }
    }
    let event = EventId::from_stored("event-6");
    let row = filled.ask("a dead row", 5, async |stash| stash.dead_row(&c0, &event).await).await.unwrap();
    assert_eq!(row.unwrap().attempts, 1);
    let writes = (0..100).map(|n| {
        let mut replay = Transfer::clone(&first[n].transfer);
        replay.content.event_id = EventId::from_stored(&format!("event-{}", n * 6));
        replay.content.kind = TransferKind::Replay;
        StashWrite::Replay { transfer: Arc::new(replay) }
    });
    let batch = StashBatch { client: c0.clone(), ownership: owner, lease: None, writes: writes.collect() };
    let replayed = filled.ask("replays", 2_000, async |stash| stash.apply(vec![batch]).await).await.unwrap();
    assert_eq!(replayed, [Ok(())]);

    filled.ask_about_a_hot_document().await;

    let hundred_days = std::time::Duration::from_secs(100 * 24 * 3600);
    let purged = filled.ask("a purge", 20_000, async |stash| stash.purge(hundred_days, 500).await).await;
    assert_eq!(purged, Ok(500));

    let totals = "SELECT count(*) FROM (SELECT client, count(*) FILTER (WHERE state = 'pending') AS pending,
            coalesce(sum(bytes) FILTER (WHERE state = 'pending'), 0)::bigint AS pending_bytes,
            count(*) FILTER (WHERE state = 'dead') AS dead, count(*) FILTER (WHERE state = 'superseded') AS superseded
            FROM stash GROUP BY client) AS counted
        JOIN stash_totals USING (client, pending, pending_bytes, dead, superseded)";
    let right: i64 = filled.observer.query_one(totals, &[]).await.unwrap().get(0);
    assert_eq!(right, 22, "what is counted as rows come and go is what is there");
}
