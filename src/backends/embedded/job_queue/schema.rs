//! The tables, as `migrations/sqlite-queues` makes them.

diesel::table! {
    jobs (seq) {
        seq -> BigInt,
        queue -> Text,
        id -> Text,
        name -> Text,
        data -> Text,
        state -> Text,
        rank -> BigInt,
        place -> BigInt,
        priority -> BigInt,
        attempts -> BigInt,
        attempts_made -> BigInt,
        created_ms -> BigInt,
        ready_ms -> BigInt,
        started_ms -> Nullable<BigInt>,
        finished_ms -> Nullable<BigInt>,
        reason -> Nullable<Text>,
        result -> Nullable<Text>,
        progress -> Nullable<Text>,
        schedule -> Nullable<Text>,
        tick_ms -> Nullable<BigInt>,
        holder -> Nullable<BigInt>,
    }
}

diesel::table! {
    job_lines (job, place) {
        job -> BigInt,
        place -> BigInt,
        line -> Text,
    }
}

diesel::table! {
    paused_queues (queue) {
        queue -> Text,
    }
}

diesel::table! {
    schedules (queue, id) {
        queue -> Text,
        id -> Text,
        name -> Text,
        data -> Text,
        cadence -> Text,
        time_zone -> Nullable<Text>,
        next_ms -> Nullable<BigInt>,
    }
}
