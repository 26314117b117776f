//! A runtime of its own for what must not wait for the actors, nor they for it.

use tokio::runtime::{Builder, Handle, Runtime};

pub(super) struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    pub(super) fn start(name: &str, threads: usize) -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        Ok(Self(Some(builder.worker_threads(threads).thread_name(name).enable_all().build()?)))
    }

    pub(super) fn handle(&self) -> Handle {
        #[expect(clippy::expect_used, reason = "taken by drop alone")]
        self.0.as_ref().expect("the runtime runs").handle().clone()
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // In async code a runtime cannot be waited for. Whoever still wants an answer of it is gone by now.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
