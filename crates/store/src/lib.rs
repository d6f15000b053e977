//! The store: the only safety authority, and the only crate that speaks SQL.
//!
//! One `Store` over two databases. Ordinary statements are one text for both; the hot units (exchange, settle, create
//! runs) are written once per database, under `postgres` and `sqlite`, and held together by one conformance suite.
//! Everything here is a unit that either happened or did not; a lost reply is neither and is resolved by [`Lane::resolve`].

mod access;
mod cluster;
mod db;
mod dead_letters;
mod error;
mod events;
mod give_up;
mod migrate;
mod names;
mod over_rows;
mod postgres;
mod reads;
mod runs;
mod schedules;
mod snapshot;
mod sqlite;
mod staleness;
mod transfer;
mod unit;
mod workflows;

pub use access::{
    AuditFilter, AuditRow, Claim, KeptAnswer, NamespaceRow, NewToken, Quotas, SealedSecret, SecretRow, TokenRow,
    UiSession,
};
pub use cluster::locks::LockRow;
pub use cluster::members::{MemberRow, NewMember};
pub use cluster::remote_sessions::{ExchangeGuard, NewRemoteSession, RemoteSessionRow, WorkerGuard};
pub use cluster::sessions::{NewSession, SessionRow};
pub use cluster::terms::Term;
pub use cluster::wake::Listener;
pub use db::{Connect, Flavor, Store};
pub use dead_letters::{
    BatchRow, Captured, DeadLetter, GroupRow, IncompleteEntry, LetterFilter, LetterPatch, NewBatch, NewLetter, Queued,
    ReasonStatistics,
};
pub use error::{Error, Result};
pub use events::announce::EventRow;
pub use events::budgets::CauseBudget;
pub use events::deliveries::{
    DeliveryOutcome, DeliveryRow, DueDebounce, Listeners, ListeningTrigger, PendingEventWork, Reaction, Recipient,
    SYSTEM, WEBHOOK,
};
pub use events::handlers::{HandlerAction, HandlerFilter, HandlerRow};
pub use events::notifications::{NewNotification, NotificationRow, NotificationState, UnnoticedRun};
pub use events::run_ends::{Concluded, Lineage};
pub use mainspring_core::reopen::Reopen;
pub use mainspring_core::staleness::Phase;
pub use migrate::{MigrationStatus, SchemaState};
pub use reads::expression_data::ExpressionData;
pub use reads::interface::{
    ActionRow, AgendaFire, ApprovalRow, AttemptSpan, ItemCount, LetterRow, MissedRow, OpenRunRow, QueueRow,
    RecentInputsRow, StripRun, TaskMoment, UpcomingRow,
};
pub use reads::logs::{LogCursor, StoredChunk};
pub use reads::performance::RunDurations;
pub use reads::rows::{AttemptRow, RunRow, RunSummary, StatusCount, TaskRunRow};
pub use reads::run_list::{InputValue, RunFilter};
pub use reads::run_log::{AttemptEnd, AttemptOutcome, RunEvent, RunEventKind, RunLog, RunMark};
pub use reads::search::{Found, Indexed};
pub use reads::task_list::TaskRunFilter;
pub use runs::artifacts::{ArtifactPlace, ArtifactRow, StoredArtifact};
pub use runs::caches::{CacheHit, CacheLookup, CacheSource, CacheUse};
pub use runs::create::{Created, NewRun};
pub use runs::due::Duties;
pub use runs::exchange::{
    Claimed, ContinuedAs, ContinuedAttempt, DecidedStart, Ended, Exchange, Lane, Reply, Resolution, TaskToken, Want,
};
pub use runs::limits::{LimitRow, PoolRow};
pub use runs::operate::{CancelOutcome, Operator};
pub use runs::parking::{Parked, Parking};
pub use runs::purge::{PurgeScope, Purged};
pub use runs::rates::{PoolRate, RatePass};
pub use runs::reopen::{ReopenRequest, Reopened};
pub use runs::repair::{Repair, Repaired};
pub use runs::submit::{PlainSubmission, Started};
pub use runs::transitions::Transition;
pub use runs::waits::{ItemResult, WaitKind, WaitOutcome, WaitResult, WaitRow};
pub use schedules::backfills::{BackfillRow, NewBackfill};
pub use schedules::calendars::CalendarRow;
pub use schedules::executions::{ExecutionFilter, ExecutionRow, ExecutionStatus};
pub use schedules::fires::{DueTrigger, FireOf, FireRow, Fired, Firing, NewFire};
pub use schedules::jobs::{
    IfNamed, JOB_TRIGGER, JobFilter, JobKind, JobRow, JobStatistics, JobStatus, JobTotals, NewJob,
};
pub use schedules::polls::{Finding, PollRow};
pub use schedules::realign::Realigned;
pub use schedules::staged::{FirePolicy, Staged, StagedFires};
pub use schedules::trigger_sync::NewTrigger;
pub use schedules::triggers::{TriggerFilter, TriggerRow};
pub use snapshot::HeldSnapshot;
pub use sqlite::ServerLock;
pub use staleness::{GaveUp, StaleRun, WatchFilter, WatchedRun};
pub use transfer::CopiedTable;
pub use unit::{Record, RequestKey, Unit, after_commit, is_within_unit, sees_uncommitted};
pub use workflows::catalog::{Edition, VersionSummary, VersionText, WorkflowDescription, WorkflowFilter, WorkflowRow};
pub use workflows::pauses::{PauseRow, paused_scope};
pub use workflows::versions::{PutOptions, RouteRow, VersionRef};
