//! The worker kit: queues, jobs and schedules that cannot be used wrongly.
