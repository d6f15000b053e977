//! Loops beside the exchange: those of every node, and the duties of the leader.

pub(crate) mod claim_sweep;
pub(crate) mod leader_duty;
pub(crate) mod lease_renewal;
pub(crate) mod limit_reconciliation;
pub(crate) mod object_removal;
pub(crate) mod periodic_scan;
pub(crate) mod promotion;
pub(crate) mod rate_windows;
pub(crate) mod retention;
pub(crate) mod run_end_relay;
pub(crate) mod run_expiry;
pub(crate) mod sampling;
pub(crate) mod session_reaper;
pub(crate) mod unexecuted;
