-- Whether it is committed where the group begins. Until then `seen_at_ms` is when a replica set out to do it. Groups of before are at work.
ALTER TABLE source_groups ADD COLUMN begun BOOLEAN NOT NULL DEFAULT TRUE;
