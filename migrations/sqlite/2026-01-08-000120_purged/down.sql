DROP TABLE stash_purged;
