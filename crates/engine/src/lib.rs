//! The engine: loops and effects around the store. It submits, exchanges, keeps sessions alive, leads, and wakes.
//!
//! A [`Client`] only talks to the store. A [`Node`] also executes: it gathers what its worker finished and hands it in by
//! exchanges, several lanes at a time. No SQL and no HTTP here; what executes tasks is behind
//! [`Workforce`](mainspring_core::work::Workforce).

mod access;
mod artifacts;
mod bus;
mod client;
mod clock;
mod coordination;
mod desk;
mod duties;
mod events;
mod exchange;
mod health;
mod jobs;
mod limits;
mod live;
mod metering;
mod node;
mod redis;
mod remote;
mod repairs;
mod request_fault;
mod schedule;
mod spans;
mod specs;
mod submitter;
mod why;

pub use access::crossing::not_callable;
pub use access::namespaces::DeleteNamespaceError;
pub use access::secrets::{PutSecretError, Secrets};
pub use access::vault::{MAX_SECRET_BYTES, Vault, VaultError};
pub use artifacts::{
    ArtifactContents, ArtifactError, ArtifactSettings, ArtifactSettingsError, ArtifactUpload, OpenedArtifact,
};
pub use bus::{AccessChange, AccessChanges, AccessKind};
pub use client::{Client, DeleteWorkflowError, Submission, SubmitError};
pub use clock::SystemClock;
pub use coordination::{CoordinationError, CoordinationHealth, EtcdSettings, LEADERSHIP, LockGuard};
pub use desk::{
    BatchRequest, DeskConfig, Detection, DetectionAction, LetterAction, LetterError, LetterOutcome,
    MOST_ENTRIES_AT_ONCE, Message, Messenger, MessengerFuture,
};
pub use events::handlers::{check_event_name, check_handler};
pub use events::intake::{Answer, AnswerError, NewEvent, Receipt};
pub use health::{ComponentHealth, Health, HealthStatus, LONGEST_WAIT};
pub use jobs::{Execution, JobError, JobRequest, JobSpec, JobTiming};
pub use live::{
    Live, LiveMessage, LiveUpdate, LogSubscription, MessageType, RunSubscription, WideFilter, WideSubscription,
};
pub use node::{Node, NodeConfig, NodeHandle};
pub use redis::{DispatchConfig, RedisSettings};
pub use remote::{
    LogAnswer, LogUpload, NewWorker, WorkerAnswer, WorkerError, WorkerExchange, WorkerGate, WorkerResult, WorkerSession,
};
pub use repairs::{Acted, TaskAction};
pub use request_fault::RequestFault;
pub use schedule::backfills::BackfillRequest;
pub use schedule::firing::{FireError, Fires};
pub use schedule::status::TimekeepingStatus;
pub use spans::{current_trace, within_trace};
pub use specs::Spec;
pub use submitter::{Leaves, LeavesAt, Newness};
pub use why::Obstacles;
