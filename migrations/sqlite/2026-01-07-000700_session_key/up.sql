-- What seals the sessions of browsers.
CREATE TABLE session_key (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    key BLOB NOT NULL
);
