//! The store: the only safety authority, and the only crate that speaks SQL.
//!
//! One `Store` over two databases. Ordinary statements are one text for both; the hot units (exchange, settle, create
//! runs) are written once per database, under `postgres` and `sqlite`, and held together by one conformance suite.
//! Everything here is a unit that either happened or did not; a lost reply is neither and is resolved by [`Lane::resolve`].

mod catalog;
mod db;
mod doors;
mod due;
mod error;
mod events;
mod exchange;
mod files;
mod flags;
mod limits;
mod logs;
mod migrate;
mod operate;
mod parking;
mod postgres;
mod proceed;
mod reads;
mod repair;
mod reopen;
mod reopen_items;
mod retention;
mod runs;
mod search;
mod sessions;
mod settle;
mod snapshot;
mod sqlite;
mod task_list;
mod terms;
mod versions;
mod waits;
mod wake;

pub use catalog::{About, Edition, VersionSummary, VersionText, WorkflowFilter, WorkflowRow};
pub use db::{Connect, Flavor, Store};
pub use doors::{AuditFilter, AuditRow, Claim, KeptAnswer, NewToken, TokenRow};
pub use error::{Error, Result};
pub use events::EventRow;
pub use exchange::{
    Claimed, DecidedStart, Ended, Exchange, GoesOn, GoesOnAs, Lane, Reply, Resolution, TaskToken, Want,
};
pub use files::ArtifactRow;
pub use limits::{LimitRow, PoolRow};
pub use logs::{LogCursor, StoredChunk};
pub use migrate::{MigrationStatus, SchemaState};
pub use operate::{CancelOutcome, Operator};
pub use parking::{Parked, Parking};
pub use reads::{AttemptRow, ExpressionData, RunFilter, RunRow, RunSummary, StatusCount, TaskRunRow};
pub use repair::{Repair, Repaired};
pub use reopen::{Reopen, Reopened};
pub use retention::Purged;
pub use runs::{Created, NewRun};
pub use search::{Found, Indexed};
pub use sessions::{NewSession, SessionRow};
pub use snapshot::HeldSnapshot;
pub use sqlite::ServerLock;
pub use task_list::{Phase, TaskRunFilter};
pub use terms::Term;
pub use versions::{RouteRow, VersionRef};
pub use waits::{Happening, ItemResult, WaitKind, WaitOutcome, WaitRow};
pub use wake::Listener;
