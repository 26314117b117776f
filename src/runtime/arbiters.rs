//! A fixed number of threads for actors. One that is lost is left behind, and another takes its place.

use std::{
    io,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use actix_rt::{Arbiter, ArbiterHandle};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::lock;

/// A place for actors on a thread. A clone is the same place.
#[derive(Debug, Clone)]
pub struct Seat {
    arbiter: ArbiterHandle,
    lost: CancellationToken,
    answered: Arc<AtomicBool>,
    /// It had not answered when it was looked at.
    silent: Arc<AtomicBool>,
}

impl Seat {
    fn new(arbiter: ArbiterHandle) -> Self {
        let answered = Arc::new(AtomicBool::new(true));
        Self { arbiter, lost: CancellationToken::new(), answered, silent: Arc::default() }
    }

    /// The arbiter that runs on the thread.
    pub fn arbiter(&self) -> &ArbiterHandle {
        &self.arbiter
    }

    /// Whether the thread was declared lost: it still runs, but nothing that it does counts.
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    /// Waits until the thread is declared lost.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Whether this is a place on the same thread.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.answered, &other.answered)
    }

    /// Whether the thread had not answered when it was looked at.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Asks the thread for an answer; false: it has ended.
    fn ask(&self) -> bool {
        self.answered.store(false, Ordering::Release);
        let answered = Arc::clone(&self.answered);
        self.arbiter.spawn_fn(move || answered.store(true, Ordering::Release))
    }
}

/// A place on a thread that nobody watches.
impl From<&ArbiterHandle> for Seat {
    fn from(arbiter: &ArbiterHandle) -> Self {
        Self::new(arbiter.clone())
    }
}

impl From<&Self> for Seat {
    fn from(seat: &Self) -> Self {
        seat.clone()
    }
}

/// Arbiters under one name. Kinds of actors that must not hold each other up get a pool each.
#[derive(Debug)]
pub struct Arbiters {
    name: &'static str,
    slots: Vec<Mutex<Slot>>,
}

