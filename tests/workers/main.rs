//! The worker kit on real stores: what handlers may do, crashes, outages, and the real BullMQ of Node.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

#[cfg(feature = "cluster")]
mod board;
#[cfg(feature = "cluster")]
mod crashes;
mod example;
mod exclusive;
mod handling;
mod heavy;
#[cfg(feature = "cluster")]
mod interop;
#[cfg(feature = "cluster")]
#[path = "../node/mod.rs"]
mod node;
#[cfg(feature = "cluster")]
mod outages;
#[cfg(feature = "cluster")]
mod process;
#[cfg(feature = "cluster")]
mod redis_world;
mod schedules;
#[cfg(feature = "cluster")]
#[path = "../services/mod.rs"]
mod services;
mod ticks;
mod upkeep;
mod world;

/// Runs every case in a world of its own.
macro_rules! in_world {
    ($world:expr) => {
        in_world!(
            $world,
            handling: [
                a_panic_is_a_failed_attempt_with_its_text,
                an_attempt_that_takes_too_long_has_failed,
                a_wait_that_the_receiver_asks_for_is_kept_up_to_the_cap,
                what_is_of_no_use_is_given_up_at_once,
                listeners_hear_of_every_end,
                going_on_later_is_the_same_job_with_no_attempt_more,
                another_versions_job_is_passed_over_where_ids_are_freed,
                another_versions_job_waits_where_ids_are_kept,
                jobs_of_a_blocked_owner_are_done_without_being_done,
                a_block_list_that_is_away_holds_the_job,
                a_queue_that_lost_its_pause_runs_nothing,
                a_job_cannot_add_itself_while_it_runs,
                jobs_can_be_delayed_prioritised_and_added_in_bulk,
            ],
            schedules: [
                a_mistake_in_the_table_is_named,
                the_store_follows_the_table,
                two_workers_share_the_ticks_of_a_schedule,
            ],
        );
    };
    ($world:expr, $($part:ident: [$($case:ident),* $(,)?]),* $(,)?) => {
        $(mod $part {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::$part::$case($world).await;
            })*
        })*
    };
}

mod in_a_file {
    in_world!(crate::world::World::in_a_file().await);
}

#[cfg(feature = "cluster")]
mod in_redis {
    in_world!(crate::world::World::new(crate::services::redis(), &crate::services::unique("workers")));
}
