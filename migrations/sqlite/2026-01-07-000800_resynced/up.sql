-- How many of the changes that were dropped for a client a resync has made good.
ALTER TABLE client_states ADD COLUMN resynced BIGINT NOT NULL DEFAULT 0;
