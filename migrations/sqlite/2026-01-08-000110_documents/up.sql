-- Of one document there may be very many rows: what is asked of it is answered by as many as it needs, in the order of the log.
DROP INDEX stash_document;
CREATE INDEX stash_document ON stash (client, document_hash, state, incarnation, partition, offset);
