//! What Redis holds: copies for others to see, and notices between replicas. Nothing in it is the truth.

mod probe;

pub use self::probe::probe;
