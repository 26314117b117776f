-- What operators decided: whose work is not done, which queue stands still.
CREATE TABLE decisions (
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    PRIMARY KEY (kind, subject)
) WITHOUT ROWID;
