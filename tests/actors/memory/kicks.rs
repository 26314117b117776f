//! Kicks from process to process. Any of them may be lost.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use dispatcher::domain::config::ClientId;
use dispatcher::ports::BoxFuture;
use dispatcher::ports::owner_kicks::OwnerKicks;
use fastrand::Rng;
use tokio::sync::Notify;

/// What all processes share.
pub(crate) struct Kicks {
    ears: Mutex<Vec<Weak<Ear>>>,
    rng: Mutex<Rng>,
}

#[derive(Default)]
struct Ear {
    heard: Mutex<VecDeque<ClientId>>,
    rang: Notify,
}

impl Kicks {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { ears: Mutex::default(), rng: Mutex::new(Rng::with_seed(seed)) })
    }
}

/// The kicks as one process sees them.
pub(crate) struct MemoryKicks {
    all: Arc<Kicks>,
    own: Arc<Ear>,
}

impl MemoryKicks {
    pub(crate) fn new(all: Arc<Kicks>) -> Self {
        let own = Arc::new(Ear::default());
        let mut ears = all.ears.lock().unwrap();
        ears.retain(|ear| ear.strong_count() > 0);
        ears.push(Arc::downgrade(&own));
        drop(ears);
        Self { all, own }
    }
}

impl OwnerKicks for MemoryKicks {
    fn send<'a>(&'a self, client: &'a ClientId) -> BoxFuture<'a, ()> {
        for ear in self.all.ears.lock().unwrap().iter().filter_map(Weak::upgrade) {
            let lost = self.all.rng.lock().unwrap().u8(0..4) == 0;
            if !lost {
                ear.heard.lock().unwrap().push_back(client.clone());
                ear.rang.notify_one();
            }
        }
        Box::pin(std::future::ready(()))
    }

    fn next(&self) -> BoxFuture<'_, ClientId> {
        Box::pin(async {
            loop {
                let heard = self.own.heard.lock().unwrap().pop_front();
                match heard {
                    Some(client) => return client,
                    None => self.own.rang.notified().await,
                }
            }
        })
    }
}
