//! What every backend of a port must do. Each file is the contract of one port, written against its trait alone; each
//! backend at the end runs all of them.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod attempts;
mod audit;
#[cfg(feature = "cluster")]
mod bullmq;
mod client_configs;
mod client_states;
mod clock;
mod dead_rows;
#[cfg(feature = "cluster")]
mod decision_copies;
mod decisions;
mod event_log;
mod fixture;
mod heavy_jobs;
mod hot_documents;
mod job_queue;
#[cfg(feature = "cluster")]
mod kafka;
mod large;
mod locks;
mod log_backend;
#[cfg(feature = "cluster")]
mod log_registry;
mod operational_events;
#[cfg(feature = "cluster")]
mod platform;
#[cfg(feature = "cluster")]
mod platform_configs;
#[cfg(feature = "cluster")]
mod platform_documents;
#[cfg(feature = "cluster")]
mod postgres;
#[cfg(feature = "cluster")]
mod queue_pauses;
#[cfg(feature = "cluster")]
mod replicas;
#[cfg(feature = "cluster")]
#[path = "../services/mod.rs"]
mod services;
mod session_keys;
mod stash;
mod stash_rows;
#[cfg(feature = "cluster")]
mod state_copies;
#[cfg(feature = "cluster")]
mod test_services;

/// Runs every case on a backend: one fresh store a test.
macro_rules! contract {
    ($backend:expr, $($port:ident: [$($case:ident),* $(,)?]),* $(,)?) => {
        $(mod $port {
            use super::*;
            $(#[tokio::test]
            async fn $case() {
                crate::$port::$case(&$backend).await;
            })*
        })*
    };
}

mod embedded {
    use crate::fixture::EmbeddedBackend;

