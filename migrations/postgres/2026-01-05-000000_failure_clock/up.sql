-- The failure clock of a client, by the clock of this server: the clocks of replicas may jump. Which failure it runs from is told by the time that
-- the replica gave it.
ALTER TABLE client_states
    ADD COLUMN failing_mark BIGINT,
    ADD COLUMN failing_since TIMESTAMPTZ;
