//! What is recorded beside the flow, in memory: at once, for nothing here is asked to wait.

use std::sync::{Arc, Mutex};

use dispatcher::actors::recorder::{Record, Recorder, RecorderActor, Records};
use dispatcher::metrics::Metrics;
use dispatcher::ports::clock::Clock;
use dispatcher::ports::{BoxFuture, StoreResult};
use dispatcher::runtime::{Arbiters, Kit, supervise};

/// Records of a kind, of all lives.
pub(crate) struct Kept<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Record> Kept<T> {
    /// All of them so far.
    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }

    /// Starts who writes them.
    pub(crate) fn start(
        &self,
        kit: &Kit,
        arbiters: &Arbiters,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> Recorder<T> {
        let recorder = Recorder::<T>::new(metrics);
        let (taken, records, metrics) = (recorder.clone(), Arc::new(Kept(self.0.clone())), metrics.clone());
        supervise(kit, arbiters.pick(0), T::KIND, "", move |cell| {
            RecorderActor::new(cell, taken, records, clock, metrics)
        });
        recorder
    }
}

impl<T: Record> Records<T> for Kept<T> {
    fn write(&self, records: Vec<T>) -> BoxFuture<'_, StoreResult<()>> {
        self.0.lock().unwrap().extend(records);
        Box::pin(std::future::ready(Ok(())))
    }

    fn purge(&self, _: i64) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(std::future::ready(Ok(0)))
    }
}
