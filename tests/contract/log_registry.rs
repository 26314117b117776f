//! The contract of the log registry.

use std::sync::Arc;
use std::time::Duration;

use dispatcher::ports::BoxFuture;
use dispatcher::ports::log_registry::{GroupBegin, KnownLog, LogRegistry};
use dispatcher::ports::stash::Stash;

use crate::fixture::soon;

/// A registry, and the stash that keeps copies of committed offsets for it.
pub(crate) struct Registered {
    pub(crate) registry: Arc<dyn LogRegistry>,
    pub(crate) stash: Arc<dyn Stash>,
}

/// A technology under test. Each `open` is a replica of its own; what one wrote is there for all.
pub(crate) trait RegistryBackend {
    fn open(&self) -> BoxFuture<'_, Registered>;
}

pub(crate) async fn a_log_is_found_once_it_is_registered(backend: &impl RegistryBackend) {
    let registry = backend.open().await.registry;
    assert_eq!(registry.find("transfers").await.unwrap(), None);
    let made = registry.register("transfers", 12, None).await.unwrap();
    assert_eq!(made, KnownLog { partitions: 12, committed: [].into(), ..made.clone() });
    assert_eq!(registry.find("transfers").await.unwrap(), Some(made));
    assert_eq!(registry.find("transfer").await.unwrap(), None);
}

pub(crate) async fn a_log_that_was_made_again_is_another(backend: &impl RegistryBackend) {
    let registry = backend.open().await.registry;
    let first = registry.register("transfers", 12, None).await.unwrap();
    let second = registry.register("transfers", 6, Some(first.incarnation)).await.unwrap();
    assert!(second.incarnation > first.incarnation);
    assert_eq!(second.partitions, 6);
    assert_eq!(registry.find("transfers").await.unwrap(), Some(second));
}

pub(crate) async fn incarnations_rise_over_all_names(backend: &impl RegistryBackend) {
    let registry = backend.open().await.registry;
    let one = registry.register("one", 12, None).await.unwrap();
    let two = registry.register("two", 12, None).await.unwrap();
    let again = registry.register("one", 12, Some(one.incarnation)).await.unwrap();
    assert!(one.incarnation < two.incarnation && two.incarnation < again.incarnation);
}

pub(crate) async fn the_quickest_replica_registers(backend: &impl RegistryBackend) {
    let replicas = [backend.open().await, backend.open().await, backend.open().await];
    let register =
        |known| replicas.each_ref().map(|replica| replica.registry.register("transfers", 12, known));
    let made = futures_util::future::try_join_all(register(None)).await.unwrap();
    assert!(made.iter().all(|log| *log == made[0]), "{made:?}");
    let again = futures_util::future::try_join_all(register(Some(made[0].incarnation))).await.unwrap();
    assert!(again.iter().all(|log| *log == again[0]) && again[0].incarnation > made[0].incarnation);
    // One that looked before: it gets what is there by now.
    let late = replicas[0].registry.register("transfers", 3, Some(made[0].incarnation)).await.unwrap();
    assert_eq!(late, again[0]);
}

pub(crate) async fn it_tells_what_is_committed(backend: &impl RegistryBackend) {
    let Registered { registry, stash } = backend.open().await;
    let old = registry.register("transfers", 12, None).await.unwrap();
    let owner = stash.take_ownership(old.incarnation, 3, 0).await.unwrap();
    stash.committed(owner, 70).await.unwrap();
    stash.take_ownership(old.incarnation, 5, 0).await.unwrap();
    let found = registry.find("transfers").await.unwrap().unwrap();
    assert_eq!(found.committed, [(3, 70), (5, 0)].into());
    let new = registry.register("transfers", 12, Some(old.incarnation)).await.unwrap();
    assert!(new.committed.is_empty(), "of another log");
}

const WITHIN: Duration = Duration::from_secs(600);

pub(crate) async fn a_group_is_begun_once(backend: &impl RegistryBackend) {
    let (one, two) = (backend.open().await.registry, backend.open().await.registry);
    assert_eq!(one.begin_group("dispatcher", WITHIN).await, Ok(GroupBegin::Ours));
    assert_eq!(two.begin_group("dispatcher", WITHIN).await, Ok(GroupBegin::Others), "it has not begun yet");
    assert_eq!(two.begin_group("other", WITHIN).await, Ok(GroupBegin::Ours));
    one.group_begun("dispatcher").await.unwrap();
    for registry in [&one, &two] {
        assert_eq!(registry.begin_group("dispatcher", Duration::ZERO).await, Ok(GroupBegin::Known));
    }
    assert_eq!(one.begin_group("other", WITHIN).await, Ok(GroupBegin::Others));
}

pub(crate) async fn a_group_whose_beginner_died_is_begun_by_another(backend: &impl RegistryBackend) {
    let (one, two) = (backend.open().await.registry, backend.open().await.registry);
    assert_eq!(one.begin_group("dispatcher", WITHIN).await, Ok(GroupBegin::Ours));
    let short = Duration::from_millis(1);
    soon(async { while two.begin_group("dispatcher", short).await != Ok(GroupBegin::Ours) {} }).await;
    assert_eq!(one.begin_group("dispatcher", WITHIN).await, Ok(GroupBegin::Others));
}
