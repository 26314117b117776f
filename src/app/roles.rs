//! Which roles this process has, and which nobody has.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::settings::{Role, Roles};
use crate::web::Ask;

/// How often a replica says which roles it has.
const TELL_ROLES_EVERY: Duration = Duration::from_secs(5);

/// Says again and again what this process does, so that others know what nobody does.
pub(super) fn tell_roles(roles: Vec<Role>, tell: Ask<Vec<&'static str>, ()>, stop: CancellationToken) {
    let roles: Vec<_> = roles.into_iter().map(Role::as_str).collect();
    log::info!("roles={}", roles.join(","));
    actix_rt::spawn(stop.run_until_cancelled_owned(async move {
        loop {
            tell(roles.clone()).await;
            tokio::time::sleep(TELL_ROLES_EVERY).await;
        }
    }));
}

/// Those that neither this process has, whatever the others hear of it, nor another.
pub(super) fn unattended_roles(
    ours: Roles,
    held: Ask<(), Result<Vec<&'static str>, String>>,
) -> Ask<(), Option<Vec<&'static str>>> {
    Arc::new(move |()| {
        let (ours, held) = (ours.clone(), held.clone());
        Box::pin(async move {
            let held = held(()).await.ok()?;
            let others = Role::ALL.into_iter().filter(|role| !ours.has(*role)).map(Role::as_str);
            Some(others.filter(|role| !held.contains(role)).collect())
        })
    })
}
