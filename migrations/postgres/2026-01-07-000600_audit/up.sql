-- What operators did by the API. All texts are plain ASCII.

CREATE TABLE audit_log (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
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

-- Rows that were given up in the order of their changes, as operators look at them.
CREATE INDEX stash_given_up_order ON stash (client, state, incarnation, partition, "offset") WHERE state <> 'pending';
