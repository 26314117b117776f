//! A source that goes on changing documents, whatever happens to the service and its stores.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::load::Load;
use super::oracle::Sent;

/// At once, ten times a second.
const CHANGES: usize = 5;

/// Changes that go on being made, whatever happens to the stores.
pub(crate) struct Stream {
    sent: Rc<RefCell<Sent>>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Stream {
    /// Begins.
    pub(crate) fn start(cluster: Rc<Cluster>, mut load: Load) -> Self {
        let sent = Rc::new(RefCell::new(Sent::default()));
        let stop = CancellationToken::new();
        let (written, stopped) = (sent.clone(), stop.clone());
        let task = actix_web::rt::spawn(async move {
            // A steady source, as an application is.
            let mut pace = tokio::time::interval(Duration::from_millis(100));
            while !stopped.is_cancelled() {
                pace.tick().await;
                let (records, pairs) = load.next(CHANGES);
                cluster.produce(&records).await;
                written.borrow_mut().acknowledged.extend(pairs);
            }
        });
        Self { sent, stop, task }
    }

    /// Ends it. Returns what was written.
    pub(crate) async fn end(self) -> Sent {
        self.stop.cancel();
        self.task.await.unwrap();
        Rc::into_inner(self.sent).unwrap().into_inner()
    }
}
