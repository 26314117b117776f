-- Rows that were given up, by the time of their first failure: of one client, and of all. That time is never unknown.
UPDATE stash SET first_failed_at_ms = stashed_at_ms WHERE state <> 'pending' AND first_failed_at_ms IS NULL;

CREATE INDEX stash_given_up ON stash (client, state, first_failed_at_ms, incarnation, partition, "offset")
    WHERE state <> 'pending';
CREATE INDEX stash_given_up_of_all ON stash (state, first_failed_at_ms, incarnation, partition, "offset")
    WHERE state <> 'pending';
