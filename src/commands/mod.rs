//! The commands of the command line.

pub mod explain;
pub mod receive;
