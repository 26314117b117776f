-- What happened that the operator wants to know of.

CREATE TABLE operational_events (
    id BIGINT PRIMARY KEY,
    fingerprint BYTEA NOT NULL UNIQUE, -- of all that follows: written twice, it is one event
    at_ms BIGINT NOT NULL,
    happening TEXT NOT NULL,
    client BYTEA,
    reason BYTEA NOT NULL,
    details TEXT NOT NULL -- JSON
);

CREATE INDEX operational_events_client ON operational_events (client, id);
CREATE INDEX operational_events_time ON operational_events (at_ms);

-- The last number that was given. A row, not a sequence: its lock lasts until the commit, so that numbers become visible in their
-- order, and who reads by number passes over none.
CREATE TABLE operational_event_numbers (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    last BIGINT NOT NULL
) WITH (fillfactor = 50);

INSERT INTO operational_event_numbers (id, last) VALUES (1, 0);

-- How far each of those has come who hand the events on.
CREATE TABLE operational_event_readers (
    name TEXT PRIMARY KEY,
    last_id BIGINT NOT NULL
) WITH (fillfactor = 50);
