ALTER TABLE stash DROP COLUMN tried_at_ms;
