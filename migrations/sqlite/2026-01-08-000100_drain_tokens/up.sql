-- A drain is its partition's owner's: time plays no part, the token tells who took it last.
DROP TABLE drain_leases;
CREATE TABLE drain_leases (
    client TEXT PRIMARY KEY NOT NULL,
    token BIGINT NOT NULL
) WITHOUT ROWID;
