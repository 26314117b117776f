//! The tables, as `migrations/postgres` makes them, that are asked in Diesel's words. The stash is asked in SQL: arrays,
//! windows and lateral joins have no words there.

diesel::table! {
    partitions (incarnation, partition) {
        incarnation -> BigInt,
        partition -> BigInt,
        epoch -> BigInt,
        committed -> BigInt,
    }
}

diesel::table! {
    drain_leases (client) {
        client -> Binary,
        token -> BigInt,
        deadline_ms -> BigInt,
        incarnation -> BigInt,
        epoch -> BigInt,
    }
}

diesel::table! {
    client_states (client) {
        client -> Binary,
        state -> Text,
    }
}

diesel::table! {
    locks (key) {
        key -> Binary,
        token -> BigInt,
        deadline_ms -> BigInt,
    }
}

diesel::table! {
    decisions (kind, subject) {
        kind -> Text,
        subject -> Binary,
        decided_by -> Binary,
        reason -> Binary,
        since_ms -> BigInt,
    }
}

diesel::table! {
    transfer_logs (incarnation) {
        incarnation -> BigInt,
        name -> Text,
        partitions -> BigInt,
        created_at_ms -> BigInt,
    }
}

diesel::table! {
    source_groups (name) {
        name -> Text,
        seen_at_ms -> BigInt,
    }
}
