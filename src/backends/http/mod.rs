//! Webhook requests by awc.
//!
//! A URL is hostile, and so is whoever answers there: the address is checked when it is connected to
//! ([`egress`]), nothing is followed, everything that is read is bounded in bytes and time.

mod answer;
mod connector;
pub mod egress;
mod fault;
mod permitted;
mod sender;
#[cfg(test)]
mod tests;
mod tls;

pub use egress::EgressRule;
pub use sender::HttpSenders;
pub use tls::RootsError;
