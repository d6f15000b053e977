//! Queries for people: runs, task runs, logs, the numbered events of a run, search.

pub(crate) mod claimable;
pub(crate) mod clauses;
pub(crate) mod expression_data;
pub(crate) mod failures;
pub(crate) mod gauges;
pub(crate) mod interface;
pub(crate) mod live;
pub(crate) mod logs;
pub(crate) mod operator;
pub(crate) mod performance;
pub(crate) mod rows;
pub(crate) mod run_list;
pub(crate) mod run_log;
pub(crate) mod search;
pub(crate) mod task_list;
