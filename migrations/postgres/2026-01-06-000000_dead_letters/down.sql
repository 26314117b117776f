DROP INDEX stash_given_up;
DROP INDEX stash_given_up_of_all;
