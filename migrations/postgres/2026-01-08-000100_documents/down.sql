CREATE INDEX stash_waiting ON stash (client, document_hash) WHERE state = 'pending';
DROP INDEX stash_document;
CREATE INDEX stash_dead ON stash (client, document_hash, incarnation, "offset") WHERE state = 'dead';
DROP INDEX stash_given_up_document;
