-- When a row was tried last, by the clock of the replica that also set the time of its next attempt: last_failed_at_ms is the server's.
ALTER TABLE stash ADD COLUMN tried_at_ms BIGINT;
