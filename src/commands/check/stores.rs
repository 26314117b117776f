//! The four stores of cluster mode, asked side by side.

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, join_all};

use super::{LIMIT, bounded};
use crate::backends::kafka::probe as ask_kafka;
use crate::backends::mongo::probe as ask_mongo;
use crate::backends::postgres::probe as ask_postgres;
use crate::backends::redis::probe as ask_redis;
use crate::ports::findings::Finding;
use crate::settings::{Settings, SettingsError};

pub(super) async fn look(settings: &Settings) -> Result<Vec<Finding>, SettingsError> {
    let (source, transfers) = (settings.source.group.as_str(), settings.source.transfer_group());
    let kafka = settings.kafka_options();
    let redis = settings.redis_options();
    let mongo = settings.mongo_options();
    let postgres = settings.postgres_options()?;
    let asked: [LocalBoxFuture<'_, Vec<Finding>>; 4] = [
        bounded(LIMIT, "kafka", async |findings| ask_kafka(&kafka, &[source, &transfers], findings).await)
            .boxed_local(),
        bounded(LIMIT, "redis", async |findings| ask_redis(&redis, findings).await).boxed_local(),
        bounded(LIMIT, "mongo", async |findings| ask_mongo(&mongo, findings).await).boxed_local(),
        bounded(LIMIT, "postgres", async |findings| ask_postgres(&postgres, findings).await).boxed_local(),
    ];
    Ok(join_all(asked).await.concat())
}
