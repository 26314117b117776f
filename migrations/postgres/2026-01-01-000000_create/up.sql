-- All of this stands in one schema, the first of the search_path. Text from outside is bytea: it may hold U+0000, which
-- PostgreSQL's text refuses.

-- The stash.

CREATE TABLE stash (
    client BYTEA NOT NULL,
    event_id BYTEA NOT NULL,
    document_hash BYTEA NOT NULL, -- ids of documents may be 3 KB long: no index could hold them
    document BYTEA NOT NULL,
    incarnation BIGINT NOT NULL,
    partition BIGINT NOT NULL,
    "offset" BIGINT NOT NULL,
    kind TEXT NOT NULL,
    source_topic BYTEA NOT NULL,
    source_partition INTEGER NOT NULL,
    source_offset BIGINT NOT NULL,
    traceparent BYTEA,
    ts_ms BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    stashed_at_ms BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'dead', 'superseded')),
    claim BIGINT,
    attempts BIGINT NOT NULL,
    payload_failures BIGINT NOT NULL,
    next_attempt_at_ms BIGINT NOT NULL,
    first_failed_at_ms BIGINT,
    last_failed_at_ms BIGINT,
    last_class TEXT,
    last_reason BYTEA,
    last_status INTEGER,
    body BYTEA NOT NULL,
    PRIMARY KEY (client, event_id)
) WITH (
    -- Rows come and go: a vacuum that waits for a fifth of 10,000,000 rows leaves the indexes full of the dead.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);

-- One index a question, each of the rows that can be an answer.
CREATE INDEX stash_order ON stash (client, incarnation, partition, "offset") WHERE state = 'pending';
CREATE INDEX stash_waiting ON stash (client, document_hash) WHERE state = 'pending';
CREATE INDEX stash_dead ON stash (client, document_hash, incarnation, "offset") WHERE state = 'dead';
-- Documents that wait for their oldest row: it failed and has its time, or somebody has it in hand.
CREATE INDEX stash_held ON stash (client, document_hash)
    WHERE state = 'pending' AND (next_attempt_at_ms > 0 OR claim IS NOT NULL);
CREATE INDEX stash_due ON stash (client, next_attempt_at_ms) WHERE state = 'pending' AND next_attempt_at_ms > 0;

-- What waits for each client, counted as rows come and go: counting 100,000 rows takes too long to be asked often.
CREATE TABLE stash_totals (
    client BYTEA PRIMARY KEY,
    pending BIGINT NOT NULL,
    pending_bytes BIGINT NOT NULL,
    dead BIGINT NOT NULL,
    superseded BIGINT NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Once a statement, not once a row: a batch costs one update a client. In the order of clients, so that two batches
-- do not wait for each other in a circle.

CREATE FUNCTION count_inserted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO stash_totals AS totals (client, pending, pending_bytes, dead, superseded)
    SELECT
        client,
        count(*) FILTER (WHERE state = 'pending'),
        coalesce(sum(bytes) FILTER (WHERE state = 'pending'), 0),
        count(*) FILTER (WHERE state = 'dead'),
        count(*) FILTER (WHERE state = 'superseded')
    FROM came GROUP BY client ORDER BY client
    ON CONFLICT (client) DO UPDATE SET
        pending = totals.pending + excluded.pending,
        pending_bytes = totals.pending_bytes + excluded.pending_bytes,
        dead = totals.dead + excluded.dead,
        superseded = totals.superseded + excluded.superseded;
    RETURN NULL;
END $$;

CREATE FUNCTION count_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO stash_totals AS totals (client, pending, pending_bytes, dead, superseded)
    SELECT
        client,
        coalesce(sum(one) FILTER (WHERE state = 'pending'), 0) AS pending,
        coalesce(sum(one * bytes) FILTER (WHERE state = 'pending'), 0),
        coalesce(sum(one) FILTER (WHERE state = 'dead'), 0),
        coalesce(sum(one) FILTER (WHERE state = 'superseded'), 0)
    FROM (
        SELECT client, state, bytes, 1 AS one FROM came
        UNION ALL
        SELECT client, state, bytes, -1 FROM gone
    ) AS changed
    GROUP BY client
    -- Most updates leave the state as it is, and cost nothing here.
    HAVING sum(one) FILTER (WHERE state = 'pending') <> 0
        OR sum(one) FILTER (WHERE state = 'dead') <> 0
        OR sum(one) FILTER (WHERE state = 'superseded') <> 0
    ORDER BY client
    ON CONFLICT (client) DO UPDATE SET
        pending = totals.pending + excluded.pending,
        pending_bytes = totals.pending_bytes + excluded.pending_bytes,
        dead = totals.dead + excluded.dead,
        superseded = totals.superseded + excluded.superseded;
    RETURN NULL;
END $$;

CREATE FUNCTION count_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO stash_totals AS totals (client, pending, pending_bytes, dead, superseded)
    SELECT
        client,
        -count(*) FILTER (WHERE state = 'pending'),
        -coalesce(sum(bytes) FILTER (WHERE state = 'pending'), 0),
        -count(*) FILTER (WHERE state = 'dead'),
        -count(*) FILTER (WHERE state = 'superseded')
    FROM gone GROUP BY client ORDER BY client
    ON CONFLICT (client) DO UPDATE SET
        pending = totals.pending + excluded.pending,
        pending_bytes = totals.pending_bytes + excluded.pending_bytes,
        dead = totals.dead + excluded.dead,
        superseded = totals.superseded + excluded.superseded;
    DELETE FROM stash_totals
    WHERE client IN (SELECT client FROM gone) AND pending = 0 AND dead = 0 AND superseded = 0;
    RETURN NULL;
END $$;

CREATE TRIGGER stash_inserted AFTER INSERT ON stash
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION count_inserted();
CREATE TRIGGER stash_changed AFTER UPDATE ON stash
    REFERENCING NEW TABLE AS came OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION count_changed();
CREATE TRIGGER stash_deleted AFTER DELETE ON stash
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION count_deleted();

CREATE TABLE partitions (
    incarnation BIGINT NOT NULL,
    partition BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    committed BIGINT NOT NULL,
    PRIMARY KEY (incarnation, partition)
) WITH (fillfactor = 50);

CREATE TABLE drain_leases (
    client BYTEA PRIMARY KEY,
    token BIGINT NOT NULL,
    deadline_ms BIGINT NOT NULL,
    incarnation BIGINT NOT NULL, -- the owner that took it
    epoch BIGINT NOT NULL
) WITH (fillfactor = 50);

-- Clients.

CREATE TABLE client_states (
    client BYTEA PRIMARY KEY,
    state TEXT NOT NULL -- JSON
) WITH (fillfactor = 50);

-- The rest.

CREATE TABLE locks (
    key BYTEA PRIMARY KEY,
    token BIGINT NOT NULL,
    deadline_ms BIGINT NOT NULL
) WITH (fillfactor = 50);

-- Transfer logs that were ever created: a topic that was deleted and made again does not know that it was.
CREATE TABLE transfer_logs (
    incarnation BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    partitions BIGINT NOT NULL CHECK (partitions > 0),
    created_at_ms BIGINT NOT NULL
);

CREATE INDEX transfer_logs_name ON transfer_logs (name, incarnation);

-- Consumer groups of the source that were ever seen.
CREATE TABLE source_groups (
    name TEXT PRIMARY KEY,
    seen_at_ms BIGINT NOT NULL
);
