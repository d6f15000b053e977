//! The shell executor: scripts as child processes.

mod artifacts;
mod attempt;
mod bundle;
mod caching;
mod command;
pub(crate) mod container;
mod container_start;
mod direct;
mod env_file;
mod environment;
mod group;
mod incoming;
mod interpreter;
mod launch;
mod limits;
mod pipes;
mod place;
mod script;
mod supervise;
mod verdict;

pub use artifacts::ARTIFACTS_LIMIT;
pub(crate) use command::Workbench;
pub use container::find_engine;
pub(crate) use script::Scripts;
pub(crate) use supervise::{Ended, PoolContext, run};
