//! Trigger rules: what the outcomes of a task's dependencies mean for the task.
//!
//! A task keeps four counters over its direct dependencies, so no finisher has to read its neighbours. The same
//! decision is written once more as a `CASE` in the PostgreSQL exchange; a test holds the two together.

use serde::{Deserialize, Serialize};

use crate::state::{UnknownState, Upstream, coded_enum};

coded_enum! {
    /// When a task may start, given how its dependencies ended.
    TriggerRule("trigger rule") {
        AllSuccess = 0 "all_success",
        AllDone = 1 "all_done",
        AllFailed = 2 "all_failed",
        OneSuccess = 3 "one_success",
        OneFailed = 4 "one_failed",
        NoneFailed = 5 "none_failed",
        Always = 6 "always",
        NoneFailedMinOneSuccess = 7 "none_failed_min_one_success",
    }
}

/// How many direct dependencies are still open and how the others ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Counters {
    pub open: i32,
    pub succeeded: i32,
    pub failed: i32,
    pub skipped: i32,
}

impl Counters {
    pub fn open(open: i32) -> Self {
        Self { open, ..Self::default() }
    }

    pub fn record(&mut self, outcome: Upstream) {
        self.open -= 1;
        match outcome {
            Upstream::Succeeded => self.succeeded += 1,
            Upstream::Failed => self.failed += 1,
            Upstream::Skipped => self.skipped += 1,
        }
    }
}

/// What a rule says over counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// Not settled: some dependency that is still open may decide it.
    Wait,
    Start,
    Skip,
    UpstreamFailed,
}

impl TriggerRule {
    /// Settles as early as the outcome can no longer change.
    pub fn verdict(self, count: Counters) -> Verdict {
        let done = count.open == 0;
        match self {
            Self::AllSuccess if count.failed > 0 => Verdict::UpstreamFailed,
            Self::AllSuccess if done && count.skipped > 0 => Verdict::Skip,
            Self::AllSuccess if done => Verdict::Start,

            Self::NoneFailed if count.failed > 0 => Verdict::UpstreamFailed,
            Self::NoneFailed if done => Verdict::Start,

            Self::NoneFailedMinOneSuccess if count.failed > 0 => Verdict::UpstreamFailed,
            Self::NoneFailedMinOneSuccess if done && count.succeeded > 0 => Verdict::Start,
            Self::NoneFailedMinOneSuccess if done => Verdict::Skip,

            Self::OneSuccess if count.succeeded > 0 => Verdict::Start,
            Self::OneSuccess if done && count.failed > 0 => Verdict::UpstreamFailed,
            Self::OneSuccess if done => Verdict::Skip,

            Self::AllFailed if count.succeeded > 0 || count.skipped > 0 => Verdict::Skip,
            Self::AllFailed if done => Verdict::Start,

            Self::OneFailed if count.failed > 0 => Verdict::Start,
            Self::OneFailed if done => Verdict::Skip,

            Self::AllDone | Self::Always if done => Verdict::Start,

            _ => Verdict::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: TriggerRule, (open, succeeded, failed, skipped): (i32, i32, i32, i32), expected: Verdict) {
        let verdict = rule.verdict(Counters { open, succeeded, failed, skipped });
        assert_eq!(
            verdict, expected,
            "{rule} over open {open}, succeeded {succeeded}, failed {failed}, skipped {skipped}"
        );
    }

    #[test]
    fn rules_settle_as_the_requirements_say() {
        use TriggerRule::*;
        use Verdict::*;
        check(AllSuccess, (0, 2, 0, 0), Start);
        check(AllSuccess, (1, 1, 0, 0), Wait);
        check(AllSuccess, (1, 0, 1, 0), UpstreamFailed);
        check(AllSuccess, (1, 0, 0, 1), Wait);
        check(AllSuccess, (0, 1, 0, 1), Skip);
        check(AllSuccess, (0, 0, 1, 1), UpstreamFailed);
        check(NoneFailed, (0, 0, 0, 2), Start);
        check(NoneFailed, (1, 0, 0, 1), Wait);
        check(NoneFailed, (1, 0, 1, 0), UpstreamFailed);
        check(NoneFailedMinOneSuccess, (0, 1, 0, 1), Start);
        check(NoneFailedMinOneSuccess, (1, 1, 0, 0), Wait);
        check(NoneFailedMinOneSuccess, (0, 0, 0, 2), Skip);
        check(NoneFailedMinOneSuccess, (1, 1, 1, 0), UpstreamFailed);
        check(OneSuccess, (3, 1, 0, 0), Start);
        check(OneSuccess, (1, 0, 1, 0), Wait);
        check(OneSuccess, (0, 0, 1, 1), UpstreamFailed);
        check(OneSuccess, (0, 0, 0, 2), Skip);
        check(AllFailed, (0, 0, 2, 0), Start);
        check(AllFailed, (1, 0, 1, 0), Wait);
        check(AllFailed, (1, 1, 0, 0), Skip);
        check(AllFailed, (1, 0, 0, 1), Skip);
        check(OneFailed, (1, 0, 1, 0), Start);
        check(OneFailed, (1, 1, 0, 0), Wait);
        check(OneFailed, (0, 1, 0, 1), Skip);
        for rule in [AllDone, Always] {
            check(rule, (1, 1, 1, 0), Wait);
            check(rule, (0, 1, 1, 1), Start);
        }
    }

    #[test]
    fn a_settled_verdict_never_changes_with_what_follows() {
        for rule in TriggerRule::ALL {
            for succeeded in 0..3 {
                for failed in 0..3 {
                    for skipped in 0..3 {
                        for open in 1..3 {
                            let before = Counters { open, succeeded, failed, skipped };
                            let settled = rule.verdict(before);
                            if settled == Verdict::Wait {
                                continue;
                            }
                            for outcome in [Upstream::Succeeded, Upstream::Failed, Upstream::Skipped] {
                                let mut after = before;
                                after.record(outcome);
                                assert_eq!(rule.verdict(after), settled, "{rule} {before:?} then {outcome:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}
