DROP TABLE drain_leases;
CREATE TABLE drain_leases (
    client TEXT PRIMARY KEY NOT NULL,
    token BIGINT NOT NULL,
    deadline_ms BIGINT NOT NULL,
    incarnation BIGINT NOT NULL,
    epoch BIGINT NOT NULL
) WITHOUT ROWID;
