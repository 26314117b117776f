//! `dispatcher demo`: the service at work, in a temporary folder.

/// Runs the demo until it is interrupted.
///
/// # Errors
/// When something of it cannot start.
pub async fn run() -> anyhow::Result<()> {
    anyhow::bail!("the demo is not put together yet")
}
