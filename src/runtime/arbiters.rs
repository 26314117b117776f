//! A fixed pool of threads for actors.

use std::{io, num::NonZeroUsize, thread, time::Duration};

use actix_rt::{Arbiter, ArbiterHandle};
use tokio::{sync::oneshot, time::Instant};

/// Arbiters under one name. Kinds of actors that must not hold each other up get a pool each.
#[derive(Debug)]
pub struct Arbiters {
    name: &'static str,
    handles: Vec<ArbiterHandle>,
    threads: Vec<Arbiter>,
}

impl Arbiters {
    /// Starts the threads. `name` appears in the log.
    ///
    /// # Errors
    /// When the system gives no thread or event loop.
    ///
    /// # Panics
    /// Outside an actix system.
    pub fn start(name: &'static str, count: NonZeroUsize) -> io::Result<Self> {
        let threads: Vec<_> = (0..count.get()).map(|_| Arbiter::try_new()).collect::<io::Result<_>>()?;
        let handles = threads.iter().map(Arbiter::handle).collect();
        Ok(Self { name, handles, threads })
    }

    /// No threads: everything runs on the arbiter of the caller. For simulations, whose paused clock is of one thread.
    ///
    /// # Panics
    /// Outside an actix system.
    pub fn current(name: &'static str) -> Self {
        Self { name, handles: vec![Arbiter::current()], threads: Vec::new() }
    }

    /// The arbiter for a hash: always the same one for the same hash.
    pub fn pick(&self, hash: u64) -> ArbiterHandle {
        let index = hash % self.handles.len() as u64; // never empty, see `start` and `current`
        self.handles[index as usize].clone()
    }

    /// Stops all threads and waits for them: the end of the actix system alone would not. Actors that still run
    /// are dropped, their async work with them; end them before.
    ///
    /// Returns how many threads had not ended within `limit`; they are left to themselves.
    pub async fn stop_and_join(self, limit: Duration) -> usize {
        let deadline = Instant::now() + limit;
        let (name, mut left) = (self.name, 0);
        // All at once, so that one that is late does not take the time of the others.
        let joined: Vec<_> = self.threads.into_iter().map(stop_and_join).collect();
        for (number, joined) in joined.into_iter().enumerate() {
            match tokio::time::timeout_at(deadline, joined).await {
                Ok(Ok(Ok(()))) => {}
                Ok(_) => log::error!("arbiter thread panicked pool={name} number={number}"),
                Err(_) => {
                    log::warn!("arbiter thread did not end in time pool={name} number={number}");
                    left += 1;
                }
            }
        }
        left
    }
}

/// Joins on a thread of its own, not on one of the runtime's: that would make the end of the runtime wait for
/// an arbiter that is stuck.
fn stop_and_join(arbiter: Arbiter) -> oneshot::Receiver<thread::Result<()>> {
    let (done, joined) = oneshot::channel();
    arbiter.stop();
    thread::spawn(move || {
        let _ = done.send(arbiter.join()); // nobody listens after the limit
    });
    joined
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::mpsc};

    use super::*;

    const THREE: NonZeroUsize = NonZeroUsize::new(3).unwrap();

    async fn thread_of(arbiter: &ArbiterHandle) -> thread::ThreadId {
        let (sender, receiver) = oneshot::channel();
        arbiter.spawn_fn(move || sender.send(thread::current().id()).unwrap());
        receiver.await.unwrap()
    }

    #[actix_rt::test]
    async fn a_hash_keeps_its_thread_and_all_threads_are_used() {
        let pool = Arbiters::start("test", THREE).unwrap();
        let mut threads = HashSet::new();
        for hash in [0, 1, 2, u64::MAX] {
            let thread = thread_of(&pool.pick(hash)).await;
            assert_eq!(thread, thread_of(&pool.pick(hash)).await);
            threads.insert(thread);
        }
        assert_eq!(threads.len(), 3);
        assert_eq!(pool.stop_and_join(Duration::from_secs(10)).await, 0);
    }

    #[actix_rt::test]
    async fn a_thread_that_is_stuck_is_counted_and_left() {
        let pool = Arbiters::start("test", THREE).unwrap();
        let (free, stuck) = mpsc::channel::<()>();
        let (entered_in, entered) = oneshot::channel();
        pool.pick(1).spawn_fn(move || {
            entered_in.send(()).unwrap();
            let _ = stuck.recv();
        });
        entered.await.unwrap();
        assert_eq!(pool.stop_and_join(Duration::from_millis(50)).await, 1);
        drop(free);
    }
}
