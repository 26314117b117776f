-- The log. Offsets never come again, not even when all records are gone: log_ends holds the next ones.

CREATE TABLE log_meta (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    incarnation BIGINT NOT NULL,
    partitions BIGINT NOT NULL CHECK (partitions > 0)
);

CREATE TABLE log_ends (
    stream TEXT NOT NULL, -- source, transfer
    partition BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    PRIMARY KEY (stream, partition)
) WITHOUT ROWID;

CREATE TABLE source_records (
    offset INTEGER PRIMARY KEY NOT NULL,
    topic TEXT NOT NULL,
    timestamp_ms BIGINT NOT NULL,
    headers TEXT,
    key BLOB,
    value BLOB
);

CREATE TABLE transfers (
    partition BIGINT NOT NULL,
    offset BIGINT NOT NULL,
    client TEXT NOT NULL,
    document BLOB NOT NULL, -- text that may hold U+0000
    document_hash BLOB NOT NULL,
    event_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    source_topic TEXT NOT NULL,
    source_partition INTEGER NOT NULL,
    source_offset BIGINT NOT NULL,
    traceparent TEXT,
    ts_ms BIGINT NOT NULL,
    appended_at_ms BIGINT NOT NULL,
    body_id BIGINT NOT NULL,
    PRIMARY KEY (partition, offset)
) WITHOUT ROWID;

-- A body is stored once for all clients that get it. No foreign key: its check would need an index on
-- transfers(body_id), written with every transfer; refs counts instead.
CREATE TABLE transfer_bodies (
    id INTEGER PRIMARY KEY NOT NULL,
    refs BIGINT NOT NULL,
    body BLOB NOT NULL
);

CREATE TABLE consumer_offsets (
    group_name TEXT NOT NULL,
    stream TEXT NOT NULL,
    partition BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    PRIMARY KEY (group_name, stream, partition)
) WITHOUT ROWID;

CREATE TABLE dead_letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset BIGINT NOT NULL,
    timestamp_ms BIGINT NOT NULL,
    reason TEXT NOT NULL,
    record_topic TEXT, -- NULL: the record itself is not kept, it may hold secrets
    headers TEXT,
    key BLOB,
    value BLOB
);

-- The stash. The body stands last: a scan of the other columns never walks its overflow pages.

CREATE TABLE stash (
    id INTEGER PRIMARY KEY NOT NULL,
    client TEXT NOT NULL,
    document_hash BLOB NOT NULL,
    document BLOB NOT NULL,
    event_id TEXT NOT NULL,
    incarnation BIGINT NOT NULL,
    partition BIGINT NOT NULL,
    offset BIGINT NOT NULL,
    kind TEXT NOT NULL,
    source_topic TEXT NOT NULL,
    source_partition INTEGER NOT NULL,
    source_offset BIGINT NOT NULL,
    traceparent TEXT,
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
    last_reason TEXT,
    last_status INTEGER,
    body BLOB NOT NULL
);

CREATE UNIQUE INDEX stash_event ON stash (client, event_id);
CREATE INDEX stash_document ON stash (client, document_hash, state, incarnation, offset);
CREATE INDEX stash_order ON stash (client, state, incarnation, partition, offset);
-- Documents that wait for their oldest row: it failed and has its time, or somebody has it in hand.
CREATE INDEX stash_held ON stash (client, document_hash)
    WHERE state = 'pending' AND (next_attempt_at_ms > 0 OR claim IS NOT NULL);
CREATE INDEX stash_due ON stash (client, state, next_attempt_at_ms);

-- What waits for each client, counted as rows come and go: counting 100,000 rows takes too long to be asked often.
CREATE TABLE stash_totals (
    client TEXT PRIMARY KEY NOT NULL,
    pending BIGINT NOT NULL,
    pending_bytes BIGINT NOT NULL,
    dead BIGINT NOT NULL,
    superseded BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER stash_inserted AFTER INSERT ON stash BEGIN
    INSERT INTO stash_totals (client, pending, pending_bytes, dead, superseded)
    VALUES (
        new.client,
        new.state = 'pending',
        (new.state = 'pending') * new.bytes,
        new.state = 'dead',
        new.state = 'superseded'
    )
    ON CONFLICT (client) DO UPDATE SET
        pending = pending + excluded.pending,
        pending_bytes = pending_bytes + excluded.pending_bytes,
        dead = dead + excluded.dead,
        superseded = superseded + excluded.superseded;
END;

CREATE TRIGGER stash_state_changed AFTER UPDATE OF state ON stash BEGIN
    UPDATE stash_totals SET
        pending = pending + (new.state = 'pending') - (old.state = 'pending'),
        pending_bytes = pending_bytes + ((new.state = 'pending') - (old.state = 'pending')) * new.bytes,
        dead = dead + (new.state = 'dead') - (old.state = 'dead'),
        superseded = superseded + (new.state = 'superseded') - (old.state = 'superseded')
    WHERE client = new.client;
END;

CREATE TRIGGER stash_deleted AFTER DELETE ON stash BEGIN
    UPDATE stash_totals SET
        pending = pending - (old.state = 'pending'),
        pending_bytes = pending_bytes - (old.state = 'pending') * old.bytes,
        dead = dead - (old.state = 'dead'),
        superseded = superseded - (old.state = 'superseded')
    WHERE client = old.client;
    DELETE FROM stash_totals
    WHERE client = old.client AND pending = 0 AND dead = 0 AND superseded = 0;
END;

CREATE TABLE partitions (
    incarnation BIGINT NOT NULL,
    partition BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    committed BIGINT NOT NULL,
    PRIMARY KEY (incarnation, partition)
) WITHOUT ROWID;

CREATE TABLE drain_leases (
    client TEXT PRIMARY KEY NOT NULL,
    token BIGINT NOT NULL,
    deadline_ms BIGINT NOT NULL,
    incarnation BIGINT NOT NULL, -- the owner that took it
    epoch BIGINT NOT NULL
) WITHOUT ROWID;

-- Clients.

CREATE TABLE client_configs (
    client TEXT PRIMARY KEY NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('ACTIVE', 'INACTIVE')),
    value TEXT NOT NULL,
    version BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    deleted BOOLEAN NOT NULL,
    owner TEXT,
    document_id TEXT
) WITHOUT ROWID;

CREATE INDEX client_configs_document ON client_configs (document_id);

CREATE TABLE client_states (
    client TEXT PRIMARY KEY NOT NULL,
    state TEXT NOT NULL -- JSON
) WITHOUT ROWID;

-- The rest.

CREATE TABLE locks (
    key TEXT PRIMARY KEY NOT NULL,
    token BIGINT NOT NULL,
    deadline_ms BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE health (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    asked BIGINT NOT NULL
);
