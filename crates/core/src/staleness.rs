//! Staleness: how long a run may go without progress in each phase, and how it does by that measure.

use serde::{Deserialize, Serialize};

use crate::state::{UnknownState, coded_enum};
use crate::{Micros, Workflow};

const MINUTE: Micros = 60_000_000;
/// A run is in the warning band from here, in percent of its threshold.
pub const WARNING_PERCENT: f64 = 80.0;

coded_enum! {
    /// What an open run is busy with.
    Phase("phase") {
        WaitingForDependencies = 0 "waiting_for_dependencies",
        WaitingForRetry = 1 "waiting_for_retry",
        StepsInProcess = 2 "steps_in_process",
    }
}

coded_enum! {
    /// How an open run does.
    Health("health status") {
        Healthy = 0 "healthy",
        Warning = 1 "warning",
        Stale = 2 "stale",
    }
}

/// How long a run may stay in a phase without progress, and how long it may live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    pub waiting_for_dependencies: Micros,
    pub waiting_for_retry: Micros,
    pub steps_in_process: Micros,
    pub lifetime: Micros,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            waiting_for_dependencies: 60 * MINUTE,
            waiting_for_retry: 30 * MINUTE,
            steps_in_process: 30 * MINUTE,
            lifetime: 24 * 60 * MINUTE,
        }
    }
}

/// What a workflow says for itself; the defaults of the installation apply to the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnThresholds {
    pub waiting_for_dependencies: Option<Micros>,
    pub waiting_for_retry: Option<Micros>,
    pub steps_in_process: Option<Micros>,
    pub lifetime: Option<Micros>,
    /// The longest timeout of its tasks: an attempt that may take two hours is not stale after half an hour, unless the
    /// workflow says so.
    pub longest_timeout: Option<Micros>,
    /// The timeout of the run, by the same reasoning for the lifetime.
    pub run_timeout: Option<Micros>,
}

impl OwnThresholds {
    pub fn of(workflow: &Workflow) -> Self {
        let micros = |ms: u64| i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let lifecycle = &workflow.lifecycle;
        Self {
            waiting_for_dependencies: lifecycle.waiting_for_dependencies_ms.map(micros),
            waiting_for_retry: lifecycle.waiting_for_retry_ms.map(micros),
            steps_in_process: lifecycle.steps_in_process_ms.map(micros),
            lifetime: lifecycle.max_duration_ms.map(micros),
            longest_timeout: workflow.tasks.iter().filter_map(|task| task.timeout_ms).max().map(micros),
            run_timeout: workflow.timeout_ms.map(micros),
        }
    }

    /// What applies to its runs.
    pub fn over(self, defaults: Thresholds) -> Thresholds {
        let at_least = |own: Option<Micros>, default: Micros, allowed: Option<Micros>| {
            own.unwrap_or(default.max(allowed.unwrap_or(0)))
        };
        Thresholds {
            waiting_for_dependencies: self.waiting_for_dependencies.unwrap_or(defaults.waiting_for_dependencies),
            waiting_for_retry: self.waiting_for_retry.unwrap_or(defaults.waiting_for_retry),
            steps_in_process: at_least(self.steps_in_process, defaults.steps_in_process, self.longest_timeout),
            lifetime: at_least(self.lifetime, defaults.lifetime, self.run_timeout),
        }
    }
}

impl Thresholds {
    pub fn of(self, phase: Phase) -> Micros {
        match phase {
            Phase::WaitingForDependencies => self.waiting_for_dependencies,
            Phase::WaitingForRetry => self.waiting_for_retry,
            Phase::StepsInProcess => self.steps_in_process,
        }
    }
}

/// What is known of an open run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRun {
    pub phase: Phase,
    /// Its last progress: a transition of one of its tasks.
    pub moved_at: Micros,
    /// When it began, or was reopened.
    pub begun_at: Micros,
    /// Paused, not admitted yet, or waiting for something that has a limit of its own: only the lifetime counts.
    pub exempt: bool,
}

/// How a run does, by the measure that it is nearest to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    pub time_in_state: Micros,
    pub threshold: Micros,
    pub percent: f64,
    pub health: Health,
    /// Whether it is the lifetime that counts and not the phase.
    pub by_lifetime: bool,
}

pub fn judge(run: OpenRun, thresholds: Thresholds, now: Micros) -> Judgement {
    let percent = |passed: Micros, threshold: Micros| passed.max(0) as f64 * 100.0 / threshold.max(1) as f64;
    let (in_phase, alive) = (now - run.moved_at, now - run.begun_at);
    let by_phase = if run.exempt { 0.0 } else { percent(in_phase, thresholds.of(run.phase)) };
    let by_life = percent(alive, thresholds.lifetime);
    let is_worse = |limit: f64| by_life >= limit && by_phase < limit;
    let by_lifetime = run.exempt || is_worse(100.0) || is_worse(WARNING_PERCENT);
    let (time_in_state, threshold, percent) = match by_lifetime {
        true => (alive, thresholds.lifetime, by_life),
        false => (in_phase, thresholds.of(run.phase), by_phase),
    };
    let health = match percent {
        percent if percent >= 100.0 => Health::Stale,
        percent if percent >= WARNING_PERCENT => Health::Warning,
        _ => Health::Healthy,
    };
    Judgement { time_in_state: time_in_state.max(0), threshold, percent, health, by_lifetime }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(phase: Phase, exempt: bool) -> OpenRun {
        OpenRun { phase, moved_at: 0, begun_at: 0, exempt }
    }

    #[track_caller]
    fn check(run: OpenRun, minutes: i64, health: Health) {
        assert_eq!(judge(run, Thresholds::default(), minutes * MINUTE).health, health, "{run:?} after {minutes} min");
    }

    #[test]
    fn runs_turn_from_healthy_to_stale() {
        for (phase, threshold) in
            [(Phase::WaitingForDependencies, 60), (Phase::WaitingForRetry, 30), (Phase::StepsInProcess, 30)]
        {
            check(run(phase, false), threshold * 79 / 100, Health::Healthy);
            check(run(phase, false), threshold * 80 / 100, Health::Warning);
            check(run(phase, false), threshold - 1, Health::Warning);
            check(run(phase, false), threshold, Health::Stale);
        }
    }

    #[test]
    fn what_waits_by_its_own_clock_only_has_a_lifetime() {
        let waits = run(Phase::WaitingForDependencies, true);
        check(waits, 600, Health::Healthy);
        check(waits, 24 * 60 * 8 / 10, Health::Warning);
        check(waits, 24 * 60, Health::Stale);
    }

    #[test]
    fn a_long_timeout_stretches_the_threshold_unless_the_workflow_says_otherwise() {
        let mut own = OwnThresholds { longest_timeout: Some(120 * MINUTE), ..OwnThresholds::default() };
        assert_eq!(own.over(Thresholds::default()).steps_in_process, 120 * MINUTE);
        own.steps_in_process = Some(10 * MINUTE);
        assert_eq!(own.over(Thresholds::default()).steps_in_process, 10 * MINUTE);
        assert_eq!(own.over(Thresholds::default()).lifetime, 24 * 60 * MINUTE);
    }
}
