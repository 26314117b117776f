//! The four stores of cluster mode, asked side by side.

use futures_util::future::join_all;
use futures_util::{FutureExt as _, future::LocalBoxFuture};

use super::{LIMIT, bounded};
use crate::backends::redis::probe as ask_redis;
use crate::ports::findings::Finding;
use crate::settings::Settings;

pub(super) async fn look(settings: &Settings) -> Vec<Finding> {
    let asked: [LocalBoxFuture<'_, Vec<Finding>>; 1] = [bounded(LIMIT, "redis", async |findings| {
        let Some(url) = settings.redis.url() else { return };
        ask_redis(&url, &settings.redis.prefix, findings).await;
    })
    .boxed_local()];
    join_all(asked).await.concat()
}
