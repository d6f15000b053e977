//! The place of a run in a trace: W3C trace context, and the ids of the spans of a run.
//!
//! A run's spans begin and end in different processes. So that all of them agree without asking each other, the ids are
//! functions of the ids that are stored anyway: the trace is that of the `traceparent` which the run was triggered with,
//! or else has the run's own id; the span of an attempt follows from the task run and the number of the attempt.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{RunId, TaskKey};

/// The member of a run's `trigger` that keeps the context it was triggered in.
pub const TRACEPARENT: &str = "traceparent";

/// One span of one trace, as `traceparent` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    /// Whether the trace is recorded.
    pub sampled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be 00-TRACE-SPAN-FLAGS in lower-case hex digits, like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)]
pub struct BadTraceparent;

/// What a span of a run tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanOf {
    /// What made the run without a request: a schedule or an event.
    Start,
    Run,
    /// From ready to claimed.
    Claim(TaskKey, i32),
    /// An attempt, as the node sees it.
    Execution(TaskKey, i32),
    /// The same, as the worker sees it: the process, request or function.
    Task(TaskKey, i32),
}

/// The trace of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunTrace {
    pub run: RunId,
    /// The span that the run was triggered in, or that of the schedule or event which made it.
    pub parent: Option<TraceContext>,
    /// Whether it is recorded.
    pub sampled: bool,
}

impl RunTrace {
    /// Of a run with this trigger, as it is stored.
    pub fn new(run: RunId, trigger: Option<&serde_json::Value>) -> Self {
        let stored: Option<TraceContext> = trigger.and_then(|trigger| trigger.get(TRACEPARENT)?.as_str()?.parse().ok());
        let begins = trigger.and_then(|trigger| trigger.get("kind")?.as_str());
        let own = Self { run, parent: None, sampled: true };
        let parent = match (stored, begins) {
            (Some(stored), _) => Some(stored),
            (None, Some("manual") | None) => None,
            (None, Some(_)) => Some(own.span(SpanOf::Start)),
        };
        Self { run, parent, sampled: stored.is_none_or(|stored| stored.sampled) }
    }

    /// Whether its trace began elsewhere.
    pub fn is_given(&self) -> bool {
        self.parent.is_some_and(|parent| parent.span_id != self.span(SpanOf::Start).span_id)
    }

    pub fn trace_id(&self) -> [u8; 16] {
        self.parent.map_or(*self.run.as_bytes(), |parent| parent.trace_id)
    }

    /// The context of one of its spans.
    pub fn span(&self, of: SpanOf) -> TraceContext {
        let (word, key, attempt) = match of {
            SpanOf::Start => (1, None, 0),
            SpanOf::Run => (2, None, 0),
            SpanOf::Claim(key, attempt) => (3, Some(key), attempt),
            SpanOf::Execution(key, attempt) => (4, Some(key), attempt),
            SpanOf::Task(key, attempt) => (5, Some(key), attempt),
        };
        let (index, item) = key.map_or((-1, -1), |key| (key.index, key.item));
        let numbers = [word, index, item, attempt];
        let bytes = self.run.as_bytes().iter().copied().chain(numbers.into_iter().flat_map(i32::to_be_bytes));
        TraceContext { trace_id: self.trace_id(), span_id: spread(bytes).to_be_bytes(), sampled: self.sampled }
    }
}

/// FNV-1a, then the last mix of SplitMix64, so that neighbours differ in every part; never 0, which is no span.
fn spread(bytes: impl Iterator<Item = u8>) -> u64 {
    let folded =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (folded ^ (folded >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}

impl TraceContext {
    pub fn trace_id_hex(&self) -> String {
        hex(&self.trace_id)
    }

    pub fn span_id_hex(&self) -> String {
        hex(&self.span_id)
    }
}

/// Lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for TraceContext {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(out, "00-{}-{}-{flags:02x}", self.trace_id_hex(), self.span_id_hex())
    }
}

impl FromStr for TraceContext {
    type Err = BadTraceparent;

    /// Later versions may add members at the end; version ff is forbidden, and so are ids of zeros.
    fn from_str(text: &str) -> Result<Self, BadTraceparent> {
        let mut parts = text.split('-');
        let mut part = || parts.next().ok_or(BadTraceparent);
        let [version] = digits::<1>(part()?)?;
        let (trace_id, span_id, [flags]) = (digits::<16>(part()?)?, digits::<8>(part()?)?, digits::<1>(part()?)?);
        let has_more = parts.next().is_some();
        if version == 0xff || (version == 0 && has_more) || trace_id == [0; 16] || span_id == [0; 8] {
            return Err(BadTraceparent);
        }
        Ok(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }
}

fn digits<const N: usize>(text: &str) -> Result<[u8; N], BadTraceparent> {
    let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != N * 2 || !text.bytes().all(is_lower_hex) {
        return Err(BadTraceparent);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| BadTraceparent)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| BadTraceparent)?;
    }
    Ok(bytes)
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    const KNOWN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn traceparents_are_read_and_written() {
        let context: TraceContext = KNOWN.parse().unwrap();
        assert_eq!((context.to_string().as_str(), context.sampled), (KNOWN, true));
        assert!(KNOWN.replacen("00", "cc", 1).parse::<TraceContext>().is_ok());
        assert!(format!("{}-more", KNOWN.replacen("00", "01", 1)).parse::<TraceContext>().is_ok());
        for bad in [
            "",
            "00",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e47é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(bad.parse::<TraceContext>(), Err(BadTraceparent), "{bad}");
        }
    }

    #[test]
    fn a_run_takes_the_trace_it_was_triggered_in_or_its_own_id() {
        let run = RunId::from_u128(0x0197_0000_0000_7000_8000_0000_0000_0001);
        let triggered = RunTrace::new(run, Some(&json!({"kind": "manual", "traceparent": KNOWN})));
        assert_eq!(triggered.trace_id(), KNOWN.parse::<TraceContext>().unwrap().trace_id);
        let own = RunTrace::new(run, Some(&json!({"kind": "manual"})));
        assert_eq!((own.trace_id(), own.parent), (*run.as_bytes(), None));
        let fired = RunTrace::new(run, Some(&json!({"kind": "cron"})));
        assert_eq!(fired.parent, Some(fired.span(SpanOf::Start)));
    }

    #[test]
    fn every_span_of_a_run_has_an_id_of_its_own() {
        let run = RunId::from_u128(0x0197_0000_0000_7000_8000_0000_0000_0001);
        let trace = RunTrace { run, parent: None, sampled: true };
        let mut seen = HashSet::from([trace.span(SpanOf::Start).span_id, trace.span(SpanOf::Run).span_id]);
        for index in 0..40 {
            for item in -1..10 {
                for attempt in 1..5 {
                    let key = TaskKey { run, index, item };
                    for of in [SpanOf::Claim(key, attempt), SpanOf::Execution(key, attempt), SpanOf::Task(key, attempt)]
                    {
                        assert!(seen.insert(trace.span(of).span_id), "{of:?}");
                    }
                }
            }
        }
    }
}
