//! A page of rows that may be drained.

use diesel::sql_types::{BigInt, Binary, Bool};
use diesel::{QueryableByName, sql_query};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};

use super::super::errors::JobResult;
use super::super::key;
use super::rows::DrainRow;
use crate::domain::config::ClientId;
use crate::domain::stash::{Claim, StashPage};
use crate::domain::transfer::Sequence;
use crate::ports::stash::LOOKED_AT;

/// A clock that was set back behind the failure says nothing of the time of the next attempt, which may lie days ahead.
/// A step of less than this only makes the wait so much longer. All three times are by clocks of replicas: how the server's goes plays no part.
const CLOCK_STEP_MS: i64 = 60_000;

/// A document is held by a row that may not be tried yet, or that somebody has in hand; the condition begins with that of the index
/// `stash_held`. `OFFSET 0` keeps it one look for each row: else all rows of the client that hold may be collected first.
macro_rules! held {
    () => {
        "EXISTS (SELECT FROM stash AS held
            WHERE held.client = $1 AND held.document_hash = looked.document_hash
            AND held.state = 'pending' AND (held.next_attempt_at_ms > 0 OR held.claim IS NOT NULL)
            AND (held.next_attempt_at_ms > $5 AND coalesce(held.tried_at_ms, held.last_failed_at_ms, 0) <= $6 OR held.claim = $7)
            OFFSET 0)"
    };
}

/// Of the rows that may be drained, as many as fit: `running` counts their bytes before a body is read from its place. The last of the rows
/// that are looked at is always among them: where the next page begins.
///
/// Nothing of an earlier log than the newest is read again, so its rows may all be drained.
const DRAINABLE: &str = concat!(
    "SELECT fitting.* FROM (
        SELECT found.*, sum(bytes) OVER place AS running, row_number() OVER place AS number FROM (
            SELECT looked.*, nth = $10 AND ",
    held!(),
    " AS left_out FROM (
                SELECT stash.*, row_number() OVER (ORDER BY stash.incarnation, stash.partition, stash.\"offset\") AS nth
                FROM stash LEFT JOIN partitions
                    ON partitions.incarnation = stash.incarnation AND partitions.partition = stash.partition
                WHERE stash.client = $1 AND stash.state = 'pending'
                AND (stash.incarnation, stash.partition, stash.\"offset\") > ($2, $3, $4)
                AND (stash.\"offset\" < partitions.committed
                    OR stash.incarnation < (SELECT max(incarnation) FROM partitions))
                ORDER BY stash.incarnation, stash.partition, stash.\"offset\" LIMIT $10
            ) AS looked
            WHERE nth = $10 OR NOT ",
    held!(),
    " ORDER BY incarnation, partition, \"offset\" LIMIT $8
        ) AS found
        WINDOW place AS (ORDER BY incarnation, partition, \"offset\")
    ) AS fitting
    WHERE running <= $9 OR number = 1
    ORDER BY incarnation, partition, \"offset\""
);

#[derive(QueryableByName)]
struct Found {
    #[diesel(embed)]
    stored: DrainRow,
    /// It only tells how far was looked.
    #[diesel(sql_type = Bool)]
    left_out: bool,
}

/// Pending rows below the committed offset of their partition, or of an earlier incarnation, oldest first, without those of held documents.
pub(super) async fn drainable(
    connection: &mut AsyncPgConnection,
    client: &ClientId,
    after: Option<Sequence>,
    held: (i64, Claim),
    limit: usize,
    bytes: usize,
) -> JobResult<StashPage> {
    let (incarnation, partition, offset) = after.map_or((-1, -1, -1), |after| {
        (i64::from(after.incarnation), i64::from(after.partition), after.offset)
    });
    let most = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let found: Vec<Found> = sql_query(DRAINABLE)
        .bind::<Binary, _>(key(client.as_str())?)
        .bind::<BigInt, _>(incarnation)
        .bind::<BigInt, _>(partition)
        .bind::<BigInt, _>(offset)
        .bind::<BigInt, _>(held.0)
        .bind::<BigInt, _>(held.0.saturating_add(CLOCK_STEP_MS))
        .bind::<BigInt, _>(held.1.0.cast_signed())
        .bind::<BigInt, _>(most(limit))
        .bind::<BigInt, _>(most(bytes))
        .bind::<BigInt, _>(most(LOOKED_AT))
        .load(connection)
        .await?;
    let mut page = StashPage::default();
    for Found { stored, left_out } in found {
        let row = stored.read()?;
        page.end = Some(row.transfer.sequence);
        if !left_out {
            page.rows.push(row);
        }
    }
    Ok(page)
}