    contract!(
        EmbeddedBackend::new(),
        event_log: [
            appended_records_come_back_in_order,
            nothing_is_appended_of_an_empty_list,
            a_batch_keeps_its_limits,
            a_consumer_waits_for_what_comes,
            a_dropped_next_loses_nothing,
            rewind_goes_back_to_the_committed_offset,
            groups_are_independent,
            work_is_written_whole,
            a_commit_that_leaves_out_a_record_is_refused,
            a_second_consumer_cannot_write_the_same_work_again,
            a_client_has_one_partition_and_its_order,
            a_transfer_comes_back_as_it_was,
            transfers_are_appended_apart_from_ingest,
            transfers_of_all_partitions_get_their_turn,
            a_paused_partition_waits,
            an_uncommitted_transfer_comes_again_after_a_restart,
            an_uncommitted_record_comes_again_after_a_restart,
            a_restart_keeps_shape_and_goes_on_counting,
            lag_counts_what_is_not_committed,
            nothing_is_appended_under_a_lease_that_is_over,
            dead_letters_are_kept_with_their_work,
        ],
        stash: [
            stashing_twice_is_one_row,
            a_row_comes_back_as_it_was,
            only_rows_below_the_committed_offset_are_drained,
            rows_that_are_read_again_wait_for_their_turn,
            rows_of_an_earlier_log_come_first,
            drained_pages_follow_each_other,
            an_old_owner_is_fenced,
            a_batch_is_all_or_nothing,
            a_drain_lease_is_of_one_owner,
            an_owner_takes_its_own_lease_over,
            a_late_owner_takes_no_lease_back,
            a_lease_is_given_back_by_who_holds_it,
            a_lost_lease_cannot_write,
            check_tells_what_waits,
            a_failure_counts_and_frees,
            a_claim_stays_when_the_row_is_stashed_again,
            a_delivery_supersedes_older_dead_rows_of_its_document,
            a_row_goes_in_place_of_its_documents_older_ones,
            a_dead_row_is_not_drained,
            burying_leaves_nothing_pending,
            a_burial_goes_part_by_part,
            only_what_is_old_and_not_needed_is_purged,
            a_backlog_is_counted,
            the_next_attempt_is_the_earliest_that_is_set,
            a_held_document_is_left_out,
            what_is_free_is_found_behind_very_many_that_are_held,
            rows_outlive_a_restart,
        ],
        hot_documents: [a_delivery_supersedes_very_many_dead_rows, a_change_goes_in_place_of_very_many],
        dead_rows: [
            rows_that_were_given_up_are_listed_by_page,
            a_row_that_was_given_up_is_shown_and_its_payload_apart,
            a_buried_row_has_a_time,
            a_replayed_row_waits_at_its_old_place,
            a_replay_does_not_pass_what_is_newer,
            a_forced_replay_stands_where_it_came,
        ],
        client_configs: [
            put_creates_and_replaces,
            a_deleted_config_is_still_loaded,
            a_config_is_switched_off_while_it_is_what_was_tried,
            an_older_document_does_not_replace,
            of_undated_documents_the_later_in_the_log_is_newer,
            a_removed_document_deletes_its_client,
            a_document_may_change_its_client,
            what_is_no_client_config_is_passed_over,
            configs_outlive_a_restart,
        ],
        client_states: [
            a_state_comes_back,
            states_outlive_a_restart,
            the_failure_clock_runs_from_the_first_failure,
            what_a_resync_made_good_is_told_with_the_state,
        ],
        decisions: [
            a_decision_holds_since_it_was_made_first,
            kinds_are_independent,
            what_is_taken_back_is_gone,
            decisions_outlive_a_restart,
        ],
        locks: [
            a_lease_is_of_one,
            tokens_rise_with_each_holder,
            a_lease_that_was_given_back_cannot_be_renewed,
            an_expired_lease_is_taken_over,
            a_renewed_lease_lasts_from_then_on,
            keys_are_independent,
        ],
        operational_events: [
            events_are_numbered_in_their_order,
            an_event_comes_back_as_it_was,
            an_event_that_is_recorded_twice_is_one,
            events_are_listed_from_both_ends_and_by_client,
            a_page_of_events_is_bounded,
            a_reader_begins_behind_the_newest_event_and_never_goes_back,
            old_events_go_and_numbers_never_come_again,
            who_reads_by_number_passes_over_none,
            events_outlive_a_restart,
        ],
        attempts: [
            attempts_come_back_as_they_were_newest_first,
            an_attempt_that_is_recorded_twice_is_one,
            the_newest_of_each_client_are_kept,
            attempts_are_paged,
            old_attempts_are_forgotten,
        ],
        audit: [
            an_action_is_there_before_it_ends,
            actions_are_filtered_and_paged,
            old_actions_go_and_numbers_never_come_again,
            actions_outlive_a_restart,
        ],
        session_keys: [the_first_key_stays],
        stash_rows: [
            rows_of_all_states_come_in_their_order,
            rows_are_filtered_and_paged,
            a_row_is_shown_with_its_body_apart,
            what_was_given_up_is_purged_and_nothing_else,
        ],
        heavy_jobs: [
            an_id_that_is_kept_is_the_same_job,
            a_job_comes_back_as_it_was_written,
            an_older_holder_writes_over_nobody,
            what_has_ended_is_not_written,
            an_ended_job_goes_on_when_it_is_turned,
            only_what_has_ended_is_forgotten,
            jobs_are_listed_newest_first,
            old_jobs_go_and_the_last_stay,
            heavy_jobs_outlive_a_restart,
        ],
    );
}

mod queues_in_a_file {
    use crate::fixture::SqliteQueues;

    contract!(
        SqliteQueues::open().await,
        job_queue: [
            an_id_that_is_there_adds_nothing,
            a_job_comes_back_as_it_was_added,
            jobs_run_in_their_order,
            a_delayed_job_waits_until_it_is_due,
            concurrency_is_kept,
            a_failed_attempt_is_tried_again_with_its_reason,
            the_last_attempt_gives_up,
            going_on_later_counts_no_attempt,
            a_dedup_queue_keeps_the_id,
            a_redrivable_queue_frees_the_id,
            promote_acts_on_delayed_jobs,
            retry_acts_on_failed_jobs,
            remove_acts_on_all_but_active_jobs,
            all_are_promoted_or_retried,
            clean_removes_by_state_and_age,
            a_paused_queue_gives_nothing_away,
            a_running_job_can_speak,
            a_stop_waits_for_what_runs,
            what_outlasts_a_stop_is_taken_by_another,
            an_idle_worker_stops_at_once,
            workers_share_a_queue,
            the_oldest_waiting_job_is_known,
            a_schedule_makes_jobs,
            schedules_are_listed_changed_and_removed,
            a_schedule_that_is_put_again_is_left_alone,
            the_next_job_of_a_schedule_is_not_removed_alone,
        ],
    );
}

