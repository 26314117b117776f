-- Attempts to deliver that are worth remembering: those that failed, and what followed them. Bounded for each client.

CREATE TABLE attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    client TEXT NOT NULL,
    event_id TEXT NOT NULL,
    document BLOB NOT NULL, -- text that may hold U+0000
    at_ms BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    delivered BOOLEAN NOT NULL,
    status INTEGER,
    reason TEXT NOT NULL,
    latency_ms BIGINT NOT NULL,
    answer TEXT NOT NULL,
    UNIQUE (client, event_id, at_ms) -- written twice, it is one attempt
);

CREATE INDEX attempts_client ON attempts (client, id);
CREATE INDEX attempts_time ON attempts (at_ms);
