-- What operators did by the API. Numbers never come again.

CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    at_ms BIGINT NOT NULL,
    done_by TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator')),
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    status INTEGER -- NULL: its end was not written
);

CREATE INDEX audit_log_time ON audit_log (at_ms);
CREATE INDEX audit_log_by ON audit_log (done_by, id);
CREATE INDEX audit_log_subject ON audit_log (subject, id);