#[cfg(feature = "cluster")]
mod on_postgres {
    use crate::postgres::PostgresBackend;

    contract!(
        PostgresBackend::new(),
        stash: [
            stashing_twice_is_one_row,
            a_row_comes_back_as_it_was,
            only_rows_below_the_committed_offset_are_drained,
            rows_that_are_read_again_wait_for_their_turn,
            rows_of_an_earlier_log_come_first,
            drained_pages_follow_each_other,
            an_old_owner_is_fenced,
            a_batch_is_all_or_nothing,
            a_drain_lease_is_of_one_owner,
            an_owner_takes_its_own_lease_over,
            a_late_owner_takes_no_lease_back,
            a_lease_is_given_back_by_who_holds_it,
            a_lost_lease_cannot_write,
            check_tells_what_waits,
            a_failure_counts_and_frees,
            a_claim_stays_when_the_row_is_stashed_again,
            a_delivery_supersedes_older_dead_rows_of_its_document,
            a_row_goes_in_place_of_its_documents_older_ones,
            a_dead_row_is_not_drained,
            burying_leaves_nothing_pending,
            a_burial_goes_part_by_part,
            only_what_is_old_and_not_needed_is_purged,
            a_backlog_is_counted,
            the_next_attempt_is_the_earliest_that_is_set,
            a_held_document_is_left_out,
            what_is_free_is_found_behind_very_many_that_are_held,
            rows_outlive_a_restart,
        ],
        hot_documents: [a_delivery_supersedes_very_many_dead_rows, a_change_goes_in_place_of_very_many],
        dead_rows: [
            rows_that_were_given_up_are_listed_by_page,
            a_row_that_was_given_up_is_shown_and_its_payload_apart,
            a_buried_row_has_a_time,
            a_replayed_row_waits_at_its_old_place,
            a_replay_does_not_pass_what_is_newer,
            a_forced_replay_stands_where_it_came,
        ],
        client_states: [
            a_state_comes_back,
            states_outlive_a_restart,
            the_failure_clock_runs_from_the_first_failure,
            what_a_resync_made_good_is_told_with_the_state,
        ],
        decisions: [
            a_decision_holds_since_it_was_made_first,
            kinds_are_independent,
            what_is_taken_back_is_gone,
            decisions_outlive_a_restart,
        ],
        locks: [
            a_lease_is_of_one,
            tokens_rise_with_each_holder,
            a_lease_that_was_given_back_cannot_be_renewed,
            an_expired_lease_is_taken_over,
            a_renewed_lease_lasts_from_then_on,
            keys_are_independent,
        ],
        operational_events: [
            events_are_numbered_in_their_order,
            an_event_comes_back_as_it_was,
            an_event_that_is_recorded_twice_is_one,
            events_are_listed_from_both_ends_and_by_client,
            a_page_of_events_is_bounded,
            a_reader_begins_behind_the_newest_event_and_never_goes_back,
            old_events_go_and_numbers_never_come_again,
            who_reads_by_number_passes_over_none,
            events_outlive_a_restart,
        ],
        attempts: [
            attempts_come_back_as_they_were_newest_first,
            an_attempt_that_is_recorded_twice_is_one,
            the_newest_of_each_client_are_kept,
            attempts_are_paged,
            old_attempts_are_forgotten,
        ],
        audit: [
            an_action_is_there_before_it_ends,
            actions_are_filtered_and_paged,
            old_actions_go_and_numbers_never_come_again,
            actions_outlive_a_restart,
        ],
        session_keys: [the_first_key_stays],
        stash_rows: [
            rows_of_all_states_come_in_their_order,
            rows_are_filtered_and_paged,
            a_row_is_shown_with_its_body_apart,
            what_was_given_up_is_purged_and_nothing_else,
        ],
        heavy_jobs: [
            an_id_that_is_kept_is_the_same_job,
            a_job_comes_back_as_it_was_written,
            an_older_holder_writes_over_nobody,
            what_has_ended_is_not_written,
            an_ended_job_goes_on_when_it_is_turned,
            only_what_has_ended_is_forgotten,
            jobs_are_listed_newest_first,
            old_jobs_go_and_the_last_stay,
            heavy_jobs_outlive_a_restart,
        ],
        log_registry: [
            a_log_is_found_once_it_is_registered,
            a_log_that_was_made_again_is_another,
            incarnations_rise_over_all_names,
            the_quickest_replica_registers,
            it_tells_what_is_committed,
            a_group_is_begun_once,
            a_group_whose_beginner_died_is_begun_by_another,
        ],
    );
}

