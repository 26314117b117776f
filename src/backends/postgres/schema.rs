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
        resynced -> BigInt,
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
        begun -> Bool,
    }
}

diesel::table! {
    operational_events (id) {
        id -> BigInt,
        fingerprint -> Binary,
        at_ms -> BigInt,
        happening -> Text,
        client -> Nullable<Binary>,
        reason -> Binary,
        details -> Text,
    }
}

diesel::table! {
    operational_event_numbers (id) {
        id -> Integer,
        last -> BigInt,
    }
}

diesel::table! {
    operational_event_readers (name) {
        name -> Text,
        last_id -> BigInt,
    }
}

diesel::table! {
    attempts (id) {
        id -> BigInt,
        client -> Binary,
        event_id -> Binary,
        document -> Binary,
        at_ms -> BigInt,
        attempt -> BigInt,
        delivered -> Bool,
        status -> Nullable<Integer>,
        reason -> Binary,
        latency_ms -> BigInt,
        answer -> Binary,
    }
}

diesel::table! {
    audit_log (id) {
        id -> BigInt,
        at_ms -> BigInt,
        done_by -> Text,
        role -> Text,
        action -> Text,
        subject -> Text,
        status -> Nullable<Integer>,
    }
}

diesel::table! {
    session_key (id) {
        id -> Integer,
        key -> Binary,
    }
}

diesel::table! {
    heavy_jobs (id) {
        id -> Text,
        client -> Binary,
        kind -> Text,
        parameters -> Text,
        state -> Text,
        position -> Text,
        progress -> Text,
        reason -> Nullable<Binary>,
        fence -> BigInt,
        created_ms -> BigInt,
        updated_ms -> BigInt,
    }
}
