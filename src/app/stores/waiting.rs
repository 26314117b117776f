//! Waits at the start for a store that is away.

use std::time::Duration;

use crate::web::Startup;

/// Between two tries.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Why a store is not open.
pub(in crate::app) enum NotOpen {
    /// It may come: it does not answer.
    Away(String),
    /// Waiting does not mend it.
    Wrong(anyhow::Error),
}

/// Opens a store; while it is away that is said once, and shown on `startup`.
pub(in crate::app) async fn until_there<T>(
    name: &'static str,
    startup: &Startup,
    open: impl AsyncFn() -> Result<T, NotOpen>,
) -> anyhow::Result<T> {
    let mut said = false;
    loop {
        match open().await {
            Ok(store) => {
                startup.has(name);
                if said {
                    log::info!("{name} is there");
                }
                return Ok(store);
            }
            Err(NotOpen::Wrong(err)) => return Err(err),
            Err(NotOpen::Away(why)) => {
                if !std::mem::replace(&mut said, true) {
                    log::error!("the start waits for {name} err={why}");
                }
                startup.waits_for(name, why);
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }
}
