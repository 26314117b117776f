-- Attempts to deliver that are worth remembering: those that failed, and what followed them. Bounded for each client.

CREATE TABLE attempts (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    client BYTEA NOT NULL,
    event_id BYTEA NOT NULL,
    document BYTEA NOT NULL,
    at_ms BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    delivered BOOLEAN NOT NULL,
    status INTEGER,
    reason BYTEA NOT NULL,
    latency_ms BIGINT NOT NULL,
    answer BYTEA NOT NULL,
    UNIQUE (client, event_id, at_ms) -- written twice, it is one attempt
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX attempts_client ON attempts (client, id);
CREATE INDEX attempts_time ON attempts (at_ms);
