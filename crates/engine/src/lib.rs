//! The engine: loops and effects around the store. It submits, exchanges, keeps sessions alive, leads, and wakes.
//!
//! A [`Client`] only talks to the store. A [`Node`] also executes: it gathers what its worker finished and hands it in by
//! exchanges, several lanes at a time. No SQL and no HTTP here; what executes tasks is behind [`Workforce`].

mod client;
mod clock;
mod completions;
mod dispatch;
mod duties;
mod events;
mod inbox;
mod lane;
mod leader;
mod logs;
mod node;
mod parked;
mod publish;
mod repairs;
mod scopes;
mod secrets;
mod specs;
mod wake;
mod why;

pub use client::{Client, Submission, SubmitError};
pub use clock::SystemClock;
pub use events::{Answer, AnswerError, NewEvent};
pub use leader::DUTY as LEADERSHIP;
pub use node::{Node, NodeConfig, NodeHandle, Workforce};
pub use repairs::{Acted, TaskAction};
pub use secrets::Secrets;
pub use specs::Spec;
pub use why::Obstacles;
