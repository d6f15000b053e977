//! The keys of a workflow itself.

use crate::workflow::{InputKind, Notice, Overlap};

use super::table::{Shape, Table, key, required, words};
use super::task::{RETRY, TASK};
use super::triggers::TRIGGER;

pub(crate) static WORKFLOW: Table = Table {
    what: "a workflow",
    one_of: &[],
    keys: &[
        required("name", Shape::Name, "unique in its namespace"),
        key("namespace", Shape::Name, "`default` unless given"),
        key("title", Shape::Text, "a name for people"),
        key("description", Shape::Text, "what it is for"),
        key("version", Shape::Text, "what the author calls this version"),
        key("tags", Shape::List(&Shape::Text), "words to find it by"),
        key("metadata", Shape::Object, "anything, for other programs"),
        key("domain_events", Shape::OneOrMany(&Shape::Event), "names of events that belong to it"),
        key("inputs", Shape::Map(&Shape::Table(&INPUT)), "what a run is given"),
        key("secrets", Shape::OneOrMany(&Shape::Identifier), "names of secrets that expressions may read"),
        key("callers", Shape::OneOrMany(&Shape::Text), "other namespaces that may call or follow it; `*` is any"),
        key("triggers", Shape::List(&Shape::Table(&TRIGGER)), "what starts runs"),
        key("files", Shape::OneOrMany(&Shape::Text), "files stored with the version, unpacked beside each task"),
        key("env", Shape::Map(&Shape::Text), "variables of every task; values may hold expressions"),
        key("env_file", Shape::OneOrMany(&Shape::Text), "files of variables for every script, stored with the version"),
        key("priority", Shape::Priority, "higher comes first within a queue"),
        key("timeout", Shape::Duration, "of the whole run"),
        key("concurrency", Shape::Table(&CONCURRENCY), "how many runs at once"),
        key("lifecycle", Shape::Table(&LIFECYCLE), "how long a run may stay in a phase"),
        key("notifications", Shape::List(&Shape::Table(&NOTIFICATION)), "who is told when something goes wrong"),
        key("defaults", Shape::Table(&DEFAULTS), "for tasks that say nothing else"),
        key("tasks", TASKS, "the tasks"),
        key("on_failure", TASKS, "tasks after a failure or timeout of the main ones"),
        key("on_success", TASKS, "tasks when none of the main ones failed"),
        key("finally", TASKS, "tasks at the end, in any case"),
        key("outputs", Shape::Map(&Shape::Any), "the run's own output: expressions over inputs and tasks"),
    ],
};

const TASKS: Shape = Shape::Either(&[Shape::Map(&Shape::Table(&TASK)), Shape::ListedTasks]);

/// The keys of a task in a list, as other programs send it.
pub(crate) const LISTED_KEYS: [&str; 6] =
    ["name", "command", "retry_count", "retry_delay_seconds", "timeout_seconds", "depends_on"];

pub(crate) static INPUT: Table = Table {
    what: "an input",
    one_of: &[],
    keys: &[
        key("type", words!(InputKind), "`string` unless given"),
        key("description", Shape::Text, "what it means"),
        key("required", Shape::Boolean, "true unless there is a default"),
        key("default", Shape::Any, "may hold expressions over `run` and `workflow`"),
        key("enum", Shape::List(&Shape::Any), "the only values allowed"),
        key("pattern", Shape::Text, "a regular expression that the whole text must match"),
        key("min", Shape::AnyNumber, "the least number, or the least length of a text or list"),
        key("max", Shape::AnyNumber, "the greatest number, or the greatest length of a text or list"),
        key("min_length", Shape::Integer(0, MAX_LENGTH), "the least length of a text or list"),
        key("max_length", Shape::Integer(0, MAX_LENGTH), "the greatest length of a text or list"),
    ],
};

/// Far above what fits into an input.
pub(crate) const MAX_LENGTH: i64 = 1 << 30;

pub(crate) static CONCURRENCY: Table = Table {
    what: "`concurrency`",
    one_of: &[],
    keys: &[
        key("key", Shape::Text, "runs with the same key share the limit"),
        key("limit", Shape::Integer(1, 1_000_000), "1 unless given"),
        key("overlap", words!(Overlap), "what becomes of a run above the limit"),
        key("max_queued", Shape::Integer(0, 1_000_000), "how many may wait"),
    ],
};

pub(crate) static LIFECYCLE: Table = Table {
    what: "`lifecycle`",
    one_of: &[],
    keys: &[
        key("waiting_for_dependencies", Shape::Duration, "how long a task may wait for what it needs"),
        key("waiting_for_retry", Shape::Duration, "how long a task may wait for its next attempt"),
        key("steps_in_process", Shape::Duration, "how long a task may run"),
        key("max_duration", Shape::Duration, "how long the run may last"),
        key("max_waiting_for_dependencies_minutes", MINUTES, "the same in minutes"),
        key("max_waiting_for_retry_minutes", MINUTES, "the same in minutes"),
        key("max_steps_in_process_minutes", MINUTES, "the same in minutes"),
        key("max_duration_minutes", MINUTES, "the same in minutes"),
    ],
};

pub(crate) static NOTIFICATION: Table = Table {
    what: "a notification",
    one_of: &["webhook", "slack", "email"],
    keys: &[
        key("on", Shape::OneOrMany(&words!(Notice)), "of what; everything unless given"),
        key("webhook", Shape::Text, "an address that gets JSON"),
        key("secret", Shape::Identifier, "the name of the secret that signs a webhook"),
        key("slack", Shape::Text, "an address that takes `{\"text\": …}`"),
        key("email", Shape::OneOrMany(&Shape::Text), "addresses"),
    ],
};

const MAX_MINUTES: i64 = 5_256_000;

const MINUTES: Shape = Shape::Integer(1, MAX_MINUTES);

pub(crate) static DEFAULTS: Table = Table {
    what: "`defaults`",
    one_of: &[],
    keys: &[
        key("timeout", Shape::Duration, "of one attempt"),
        key("retry", Shape::Table(&RETRY), "attempts and delays"),
    ],
};
