ALTER TABLE client_states DROP COLUMN failing_mark;
ALTER TABLE client_states DROP COLUMN failing_since_ms;
