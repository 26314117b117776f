ALTER TABLE client_states
    DROP COLUMN failing_mark,
    DROP COLUMN failing_since;
