//! The tables, as `migrations/sqlite` makes them.

diesel::table! {
    log_meta (id) {
        id -> Integer,
        incarnation -> BigInt,
        partitions -> BigInt,
    }
}

diesel::table! {
    log_ends (stream, partition) {
        stream -> Text,
        partition -> BigInt,
        next_offset -> BigInt,
    }
}

diesel::table! {
    source_records (offset) {
        offset -> BigInt,
        topic -> Text,
        timestamp_ms -> BigInt,
        headers -> Nullable<Text>,
        key -> Nullable<Binary>,
        value -> Nullable<Binary>,
    }
}

diesel::table! {
    transfers (partition, offset) {
        partition -> BigInt,
        offset -> BigInt,
        client -> Text,
        document -> Binary,
        document_hash -> Binary,
        event_id -> Text,
        kind -> Text,
        source_topic -> Text,
        source_partition -> Integer,
        source_offset -> BigInt,
        traceparent -> Nullable<Text>,
        ts_ms -> BigInt,
        appended_at_ms -> BigInt,
        body_id -> BigInt,
    }
}

diesel::table! {
    transfer_bodies (id) {
        id -> BigInt,
        refs -> BigInt,
        body -> Binary,
    }
}

diesel::table! {
    consumer_offsets (group_name, stream, partition) {
        group_name -> Text,
        stream -> Text,
        partition -> BigInt,
        next_offset -> BigInt,
    }
}

diesel::table! {
    dead_letters (id) {
        id -> BigInt,
        topic -> Text,
        partition -> Integer,
        offset -> BigInt,
        timestamp_ms -> BigInt,
        reason -> Text,
        record_topic -> Nullable<Text>,
        headers -> Nullable<Text>,
        key -> Nullable<Binary>,
        value -> Nullable<Binary>,
    }
}

diesel::table! {
    stash (id) {
        id -> BigInt,
        client -> Text,
        document_hash -> Binary,
        document -> Binary,
        event_id -> Text,
        incarnation -> BigInt,
        partition -> BigInt,
        offset -> BigInt,
        kind -> Text,
        source_topic -> Text,
        source_partition -> Integer,
        source_offset -> BigInt,
        traceparent -> Nullable<Text>,
        ts_ms -> BigInt,
        bytes -> BigInt,
        stashed_at_ms -> BigInt,
        state -> Text,
        claim -> Nullable<BigInt>,
        attempts -> BigInt,
        payload_failures -> BigInt,
        next_attempt_at_ms -> BigInt,
        first_failed_at_ms -> Nullable<BigInt>,
        last_failed_at_ms -> Nullable<BigInt>,
        last_class -> Nullable<Text>,
        last_reason -> Nullable<Text>,
        last_status -> Nullable<Integer>,
        body -> Binary,
    }
}

diesel::table! {
    stash_totals (client) {
        client -> Text,
        pending -> BigInt,
        pending_bytes -> BigInt,
        dead -> BigInt,
        superseded -> BigInt,
    }
}

diesel::table! {
    stash_purged (id) {
        id -> Integer,
        until_ms -> BigInt,
    }
}

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
        client -> Text,
        token -> BigInt,
    }
}

diesel::table! {
    client_configs (client) {
        client -> Text,
        status -> Text,
        value -> Text,
        version -> BigInt,
        updated_at_ms -> BigInt,
        deleted -> Bool,
        owner -> Nullable<Text>,
        document_id -> Nullable<Text>,
    }
}

diesel::table! {
    client_states (client) {
        client -> Text,
        state -> Text,
        resynced -> BigInt,
    }
}

diesel::table! {
    locks (key) {
        key -> Text,
        token -> BigInt,
        deadline_ms -> BigInt,
    }
}

diesel::table! {
    decisions (kind, subject) {
        kind -> Text,
        subject -> Text,
        decided_by -> Text,
        reason -> Text,
        since_ms -> BigInt,
    }
}

diesel::table! {
    health (id) {
        id -> Integer,
        asked -> BigInt,
    }
}

diesel::table! {
    operational_events (id) {
        id -> BigInt,
        fingerprint -> Binary,
        at_ms -> BigInt,
        happening -> Text,
        client -> Nullable<Text>,
        reason -> Text,
        details -> Text,
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
        client -> Text,
        event_id -> Text,
        document -> Binary,
        at_ms -> BigInt,
        attempt -> BigInt,
        delivered -> Bool,
        status -> Nullable<Integer>,
        reason -> Text,
        latency_ms -> BigInt,
        answer -> Text,
    }
}

diesel::table! {
    heavy_jobs (id) {
        id -> Text,
        client -> Text,
        kind -> Text,
        parameters -> Text,
        state -> Text,
        position -> Text,
        progress -> Text,
        reason -> Nullable<Text>,
        fence -> BigInt,
        created_ms -> BigInt,
        updated_ms -> BigInt,
    }
}

diesel::joinable!(transfers -> transfer_bodies (body_id));
diesel::allow_tables_to_appear_in_same_query!(transfers, transfer_bodies);
diesel::allow_tables_to_appear_in_same_query!(stash, partitions);

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
