-- What no delivery looks at any more, oldest first: it is removed when it is old.
CREATE INDEX stash_ended ON stash (stashed_at_ms) WHERE state <> 'pending';
