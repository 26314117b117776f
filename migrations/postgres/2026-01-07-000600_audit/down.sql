DROP INDEX stash_given_up_order;
DROP TABLE audit_log;
