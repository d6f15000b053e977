//! The shell executor: scripts as child processes.

mod artifacts;
mod bundle;
mod command;
mod direct;
mod group;
mod interpreter;
mod limits;
mod pipes;
mod place;
mod supervise;
mod verdict;

pub use artifacts::ARTIFACTS_LIMIT;
pub(crate) use command::{Script, Workbench};
pub(crate) use supervise::{Ended, Surroundings, run};
