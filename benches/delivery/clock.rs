//! The time that the processes of the bench share.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// When the whole bench must have ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Whether it has passed.
    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// Ends what is not done by then.
    ///
    /// # Errors
    /// That of the work, or that it was not done.
    pub(crate) async fn bound<T>(self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let left = self.0.saturating_duration_since(Instant::now());
        actix_rt::time::timeout(left, work).await.unwrap_or_else(|_| anyhow::bail!("no time is left"))
    }

    /// This, or so long from now when that is earlier.
    pub(crate) fn or_after(self, time: Duration) -> Self {
        Self(self.0.min(Instant::now() + time))
    }

    /// Asks until there is an answer; `Err` of `ask` is what is still missing.
    ///
    /// # Errors
    /// When the time is over: with `what` was waited for, and what the last question said.
    pub(crate) async fn wait<T>(
        self,
        what: &str,
        mut ask: impl AsyncFnMut() -> Result<T, String>,
    ) -> anyhow::Result<T> {
        /// Short beside what is measured, long beside what a question costs.
        const BETWEEN: Duration = Duration::from_millis(20);
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(missing) if self.is_over() => anyhow::bail!("{what}: not in time: {missing}"),
                Err(_) => actix_rt::time::sleep(BETWEEN).await,
            }
        }
    }
}
