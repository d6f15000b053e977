//! The functions that every node brings along, in one table: what others show, check and wait by.

/// A built-in function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltinFunction {
    pub name: &'static str,
    pub description: &'static str,
    /// How long it may take unless a task or job says otherwise.
    pub timeout_ms: u64,
    /// The fields of its payload. Every payload may hold `event` besides: a handler of events adds it.
    pub fields: &'static [&'static str],
}

/// By name.
pub const BUILTIN_FUNCTIONS: [BuiltinFunction; 5] = [
    BuiltinFunction {
        name: "cleanup:old_traces",
        description: "deletes runs, logs and traces older than retention_days",
        timeout_ms: 600_000,
        fields: &["retention_days"],
    },
    BuiltinFunction {
        name: "health:check",
        description: "checks the database, the coordination and the workers",
        timeout_ms: 10_000,
        fields: &[],
    },
    BuiltinFunction {
        name: "kb:reindex",
        description: "builds the search index over workflows, runs and errors anew",
        timeout_ms: 300_000,
        fields: &["document_count"],
    },
    BuiltinFunction {
        name: "metrics:collect",
        description: "reads gauges of the system",
        timeout_ms: 30_000,
        fields: &["metric_type"],
    },
    BuiltinFunction {
        name: "notify:send",
        description: "sends an e-mail or calls a webhook",
        timeout_ms: 30_000,
        fields: &["type", "recipient", "subject", "body", "headers"],
    },
];

/// The field of a payload that holds the event which made the job.
pub const EVENT_FIELD: &str = "event";

/// The built-in function of this name.
pub fn builtin_function(name: &str) -> Option<&'static BuiltinFunction> {
    BUILTIN_FUNCTIONS.iter().find(|function| function.name == name)
}
