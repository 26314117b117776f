-- The failure clock of a client, by the clock of the writes. Which failure it runs from is told by the time that its actor gave it.
ALTER TABLE client_states ADD COLUMN failing_mark BIGINT;
ALTER TABLE client_states ADD COLUMN failing_since_ms BIGINT;
