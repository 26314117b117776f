//! One folder a technology, each implements ports.

#[cfg(feature = "cluster")]
pub mod bullmq;
pub mod embedded;
pub mod http;
#[cfg(feature = "cluster")]
pub mod kafka;
#[cfg(feature = "cluster")]
pub mod mongo;
#[cfg(feature = "cluster")]
pub mod postgres;
#[cfg(feature = "cluster")]
pub mod redis;
mod stored;
