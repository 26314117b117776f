use futures_util::FutureExt as _;
use futures_util::future::ready;

use super::*;
use crate::ports::StoreError;
use crate::ports::clock::SystemClock;
use crate::runtime::{Kit, RestartPolicy, supervise};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Number(u32);

impl Record for Number {
    const KIND: &'static str = "numbers";
    const WAITING: usize = 5;
    const AT_ONCE: usize = 3;
    const LINGER: Duration = Duration::from_millis(10);
}

/// Refuses 13, panics at 99, is away while it is said to be.
#[derive(Default)]
struct Store(Mutex<StoreState>);

#[derive(Default)]
struct StoreState {
    is_away: bool,
    panicked: bool,
    batches: Vec<Vec<u32>>,
    asked: usize,
}

impl Records<Number> for Store {
    fn write(&self, records: Vec<Number>) -> BoxFuture<'_, StoreResult<()>> {
        let numbers: Vec<u32> = records.iter().map(|Number(number)| *number).collect();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.asked += 1;
        let answer = if state.is_away {
            Err(StoreError::Unavailable("away".to_owned()))
        } else if numbers.contains(&13) {
            Err(StoreError::Refused("unlucky".to_owned()))
        } else if numbers.contains(&99) && !std::mem::replace(&mut state.panicked, true) {
            panic!("a store that breaks");
        } else {
            state.batches.push(numbers);
            Ok(())
        };
        ready(answer).boxed()
    }

    fn purge(&self, _: i64) -> BoxFuture<'_, StoreResult<u64>> {
        ready(Ok(0)).boxed()
    }
}

impl Store {
    fn state(&self) -> MutexGuard<'_, StoreState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> Vec<u32> {
        self.state().batches.concat()
    }
}

fn start() -> (Recorder<Number>, Arc<Store>, Metrics, crate::runtime::Supervised<RecorderActor<Number>>) {
    tokio::time::pause();
    let (metrics, store) = (Metrics::new(), Arc::new(Store::default()));
    let recorder = Recorder::<Number>::new(&metrics);
    let kit = Kit::new(Arc::new(|_| {}), RestartPolicy::default());
    let (taken, records, counters) = (recorder.clone(), store.clone(), metrics.clone());
    let actor = supervise(&kit, &Arbiter::current(), Number::KIND, "", move |cell| {
        RecorderActor::new(cell, taken, records, Arc::new(SystemClock), counters)
    });
    (recorder, store, metrics, actor)
}

fn dropped(metrics: &Metrics) -> u64 {
    metrics.records_dropped.with_label_values(&[Number::KIND]).get()
}

#[actix_rt::test]
async fn records_are_written_in_order_and_in_batches() {
    let (recorder, store, metrics, _actor) = start();
    for number in 0..5 {
        recorder.record(Number(number));
    }
    recorder.is_written().await;
    assert_eq!(store.state().batches, [vec![0, 1, 2], vec![3, 4]]);
    assert_eq!(dropped(&metrics), 0);
}

#[actix_rt::test]
async fn while_the_store_is_away_the_newest_wait_and_the_oldest_are_dropped_and_counted() {
    let (recorder, store, metrics, actor) = start();
    store.state().is_away = true;
    recorder.record(Number(0));
    while store.state().asked < 3 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // 0 is in hand: it is written when the store is back.
    for number in 1..=8 {
        recorder.record(Number(number));
    }
    assert_eq!(dropped(&metrics), 3);
    assert_eq!(actor.cell.status().mailbox, Some(6), "seen from outside, whatever the writer does");
    store.state().is_away = false;
    recorder.is_written().await;
    assert_eq!(actor.cell.status().mailbox, Some(0));
    assert_eq!(store.written(), [0, 4, 5, 6, 7, 8]);
}

#[actix_rt::test]
async fn a_record_that_the_store_refuses_takes_no_other_with_it() {
    let (recorder, store, metrics, _actor) = start();
    for number in [1, 13, 2] {
        recorder.record(Number(number));
    }
    recorder.is_written().await;
    assert_eq!((store.written(), dropped(&metrics)), (vec![1, 2], 1));
}

#[actix_rt::test]
async fn a_writer_that_breaks_loses_nothing() {
    let (recorder, store, metrics, actor) = start();
    for number in [1, 99, 2, 3] {
        recorder.record(Number(number));
    }
    recorder.is_written().await;
    assert_eq!((store.written(), dropped(&metrics)), (vec![1, 99, 2, 3], 0));
    assert_eq!(actor.cell.generation(), 1);
}

#[actix_rt::test]
async fn who_waits_for_the_next_write_is_woken_by_it() {
    let (recorder, store, _, _actor) = start();
    let wrote = recorder.wrote();
    tokio::pin!(wrote);
    assert!(wrote.as_mut().now_or_never().is_none());
    recorder.record(Number(1));
    wrote.await;
    assert_eq!(store.written(), [1]);
}
