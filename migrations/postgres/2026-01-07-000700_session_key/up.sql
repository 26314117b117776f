-- What seals the sessions of browsers.
CREATE TABLE session_key (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    key BYTEA NOT NULL
);
