//! The store: the only safety authority, and the only crate that speaks SQL.
//!
//! One `Store` over two databases. Ordinary statements are one text for both; the hot units (exchange, settle, create
//! runs) are written once per database, under `postgres` and `sqlite`, and held together by one conformance suite.
//! Everything here is a unit that either happened or did not; a lost reply is neither and is resolved by [`Lane::resolve`].

mod admission;
mod backfills;
mod calendars;
mod catalog;
mod clauses;
mod db;
mod deliveries;
mod doors;
mod due;
mod error;
mod events;
mod exchange;
mod files;
mod fires;
mod flags;
mod following;
mod handlers;
mod holdings;
mod jobs;
mod limits;
mod live;
mod logs;
mod migrate;
mod operate;
mod parking;
mod postgres;
mod proceed;
mod reads;
mod reopen;
mod reopen_items;
mod repair;
mod retention;
mod run_ends;
mod run_list;
mod run_log;
mod runs;
mod search;
mod sessions;
mod settle;
mod snapshot;
mod sqlite;
mod starts;
mod task_list;
mod terms;
mod transitions;
mod trigger_sync;
mod triggers;
mod versions;
mod waits;
mod wake;

pub use backfills::{BackfillRow, NewBackfill};
pub use calendars::CalendarRow;
pub use catalog::{About, Edition, VersionSummary, VersionText, WorkflowFilter, WorkflowRow};
pub use db::{Connect, Flavor, Store};
pub use deliveries::{
    DeliveryOutcome, DeliveryRow, DueDebounce, Listeners, ListeningTrigger, Reaction, Recipient, SYSTEM, Unheard,
    WEBHOOK,
};
pub use doors::{
    AuditFilter, AuditRow, Claim, KeptAnswer, NamespaceRow, NewToken, Quotas, SealedSecret, SecretRow, TokenRow,
};
pub use due::Duties;
pub use error::{Error, Result};
pub use events::EventRow;
pub use exchange::{
    Claimed, DecidedStart, Ended, Exchange, GoesOn, GoesOnAs, Lane, Reply, Resolution, TaskToken, Want,
};
pub use files::ArtifactRow;
pub use fires::{DueTrigger, FireOf, FireRow, Fired, Firing, NewFire};
pub use handlers::{HandlerAction, HandlerFilter, HandlerRow};
pub use jobs::{ExecutionRow, JOB_TRIGGER, JobFilter, JobKind, JobRow, JobStatistics, JobStatus, JobTotals, NewJob};
pub use limits::{LimitRow, PoolRow};
pub use logs::{LogCursor, StoredChunk};
pub use migrate::{MigrationStatus, SchemaState};
pub use operate::{CancelOutcome, Operator};
pub use parking::{Parked, Parking};
pub use reads::{AttemptRow, ExpressionData, RunRow, RunSummary, StatusCount, TaskRunRow};
pub use reopen::{Reopen, Reopened};
pub use repair::{Repair, Repaired};
pub use retention::Purged;
pub use run_ends::Concluded;
pub use run_list::RunFilter;
pub use run_log::{AttemptEnd, AttemptOutcome, Happened, RunEvent, RunLog, RunMark};
pub use runs::{Created, NewRun};
pub use search::{Found, Indexed};
pub use sessions::{NewSession, SessionRow};
pub use snapshot::HeldSnapshot;
pub use sqlite::ServerLock;
pub use task_list::{Phase, TaskRunFilter};
pub use terms::Term;
pub use transitions::Transition;
pub use trigger_sync::NewTrigger;
pub use triggers::{TriggerFilter, TriggerRow};
pub use versions::{RouteRow, VersionRef};
pub use waits::{Happening, ItemResult, WaitKind, WaitOutcome, WaitRow};
pub use wake::Listener;
