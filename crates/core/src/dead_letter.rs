//! Dead letters: why an entry is there, what became of it, what to look at first, and which entries share a cause.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Micros;
use crate::state::{UnknownState, coded_enum};

/// The longest stack trace, log excerpt or message that an entry keeps, in characters.
pub const MAX_TEXT: usize = 10_000;
const HOUR: f64 = 3_600_000_000.0;

coded_enum! {
    /// Why an entry was made.
    Reason("dead letter reason") {
        StalenessTimeout = 0 "staleness_timeout",
        MaxRetriesExceeded = 1 "max_retries_exceeded",
        DependencyCycleDetected = 2 "dependency_cycle_detected",
        WorkerUnavailable = 3 "worker_unavailable",
        PoisonPill = 4 "poison_pill",
        ManualDlq = 5 "manual_dlq",
    }
}

coded_enum! {
    /// What became of an entry.
    Resolution("resolution status") {
        Pending = 0 "pending",
        Retried = 1 "retried",
        Skipped = 2 "skipped",
        Resolved = 3 "resolved",
        PermanentFailure = 4 "permanent_failure",
        Cancelled = 5 "cancelled",
    }
}

impl Reason {
    /// The reason of an entry that a task's failure makes, by the kind of the failure.
    pub fn of_failure(kind: Option<&str>) -> Self {
        match kind {
            Some("poison_pill") => Self::PoisonPill,
            Some("worker_unavailable") => Self::WorkerUnavailable,
            Some("dependency_cycle_detected") => Self::DependencyCycleDetected,
            _ => Self::MaxRetriesExceeded,
        }
    }

    /// What an entry of this reason scores before it has waited at all.
    pub fn base_score(self) -> i64 {
        match self {
            Self::StalenessTimeout => 10,
            Self::MaxRetriesExceeded => 20,
            Self::WorkerUnavailable => 30,
            Self::DependencyCycleDetected | Self::PoisonPill => 40,
            Self::ManualDlq => 50,
        }
    }

    /// What to look at first: the base of the reason plus the hours that the entry has waited.
    pub fn score(self, pending_for: Micros) -> f64 {
        self.base_score() as f64 + pending_for.max(0) as f64 / HOUR
    }
}

impl Resolution {
    /// Also the words that other programs use: `manually_resolved`, `permanent_failures`.
    pub fn parse(word: &str) -> Result<Self, UnknownState> {
        match word {
            "manually_resolved" => Ok(Self::Resolved),
            "permanent_failures" => Ok(Self::PermanentFailure),
            word => word.parse(),
        }
    }

    pub fn is_closed(self) -> bool {
        self != Self::Pending
    }
}

/// The end of a text, at most [`MAX_TEXT`] characters; what was left out is said.
pub fn tail(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_TEXT {
        return text.to_owned();
    }
    const SAID: &str = "[… the beginning was left out]\n";
    let keep = MAX_TEXT - SAID.chars().count();
    let rest: String = text.chars().skip(count - keep).collect();
    format!("{SAID}{rest}")
}

/// A message without what differs between two occurrences of one cause: ids, numbers, paths, quoted values, addresses.
pub fn normalised(message: &str) -> String {
    static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let rules: &[(&str, &str)] = &[
            (r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<id>"),
            (r"[a-zA-Z][a-zA-Z0-9+.-]*://\S+", "<url>"),
            (r"(?:^|[\s(\[{'\x22=:,])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[^\s'\x22,;:)\]}]+", " <path>"),
            (r"\b0x[0-9a-fA-F]+\b", "<n>"),
            (r"\b[0-9a-fA-F]{12,}\b", "<id>"),
            (r"\d+", "<n>"),
            (r"\s+", " "),
        ];
        rules.iter().filter_map(|(pattern, word)| Some((Regex::new(pattern).ok()?, *word))).collect()
    });
    let mut text: String = message.chars().take(2_000).collect();
    for (pattern, word) in RULES.iter() {
        text = pattern.replace_all(&text, *word).into_owned();
    }
    text.trim().chars().take(300).collect()
}

/// What entries of one cause have in common.
pub fn fingerprint(workflow: &str, task: Option<&str>, error_type: Option<&str>, message: Option<&str>) -> String {
    let mut digest = Sha256::new();
    for part in [workflow, task.unwrap_or(""), error_type.unwrap_or(""), &normalised(message.unwrap_or(""))] {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    let whole: [u8; 32] = digest.finalize().into();
    whole[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: &str) {
        assert_eq!(normalised(message), expected);
    }

    #[test]
    fn messages_lose_what_differs() {
        check("exit code 7", "exit code <n>");
        check("row 0190f3c2-1111-7abc-8def-0123456789ab is missing", "row <id> is missing");
        check("open /var/lib/x/data-17.csv: no such file", "open <path>: no such file");
        check("GET https://api.example.com/v1/orders/99 gave 503", "GET <url> gave <n>");
        check("cannot   read\n 'C:\\temp\\a.txt'", "cannot read <path>'");
        check("hash deadbeefdeadbeef0123 at 0xff", "hash <id> at <n>");
    }

    #[test]
    fn one_cause_has_one_fingerprint() {
        let one = fingerprint("etl", Some("load"), Some("exit"), Some("exit code 1 after 17 rows"));
        assert_eq!(one, fingerprint("etl", Some("load"), Some("exit"), Some("exit code 2 after 4 rows")));
        assert_ne!(one, fingerprint("etl", Some("load"), Some("timeout"), Some("exit code 1 after 17 rows")));
        assert_ne!(one, fingerprint("etl", Some("read"), Some("exit"), Some("exit code 1 after 17 rows")));
        assert_eq!(one.len(), 16);
    }

    #[test]
    fn texts_keep_their_end() {
        let long = format!("{}END", "x".repeat(20_000));
        let kept = tail(&long);
        assert_eq!(kept.chars().count(), MAX_TEXT);
        assert!(kept.ends_with("END") && kept.contains("left out"));
        assert_eq!(tail("short"), "short");
    }

    #[test]
    fn older_and_graver_entries_come_first() {
        assert!(Reason::ManualDlq.score(0) > Reason::StalenessTimeout.score(39 * 3_600_000_000));
        assert!(Reason::ManualDlq.score(0) < Reason::StalenessTimeout.score(41 * 3_600_000_000));
        assert_eq!(Resolution::parse("manually_resolved").unwrap(), Resolution::Resolved);
        assert!(Resolution::parse("nonsense").is_err());
    }
}
