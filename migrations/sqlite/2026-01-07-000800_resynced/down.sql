ALTER TABLE client_states DROP COLUMN resynced;
