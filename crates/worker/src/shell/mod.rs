//! The shell executor: scripts as child processes.

mod command;
mod direct;
mod group;
mod pipes;
mod place;
mod supervise;
mod verdict;

pub(crate) use command::{Script, Workbench};
pub(crate) use supervise::{Surroundings, run};
