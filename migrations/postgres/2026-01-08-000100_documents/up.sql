-- Of one document there may be very many rows: what is asked of it is answered by as many as it needs, in the order of the log.
CREATE INDEX stash_document ON stash (client, document_hash, incarnation, partition, "offset") WHERE state = 'pending';
CREATE INDEX stash_given_up_document ON stash (client, document_hash, state, incarnation, partition, "offset")
    WHERE state <> 'pending';
-- Last: from here on nobody else can read the table.
DROP INDEX stash_waiting;
DROP INDEX stash_dead;
