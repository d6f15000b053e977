//! Loops beside the exchange: what every node does all the time, and what only the leader does.

pub(crate) mod lease_renewal;
pub(crate) mod promotion;
pub(crate) mod run_end_relay;
pub(crate) mod sampling;
