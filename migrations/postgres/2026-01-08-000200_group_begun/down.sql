ALTER TABLE source_groups DROP COLUMN begun;