#[cfg(feature = "cluster")]
mod on_kafka {
    use crate::kafka::KafkaBackend;

    // A second consumer of a group gets nothing as long as the first one has it all: `kafka` has what happens when
    // partitions change hands.
    contract!(
        KafkaBackend::new(),
        event_log: [
            appended_records_come_back_in_order,
            nothing_is_appended_of_an_empty_list,
            a_batch_keeps_its_limits,
            a_consumer_waits_for_what_comes,
            a_dropped_next_loses_nothing,
            rewind_goes_back_to_the_committed_offset,
            groups_are_independent,
            work_is_written_whole,
            a_commit_that_leaves_out_a_record_is_refused,
            a_client_has_one_partition_and_its_order,
            a_transfer_comes_back_as_it_was,
            transfers_are_appended_apart_from_ingest,
            transfers_of_all_partitions_get_their_turn,
            a_paused_partition_waits,
            an_uncommitted_transfer_comes_again_after_a_restart,
            an_uncommitted_record_comes_again_after_a_restart,
            a_restart_keeps_shape_and_goes_on_counting,
            lag_counts_what_is_not_committed,
            nothing_is_appended_under_a_lease_that_is_over,
            dead_letters_are_kept_with_their_work,
        ],
    );
}

#[cfg(feature = "cluster")]
mod on_bullmq {
    use crate::fixture::BullMqBackend;

    contract!(
        BullMqBackend::new(),
        job_queue: [
            an_id_that_is_there_adds_nothing,
            a_job_comes_back_as_it_was_added,
            jobs_run_in_their_order,
            a_delayed_job_waits_until_it_is_due,
            concurrency_is_kept,
            a_failed_attempt_is_tried_again_with_its_reason,
            the_last_attempt_gives_up,
            going_on_later_counts_no_attempt,
            a_dedup_queue_keeps_the_id,
            a_redrivable_queue_frees_the_id,
            promote_acts_on_delayed_jobs,
            retry_acts_on_failed_jobs,
            remove_acts_on_all_but_active_jobs,
            all_are_promoted_or_retried,
            clean_removes_by_state_and_age,
            a_paused_queue_gives_nothing_away,
            a_running_job_can_speak,
            a_stop_waits_for_what_runs,
            what_outlasts_a_stop_is_taken_by_another,
            an_idle_worker_stops_at_once,
            workers_share_a_queue,
            the_oldest_waiting_job_is_known,
            a_schedule_makes_jobs,
            schedules_are_listed_changed_and_removed,
            a_schedule_that_is_put_again_is_left_alone,
            the_next_job_of_a_schedule_is_not_removed_alone,
        ],
    );
}

/// The configs in MongoDB, and client states with copies in Redis.
#[cfg(feature = "cluster")]
mod platform_stores {
    use crate::platform::PlatformBackend;

    contract!(
        PlatformBackend::new(),
        client_configs: [
            put_creates_and_replaces,
            a_deleted_config_is_still_loaded,
            a_config_is_switched_off_while_it_is_what_was_tried,
            what_is_no_client_config_is_passed_over,
            configs_outlive_a_restart,
        ],
        client_states: [
            a_state_comes_back,
            states_outlive_a_restart,
            the_failure_clock_runs_from_the_first_failure,
            what_a_resync_made_good_is_told_with_the_state,
        ],
    );
}

mod system {
    use dispatcher::ports::clock::SystemClock;

    contract!(SystemClock, clock: [it_tells_the_time_of_day_in_milliseconds, it_goes_on]);
}
