//! One folder a technology, each implements ports.

pub mod embedded;
pub mod http;
