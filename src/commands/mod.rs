//! (to be written)

pub mod receive;
