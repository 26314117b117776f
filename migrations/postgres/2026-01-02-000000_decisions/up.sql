-- What operators decided: whose work is not done, which queue stands still.
CREATE TABLE decisions (
    kind TEXT NOT NULL,
    subject BYTEA NOT NULL,
    decided_by BYTEA NOT NULL,
    reason BYTEA NOT NULL,
    since_ms BIGINT NOT NULL,
    PRIMARY KEY (kind, subject)
);
