//! Whether and when a failed attempt is tried again.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::expr::{Scope, evaluate, is_true};
use crate::state::{UnknownState, coded_enum};
use crate::work::Failure;

coded_enum! {
    /// How the delay grows with the number of failures.
    Backoff("backoff") {
        Fixed = 0 "fixed",
        Linear = 1 "linear",
        Exponential = 2 "exponential",
    }
}

coded_enum! {
    /// What becomes of a task whose attempts are used up.
    OnExhausted("on_exhausted") {
        DeadLetter = 0 "dead_letter",
        Fail = 1 "fail",
        Continue = 2 "continue",
    }
}

/// A task's retry policy. Delays are milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in all, the first one included; at least 1.
    pub attempts: u16,
    pub backoff: Backoff,
    pub delay_ms: u64,
    pub max_delay_ms: u64,
    /// Share of the delay that is random, 0 to 1: the delay is scaled by 1 ± jitter/2… never above the cap.
    pub jitter: f64,
    /// False: neither a failure nor a lost worker leads to another attempt.
    pub retryable: bool,
    /// Only these failures are retried: `timeout`, `exit:N`, `4xx`, `5xx`, a status, or an error kind. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// An expression (without braces) over `error` that must be true of the failure.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// One attempt: a script that ran twice without being asked to is worse than one that failed.
impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 1,
            backoff: Backoff::Exponential,
            delay_ms: 1_000,
            max_delay_ms: 30_000,
            jitter: 0.0,
            retryable: true,
            on: Vec::new(),
            condition: None,
        }
    }
}

impl Retry {
    /// Attempts in all where `retry` is written and does not say how many.
    pub const DEFAULT_ATTEMPTS: u16 = 3;

    /// The wait before the attempt that follows the `failures`-th failure (1, 2, …).
    /// `random` is uniform in 0..1 and decides the jitter.
    pub fn delay_micros(&self, failures: u32, random: f64) -> i64 {
        let step = failures.max(1) - 1;
        let factor = match self.backoff {
            Backoff::Fixed => 1.0,
            Backoff::Linear => f64::from(step) + 1.0,
            Backoff::Exponential => 2f64.powi(step.min(62) as i32),
        };
        let cap = self.max_delay_ms as f64;
        let plain = (self.delay_ms as f64 * factor).min(cap);
        let jittered = plain * (1.0 + self.jitter.clamp(0.0, 1.0) * (random - 0.5));
        (jittered.min(cap) * 1_000.0) as i64
    }

    /// Whether there is another attempt after this failure, given how many there were.
    pub fn tries_again(&self, failures: u32, failure: &Failure) -> bool {
        !failure.permanent && failures < u32::from(self.attempts) && self.repeats(failures, failure)
    }

    /// Whether this failure, the last of `failures`, may be tried again at all, the budget aside. An expression that has no
    /// value of it says no: what is not understood is not repeated.
    pub fn repeats(&self, failures: u32, failure: &Failure) -> bool {
        self.allows(&failure.kind, failure.code())
            && self.condition.as_ref().is_none_or(|condition| {
                let scope = Scope {
                    answer: Map::from_iter([("error".to_owned(), view(failures, failure))]),
                    ..Scope::default()
                };
                evaluate(condition, &scope, &Map::new()).is_ok_and(|value| is_true(&value))
            })
    }

    /// Whether a failure of this kind (and exit code, or status if the kind is `http_status`) may be tried again at all, the budget aside.
    fn allows(&self, kind: &str, exit_code: Option<i32>) -> bool {
        if !self.retryable {
            return false;
        }
        self.on.is_empty() || self.on.iter().any(|chosen| is_chosen(chosen, kind, exit_code))
    }
}

/// A failure as `retry.if` sees it. Every field is there; those that have no value are null.
fn view(failures: u32, failure: &Failure) -> Value {
    json!({
        "kind": failure.kind,
        "message": failure.message,
        "exit_code": failure.exit_code,
        "status": failure.status,
        "attempt": failures,
    })
}

/// `chosen` is a kind, `exit:75`, a status or exit code, or a class of statuses.
fn is_chosen(chosen: &str, kind: &str, exit_code: Option<i32>) -> bool {
    if chosen == kind {
        return true;
    }
    let Some(code) = exit_code else { return false };
    let is_status = kind == "http_status";
    match chosen {
        "4xx" | "5xx" => is_status && chosen.as_bytes()[0] == b'0' + (code / 100).clamp(0, 9) as u8,
        _ => match chosen.strip_prefix("exit:") {
            Some(wanted) => !is_status && wanted.trim().parse() == Ok(code),
            None => chosen.parse() == Ok(code),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_follow_the_formula() {
        let retry = Retry::default();
        let delays: Vec<i64> = (1..=7).map(|n| retry.delay_micros(n, 0.5) / 1_000_000).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
        let linear = Retry { backoff: Backoff::Linear, ..Retry::default() };
        assert_eq!(linear.delay_micros(3, 0.0), 3_000_000);
        let fixed = Retry { backoff: Backoff::Fixed, ..Retry::default() };
        assert_eq!(fixed.delay_micros(9, 0.9), 1_000_000);
    }

    #[test]
    fn jitter_stays_in_its_band_and_under_the_cap() {
        let retry = Retry { jitter: 0.2, ..Retry::default() };
        for random in [0.0, 0.3, 0.999] {
            let first = retry.delay_micros(1, random);
            assert!((900_000..=1_100_000).contains(&first), "{first}");
            assert!(retry.delay_micros(60, random) <= 30_000_000);
        }
    }

    #[test]
    fn only_chosen_errors_are_retried() {
        let retry = Retry { on: vec!["timeout".into(), "exit:75".into()], ..Retry::default() };
        assert!(retry.allows("timeout", None));
        assert!(retry.allows("exit", Some(75)));
        assert!(!retry.allows("exit", Some(1)));
        let http = Retry { on: vec!["5xx".into(), "429".into(), "75".into()], ..Retry::default() };
        for (kind, code, expected) in [
            ("http_status", 503, true),
            ("http_status", 429, true),
            ("http_status", 404, false),
            ("exit", 75, true),
            ("exit", 5, false),
            ("connect", 0, false),
        ] {
            assert_eq!(http.allows(kind, Some(code)), expected, "{kind} {code}");
        }
        assert!(!http.allows("timeout", None));
        assert!(!Retry { retryable: false, ..Retry::default() }.allows("timeout", None));
    }
}
