DROP INDEX stash_document;
CREATE INDEX stash_document ON stash (client, document_hash, state, incarnation, offset);
