//! What a run of the cluster showed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::classes::FaultClass;
use crate::invariants::Violation;

/// What the design promises a time for.
#[derive(Debug, Default)]
pub struct Times {
    pub worker_killed: Vec<Duration>,
    pub leader_killed: Vec<Duration>,
    pub database_back: Vec<Duration>,
    pub handed_over: Vec<Duration>,
}

/// How often something was tried, and how often it was answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Operations {
    pub tried: usize,
    pub answered: usize,
}

#[derive(Debug, Default)]
pub struct ClusterReport {
    pub seed: u64,
    pub lasted: Duration,
    pub operations: BTreeMap<&'static str, Operations>,
    pub faults: BTreeMap<FaultClass, usize>,
    /// Round trips to PostgreSQL whose reply or request was lost.
    pub lost_trips: usize,
    pub clients_cut: usize,
    pub times: Times,
    pub task_runs: i64,
    pub attempts: i64,
    pub lost_attempts: i64,
    pub effects: usize,
    pub fires: i64,
    pub terms: i64,
    pub letters: i64,
    pub stale: i64,
    pub violations: Vec<Violation>,
    /// The last words of the servers.
    pub log: String,
}

impl ClusterReport {
    pub fn all_faults(&self) -> usize {
        self.faults.values().sum::<usize>() + self.lost_trips + self.clients_cut
    }

    /// A run in which less than half of the operations succeeded does not count.
    pub fn counts(&self) -> bool {
        let tried: usize = self.operations.values().map(|operations| operations.tried).sum();
        let answered: usize = self.operations.values().map(|operations| operations.answered).sum();
        tried > 0 && answered * 2 >= tried
    }
}

impl std::fmt::Display for ClusterReport {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "seed {}, {:.0} s under faults", self.seed, self.lasted.as_secs_f64())?;
        writeln!(
            out,
            "{} task runs ended ({} executed attempts, {} lost with their worker), {} effects, {} fires, {} terms, \
             {} dead letters ({} of stale runs)",
            self.task_runs,
            self.attempts,
            self.lost_attempts,
            self.effects,
            self.fires,
            self.terms,
            self.letters,
            self.stale
        )?;
        for (name, Operations { tried, answered }) in &self.operations {
            writeln!(out, "  operation {name}: {answered} of {tried} answered")?;
        }
        writeln!(out, "{} faults", self.all_faults())?;
        for (class, count) in &self.faults {
            writeln!(out, "  {}: {count}", class.name())?;
        }
        writeln!(out, "  round trips to PostgreSQL lost, most of them after the commit: {}", self.lost_trips)?;
        writeln!(out, "  clients cut in the middle of a request: {}", self.clients_cut)?;
        for (name, times) in [
            ("worker killed → its task claimed elsewhere", &self.times.worker_killed),
            ("leader killed → next fire", &self.times.leader_killed),
            ("PostgreSQL back → first claim", &self.times.database_back),
            ("leader asked to stop → another leads", &self.times.handed_over),
        ] {
            writeln!(out, "  {name}: {}", shown(times))?;
        }
        write!(out, "{} violations", self.violations.len())?;
        for violation in self.violations.iter().take(40) {
            write!(out, "\n  {violation}")?;
        }
        if !self.violations.is_empty() {
            write!(out, "\n{}", self.log)?;
        }
        Ok(())
    }
}

fn shown(times: &[Duration]) -> String {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |part: usize| sorted.get((sorted.len() * part / 100).min(sorted.len().saturating_sub(1)));
    match (at(50), at(99), sorted.last()) {
        (Some(half), Some(most), Some(worst)) => format!(
            "p50 {:.2} s, p99 {:.2} s, longest {:.2} s ({} times)",
            half.as_secs_f64(),
            most.as_secs_f64(),
            worst.as_secs_f64(),
            sorted.len()
        ),
        _ => "not measured".to_owned(),
    }
}
