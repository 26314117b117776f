//! The stash, the states of clients, leases and what is remembered of logs, in PostgreSQL.
