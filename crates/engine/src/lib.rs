//! The engine: loops and effects around the store. It submits, exchanges, keeps sessions alive, leads, and wakes.
//!
//! A [`Client`] only talks to the store. A [`Node`] also executes: it gathers what its worker finished and hands it in by
//! exchanges, several lanes at a time. No SQL and no HTTP here; what executes tasks is behind [`Workforce`].

mod backfilling;
mod client;
mod clock;
mod completions;
mod dispatch;
mod dispatcher;
mod duties;
mod events;
mod fire_units;
mod firing;
mod follower;
mod inbox;
mod jobs;
mod lane;
mod leader;
mod limits;
mod live;
mod logs;
mod node;
mod parked;
mod publish;
mod quotas;
mod repairs;
mod schedules;
mod scopes;
mod secrets;
mod specs;
mod timekeeping;
mod vault;
mod wake;
mod why;

pub use backfilling::BackfillRequest;
pub use client::{Client, Submission, SubmitError};
pub use clock::SystemClock;
pub use events::{Answer, AnswerError, NewEvent, Receipt};
pub use firing::{FireError, Fires};
pub use jobs::{Execution, JobError, JobFault, JobRequest, JobSpec, JobTiming};
pub use leader::DUTY as LEADERSHIP;
pub use live::{Followed, Live, LiveMessage, LogFollower, MessageType, RunFollower, WideFilter, WideFollower};
pub use node::{Node, NodeConfig, NodeHandle, Workforce};
pub use repairs::{Acted, TaskAction};
pub use secrets::Secrets;
pub use specs::Spec;
pub use timekeeping::TimekeepingStatus;
pub use vault::{MAX_SECRET_BYTES, Vault, VaultError};
pub use why::Obstacles;
