-- Work on one client that takes minutes to hours: one row each, so that a queue that lost it has it again.
CREATE TABLE heavy_jobs (
    id TEXT NOT NULL PRIMARY KEY,
    client BYTEA NOT NULL,
    kind TEXT NOT NULL,
    parameters TEXT NOT NULL,
    state TEXT NOT NULL,
    position TEXT NOT NULL,
    progress TEXT NOT NULL,
    reason BYTEA,
    fence BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);
CREATE INDEX heavy_jobs_by_state ON heavy_jobs (state, updated_ms);
CREATE INDEX heavy_jobs_by_client ON heavy_jobs (client, created_ms);
