DROP INDEX stash_ended;
