//! Puts the service together.

use crate::settings::Settings;

/// Runs the service until it is told to stop.
///
/// # Errors
/// When it cannot start.
pub async fn run(_settings: Settings) -> anyhow::Result<()> {
    anyhow::bail!("the service is not put together yet")
}
