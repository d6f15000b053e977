//! The states of runs and task runs, and the only transitions between them.
//!
//! The numbers are what the database stores; `CHECK` constraints there name the same range. A state that a person
//! never sees (`deciding`, `gated`, `held`) is shown as `pending` or `ready`.

use serde::{Deserialize, Serialize};

/// A number or word in the database that stands for no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value} is not a {kind}")]
pub struct UnknownState {
    pub kind: &'static str,
    pub value: String,
}

macro_rules! coded_enum {
    ($(#[$meta:meta])* $name:ident($kind:literal) { $($(#[$vmeta:meta])* $variant:ident = $code:literal $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(i16)]
        pub enum $name { $($(#[$vmeta])* $variant = $code,)+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Every word with its number, for the texts that name numbers.
            pub const CODES: &'static [(&'static str, i16)] = &[$(($word, $code),)+];

            /// The number the database stores.
            pub fn code(self) -> i16 { self as i16 }

            /// The word as written in files and messages.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }
        }

        impl TryFrom<i16> for $name {
            type Error = UnknownState;
            fn try_from(code: i16) -> Result<Self, UnknownState> {
                match code {
                    $($code => Ok($name::$variant),)+
                    other => Err(UnknownState { kind: $kind, value: other.to_string() }),
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownState;
            fn from_str(word: &str) -> Result<Self, UnknownState> {
                match word {
                    $($word => Ok($name::$variant),)+
                    other => Err(UnknownState { kind: $kind, value: format!("`{}`", other.chars().take(80).collect::<String>()) }),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { out.pad(self.word()) }
        }
    };
}
pub(crate) use coded_enum;

coded_enum! {
    /// Where a run stands.
    RunState("run state") {
        /// Created, but not admitted: its rows are still being written, or a concurrency limit holds it back.
        Pending = 0 "pending",
        Running = 1 "running",
        Paused = 2 "paused",
        Success = 3 "success",
        Failed = 4 "failed",
        Cancelled = 5 "cancelled",
    }
}

coded_enum! {
    /// Where a task run stands. Codes below 10 are live rows, the others are history.
    TaskState("task run state") {
        /// Dependencies are open.
        Pending = 0 "pending",
        /// Claimable: the only state in the ready index.
        Ready = 1 "ready",
        /// Claimed by a session under an attempt number.
        Running = 2 "running",
        /// Failed, and due again at a known time.
        Retrying = 3 "retrying",
        /// Its rule holds, but an expression must say whether (and how) it runs.
        Deciding = 4 "deciding",
        /// Would be ready, but waits for a slot of a limit.
        Gated = 5 "gated",
        /// Would be ready, but its run is not running (paused, or not admitted yet).
        Held = 6 "held",
        /// Waits for something outside: approval, event, child run, items of its own expansion.
        Waiting = 8 "waiting",
        Success = 10 "success",
        Failed = 11 "failed",
        Skipped = 12 "skipped",
        UpstreamFailed = 13 "upstream_failed",
        Cancelled = 14 "cancelled",
        ResolvedManually = 15 "resolved_manually",
    }
}

impl RunState {
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Success | Self::Failed | Self::Cancelled)
    }

    /// Whether the table of run transitions has this row.
    pub fn may_become(self, next: RunState) -> bool {
        RUN_TRANSITIONS.contains(&(self, next))
    }
}

impl TaskState {
    /// The state that a task run takes up when nothing of its dependencies keeps it from starting.
    pub fn startable(run_is_running: bool, must_be_decided: bool, has_pool: bool) -> Self {
        if !run_is_running {
            Self::Held
        } else if must_be_decided {
            Self::Deciding
        } else if has_pool {
            Self::Gated
        } else {
            Self::Ready
        }
    }

    pub fn is_terminal(self) -> bool {
        self.code() >= 10
    }

    /// The state as people see it.
    pub fn shown(self) -> TaskState {
        match self {
            Self::Deciding | Self::Held => Self::Pending,
            Self::Gated => Self::Ready,
            other => other,
        }
    }

    /// How a terminal state counts for those that depend on it. `None` while it is open.
    ///
    /// A failure whose task says `on_exhausted: continue`, and a skip by an operator, count as success; the row
    /// carries that as a flag, so it is a parameter here.
    pub fn counts_as(self, counts_as_success: bool) -> Option<Upstream> {
        match self {
            Self::Success | Self::ResolvedManually => Some(Upstream::Succeeded),
            Self::Failed | Self::Skipped if counts_as_success => Some(Upstream::Succeeded),
            Self::Failed | Self::UpstreamFailed | Self::Cancelled => Some(Upstream::Failed),
            Self::Skipped => Some(Upstream::Skipped),
            _ => None,
        }
    }

    /// Whether the table of task-run transitions has this row.
    pub fn may_become(self, next: TaskState) -> bool {
        TASK_TRANSITIONS.iter().any(|(from, to)| *from == self && to.contains(&next))
    }
}

/// How a finished task counts for a trigger rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Upstream {
    Succeeded,
    Failed,
    Skipped,
}

/// Every transition of a run. The last two are reopenings, by an operator's action only.
pub const RUN_TRANSITIONS: &[(RunState, RunState)] = &[
    (RunState::Pending, RunState::Running),
    (RunState::Pending, RunState::Cancelled),
    (RunState::Pending, RunState::Failed),
    (RunState::Running, RunState::Paused),
    (RunState::Running, RunState::Success),
    (RunState::Running, RunState::Failed),
    (RunState::Running, RunState::Cancelled),
    (RunState::Paused, RunState::Running),
    (RunState::Paused, RunState::Success),
    (RunState::Paused, RunState::Failed),
    (RunState::Paused, RunState::Cancelled),
    (RunState::Failed, RunState::Running),
    (RunState::Cancelled, RunState::Running),
];

/// Every transition of a task run. Rows that leave a terminal state are reopenings and start a new generation.
pub const TASK_TRANSITIONS: &[(TaskState, &[TaskState])] = {
    use TaskState::*;
    &[
        (
            Pending,
            &[Ready, Deciding, Gated, Held, Running, Waiting, Skipped, UpstreamFailed, Cancelled, ResolvedManually],
        ),
        (Ready, &[Running, Held, Cancelled, Skipped, ResolvedManually]),
        (Running, &[Success, Failed, Skipped, Cancelled, Retrying, Ready, Gated, Held, Waiting, ResolvedManually]),
        (Retrying, &[Ready, Gated, Held, Cancelled, Skipped, ResolvedManually]),
        (Deciding, &[Ready, Gated, Held, Running, Waiting, Skipped, UpstreamFailed, Failed, Success, Cancelled]),
        (Gated, &[Ready, Running, Held, Cancelled, Skipped, ResolvedManually]),
        (Held, &[Ready, Gated, Deciding, Cancelled, Skipped, ResolvedManually]),
        (Waiting, &[Success, Failed, Deciding, Cancelled, Skipped, ResolvedManually]),
        (Failed, &[Pending, Ready, Gated, Held, ResolvedManually, Skipped]),
        (UpstreamFailed, &[Pending, Ready, Gated, Held, ResolvedManually, Skipped]),
        (Skipped, &[Pending, Ready, Gated, Held, ResolvedManually]),
        (Cancelled, &[Pending, Ready, Gated, Held, ResolvedManually, Skipped]),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_read_back() {
        for state in TaskState::ALL {
            assert_eq!(TaskState::try_from(state.code()), Ok(*state));
            assert_eq!(state.word().parse(), Ok(*state));
        }
        for state in RunState::ALL {
            assert_eq!(RunState::try_from(state.code()), Ok(*state));
            assert_eq!(state.word().parse(), Ok(*state));
        }
        assert!(TaskState::try_from(9).is_err());
    }

    #[test]
    fn every_open_state_leads_to_an_end_and_only_reopening_leaves_one() {
        for (from, to) in TASK_TRANSITIONS {
            assert!(!to.contains(from), "{from} to itself");
            if !from.is_terminal() {
                assert!(
                    to.iter().any(|next| next.is_terminal() || *next == TaskState::Ready || *next == TaskState::Held),
                    "{from}"
                );
            }
        }
        assert!(!TaskState::Success.may_become(TaskState::Ready), "success is final");
        assert!(!RunState::Success.may_become(RunState::Running), "success is final");
    }
}
