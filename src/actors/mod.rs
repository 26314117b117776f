//! The actors, one file (or folder) each. Work lives in stores; actors hold leases on it and send each other kicks.
//!
//! ```text
//! KafkaIngestActor<Source>    change events -> routing -> transfer log, with the source offsets
//! KafkaIngestActor<Transfer>  transfer log -> fleet; commits what is settled
//! ConfigCacheActor            the configs of all clients
//! DeliveryFleetActor          client -> delivery actor; owns the unsettled transfers
//! └ WebhookDeliveryActor      one a client: lanes, stash, drain
//! StashActor                  batched stash writes
//! RecorderActor               operational events and attempts, written beside the flow
//! ForwarderActor              operational events to the topic and the operator's webhook
//! DashboardActor              a snapshot of everything each second, for those who watch
//! ```

pub mod attempts;
pub mod config_cache;
pub mod dashboard;
pub mod delivery;
pub mod delivery_fleet;
pub mod disabler;
pub mod inbox;
pub mod ingest;
pub mod meters;
pub mod operational_events;
pub mod owners;
pub mod promoter;
pub mod recorder;
mod refused;
pub mod retry;
pub mod stash;
pub mod windows;
