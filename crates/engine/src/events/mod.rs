//! Events: listened for by `handlers`, received in `intake`, published by tasks in `announcing`, delivered to handlers and triggers in `event_delivery`; `polls` says what the end of a check means.

pub(crate) mod announcing;
pub(crate) mod event_delivery;
pub(crate) mod handlers;
pub(crate) mod intake;
mod polls;
