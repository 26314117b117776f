-- How far rows were purged: a clock that jumps must not have all of them removed.
CREATE TABLE stash_purged (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    until_ms BIGINT NOT NULL
);