#[derive(Debug)]
struct Slot {
    seat: Seat,
    /// `None`: the thread is the caller's.
    thread: Option<Arbiter>,
    /// How often in a row the thread had not answered when it was looked at.
    missed: u32,
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
        let slots = (0..count.get()).map(|_| Ok(Mutex::new(Slot::start()?))).collect::<io::Result<_>>()?;
        Ok(Self { name, slots })
    }

    /// No threads: everything runs on the arbiter of the caller. For simulations, whose paused clock is of one thread.
    ///
    /// # Panics
    /// Outside an actix system.
    pub fn current(name: &'static str) -> Self {
        let slot = Slot { seat: Seat::new(Arbiter::current()), thread: None, missed: 0 };
        Self { name, slots: vec![Mutex::new(slot)] }
    }

    /// Their name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many threads.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The place for a hash: always on the same thread for the same hash, until that is lost.
    pub fn pick(&self, hash: u64) -> Seat {
        let index = hash % self.slots.len() as u64; // never empty, see `start` and `current`
        lock(&self.slots[index as usize]).seat.clone()
    }

    /// Looks whether each thread has answered since the last look, and asks again. Returns the numbers of those that have not in the
    /// last `limit` looks.
    pub(super) fn look(&self, limit: u32) -> Vec<usize> {
        let silent = |slot: &Mutex<Slot>| {
            let mut slot = lock(slot);
            let answered = slot.seat.answered.load(Ordering::Acquire);
            slot.missed = if answered { 0 } else { slot.missed + 1 };
            slot.seat.silent.store(!answered, Ordering::Relaxed);
            if slot.missed == 0 && !slot.seat.ask() {
                slot.seat.answered.store(true, Ordering::Release); // it has ended in order
            }
            slot.missed >= limit
        };
        self.slots.iter().enumerate().filter(|(_, slot)| silent(slot)).map(|(number, _)| number).collect()
    }

    /// Declares a thread lost and starts another in its place. The lost one cannot be killed: it is left to itself, and ends if it ever
    /// comes to its senses. Returns the place that is lost.
    ///
    /// # Errors
    /// When the system gives no thread or event loop: then the old one stays.
    ///
    /// # Panics
    /// Outside an actix system, and when there is no such number.
    pub fn replace(&self, number: usize) -> io::Result<Seat> {
        let mut slot = lock(&self.slots[number]);
        let next = match slot.thread {
            Some(_) => Slot::start()?,
            None => Slot { seat: Seat::new(slot.seat.arbiter.clone()), thread: None, missed: 0 },
        };
        let Slot { seat, thread, .. } = std::mem::replace(&mut *slot, next);
        seat.lost.cancel();
        if let Some(thread) = thread {
            thread.stop();
        }
        Ok(seat)
    }

    /// Stops all threads and waits for them: the end of the actix system alone would not. Actors that still run
    /// are dropped, their async work with them; end them before. Those that were lost are not waited for.
    ///
    /// Returns how many threads had not ended within `limit`; they are left to themselves.
    pub async fn stop_and_join(&self, limit: Duration) -> usize {
        let deadline = Instant::now() + limit;
        let (name, mut left) = (self.name, 0);
        // All at once, so that one that is late does not take the time of the others.
        let threads = self.slots.iter().filter_map(|slot| lock(slot).thread.take());
        let joined: Vec<_> = threads.map(stop_and_join).collect();
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

impl Slot {
    fn start() -> io::Result<Self> {
        let thread = Arbiter::try_new()?;
        Ok(Self { seat: Seat::new(thread.handle()), thread: Some(thread), missed: 0 })
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

    async fn thread_of(seat: &Seat) -> thread::ThreadId {
        let (sender, receiver) = oneshot::channel();
        seat.arbiter().spawn_fn(move || sender.send(thread::current().id()).unwrap());
        receiver.await.unwrap()
    }

    /// Makes a thread stuck until the sender is dropped.
    async fn stick(seat: &Seat) -> mpsc::Sender<()> {
        let (free, stuck) = mpsc::channel::<()>();
        let (entered_in, entered) = oneshot::channel();
        seat.arbiter().spawn_fn(move || {
            entered_in.send(()).unwrap();
            let _ = stuck.recv();
        });
        entered.await.unwrap();
        free
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
        let free = stick(&pool.pick(1)).await;
        assert_eq!(pool.stop_and_join(Duration::from_millis(50)).await, 1);
        drop(free);
    }

    #[actix_rt::test]
    async fn a_thread_that_does_not_answer_is_found_and_another_takes_its_place() {
        let pool = Arbiters::start("test", THREE).unwrap();
        let stuck = pool.pick(1);
        let others = [thread_of(&pool.pick(0)).await, thread_of(&pool.pick(2)).await];
        let free = stick(&stuck).await;
        assert!(pool.look(2).is_empty(), "it is only asked");
        for hash in [0, 2] {
            thread_of(&pool.pick(hash)).await; // by then they have answered
        }
        assert!(pool.look(2).is_empty(), "once may be chance");
        for hash in [0, 2] {
            thread_of(&pool.pick(hash)).await;
        }
        assert_eq!(pool.look(2), [1]);

        assert!(pool.replace(1).unwrap().is_same(&stuck));
        assert!(stuck.is_lost() && !pool.pick(1).is_lost());
        let fresh = thread_of(&pool.pick(1)).await;
        assert!(!others.contains(&fresh));
        assert_eq!(others[0], thread_of(&pool.pick(0)).await);
        assert!(pool.look(2).is_empty());
        assert_eq!(pool.stop_and_join(Duration::from_secs(10)).await, 0, "the lost one is not waited for");
        drop(free);
    }

    #[actix_rt::test]
    async fn threads_that_ended_are_not_lost() {
        let pool = Arbiters::start("test", THREE).unwrap();
        pool.stop_and_join(Duration::from_secs(10)).await;
        for _ in 0..5 {
            assert!(pool.look(1).is_empty());
        }
    }
}
