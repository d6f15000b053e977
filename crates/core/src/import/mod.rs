//! Workflows to begin with, made of what other programs schedule.
//!
//! Only what means the same here is carried over. Everything else is named in a comment at its place, so that no user
//! finds out later.

mod airflow;
mod argo;
mod conditions;
mod crontab;
mod dagu;
mod expressions;
mod github;
mod matrix;
mod python;
mod steps;
mod tasker;
mod writer;

#[cfg(test)]
mod tests;

pub use airflow::airflow;
pub use argo::argo;
pub use crontab::crontab;
pub use dagu::dagu;
pub use github::github_actions;
pub use tasker::tasker;

/// One workflow file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Its name, which is also that of the workflow.
    pub name: String,
    pub text: String,
    /// How many remarks say what was not carried over.
    pub left_out: usize,
}
