-- What happened that the operator wants to know of. Numbers never come again, not even when all events are gone.

CREATE TABLE operational_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    fingerprint BLOB NOT NULL UNIQUE, -- of all that follows: written twice, it is one event
    at_ms BIGINT NOT NULL,
    happening TEXT NOT NULL,
    client TEXT,
    reason TEXT NOT NULL,
    details TEXT NOT NULL -- JSON
);

CREATE INDEX operational_events_client ON operational_events (client, id);
CREATE INDEX operational_events_time ON operational_events (at_ms);

-- How far each of those has come who hand the events on.
CREATE TABLE operational_event_readers (
    name TEXT PRIMARY KEY NOT NULL,
    last_id BIGINT NOT NULL
) WITHOUT ROWID;
