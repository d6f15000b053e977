//! Keys that exclude each other.

/// Keys of one mapping that cannot stand beside each other; the schema says so too.
pub(crate) const EXCLUSIVE: [(&str, &str, &str); 19] = [
    ("a task", "reuse", "artifacts"),
    ("a task", "foreach", "matrix"),
    ("a task", "matrix", "wait"),
    ("a task", "matrix", "approval"),
    ("a task", "foreach", "wait"),
    ("a task", "foreach", "approval"),
    ("`http`", "json", "form"),
    ("`http`", "json", "text"),
    ("`http`", "json", "body"),
    ("`http`", "form", "text"),
    ("`http`", "form", "body"),
    ("`http`", "text", "body"),
    ("a trigger", "timezone", "every"),
    ("a trigger", "timezone", "at"),
    ("a trigger", "timezone", "event"),
    ("a trigger", "timezone", "webhook"),
    ("a trigger", "timezone", "workflow"),
    ("a trigger", "timezone", "poll"),
    ("a trigger", "timezone", "manual"),
];
