//! How far the start, or the stop, of the service has come.

use std::sync::atomic::{AtomicBool, Ordering};

/// What `/readyz` reports and the intake obeys. Each step is taken once, by the one who starts or stops the service.
#[derive(Debug, Default)]
pub struct Readiness {
    log_open: AtomicBool,
    configs_loaded: AtomicBool,
    started: AtomicBool,
    stopping: AtomicBool,
    intake_closed: AtomicBool,
}

impl Readiness {
    /// Events can be appended.
    pub fn log_is_open(&self) {
        self.log_open.store(true, Ordering::Release);
    }

    /// The client configs were read.
    pub fn configs_are_loaded(&self) {
        self.configs_loaded.store(true, Ordering::Release);
    }

    /// Every actor was started.
    pub fn is_started(&self) {
        self.started.store(true, Ordering::Release);
    }

    /// The service stops: no more traffic should be sent to it.
    pub fn is_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// No more events are taken.
    pub fn close_intake(&self) {
        self.intake_closed.store(true, Ordering::Release);
    }

    /// What is missing for traffic; `None`: ready.
    pub fn missing(&self) -> Option<&'static str> {
        let is = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        if is(&self.stopping) {
            Some("stopping")
        } else if !is(&self.log_open) {
            Some("the log is not open yet")
        } else if !is(&self.configs_loaded) {
            Some("the client configs are not loaded yet")
        } else if !is(&self.started) {
            Some("not started yet")
        } else {
            None
        }
    }

    /// Whether events are taken.
    pub fn takes_events(&self) -> bool {
        self.log_open.load(Ordering::Acquire) && !self.intake_closed.load(Ordering::Acquire)
    }
}
