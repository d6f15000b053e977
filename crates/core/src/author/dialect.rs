//! The keys of every mapping of the dialect: one table each, from which the parser knows what is unknown and from which
//! the JSON Schema is made. A key that is not here does not exist.

use crate::retry::{Backoff, OnExhausted};
use crate::rule::TriggerRule;
use crate::workflow::{CatchupPolicy, InputKind, Notice, OnStoreLoss, OnTimeout, OutputFrom, Overlap, Pull, RunEnd};

/// The keys of one mapping.
#[derive(Debug)]
pub(crate) struct Table {
    /// How a message names the mapping.
    pub(crate) what: &'static str,
    pub(crate) keys: &'static [Key],
    /// Exactly one of these must be there; none: no such rule.
    pub(crate) one_of: &'static [&'static str],
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) shape: Shape,
    pub(crate) about: &'static str,
}

/// What may stand behind a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// A scalar, read as text.
    Text,
    Name,
    Identifier,
    Event,
    Duration,
    /// A duration, or a text with an expression.
    DurationTemplate,
    Instant,
    InstantTemplate,
    Size,
    Boolean,
    True,
    Integer(i64, i64),
    Number(f64, f64),
    AnyNumber,
    Priority,
    Status,
    Word(fn() -> Vec<&'static str>),
    Any,
    Object,
    List(&'static Shape),
    OneOrMany(&'static Shape),
    /// Names chosen by the author → values.
    Map(&'static Shape),
    Table(&'static Table),
    Either(&'static [Shape]),
    /// Tasks as a list, which only JSON may give.
    ListedTasks,
}

impl Table {
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|key| key.name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name)
    }
}

const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, required: false, shape, about }
}

const fn required(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, required: true, shape, about }
}

macro_rules! words {
    ($kind:ty) => {
        Shape::Word(|| <$kind>::ALL.iter().map(|word| word.word()).collect())
    };
}

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
pub(super) const MAX_LENGTH: i64 = 1 << 30;

pub(super) const TRIGGER_KINDS: [&str; 8] = ["cron", "every", "at", "event", "webhook", "workflow", "poll", "manual"];

pub(crate) static TRIGGER: Table = Table {
    what: "a trigger",
    one_of: &TRIGGER_KINDS,
    keys: &[
        key("id", Shape::Name, "unique in the workflow; the kind and a number unless given"),
        key("cron", Shape::Text, "minute hour day month weekday, seconds before them if there are six"),
        key("every", Shape::Duration, "at least 1s"),
        key("at", Shape::Instant, "once"),
        key("event", Shape::Text, "the name of an event; a `*` at the end stands for any rest"),
        key("webhook", Shape::Name, "the name under which it is called"),
        key("workflow", Shape::Name, "a run of this workflow ended"),
        key("poll", Shape::Table(&POLL), "a script or request executed again and again; starts a run for each new key"),
        key("manual", Shape::True, "only by hand"),
        key("namespace", Shape::Name, "of the workflow; this one's unless given"),
        key("on", Shape::OneOrMany(&words!(RunEnd)), "which ends of the workflow; `success` unless given"),
        key("timezone", Shape::Text, "of `cron`, like Europe/Paris; UTC unless given"),
        key(
            "catchup",
            Shape::Either(&[words!(CatchupPolicy), Shape::Table(&CATCHUP)]),
            "which missed fires are made up for",
        ),
        key("overlap", words!(Overlap), "wins over the workflow's"),
        key("jitter", Shape::Duration, "each fire is late by a random time up to this"),
        key("calendar", Shape::Name, "the calendar whose days it leaves out"),
        key("inputs", Shape::Map(&Shape::Any), "inputs of the runs it starts"),
        key("start", Shape::Instant, "it does not fire before"),
        key("end", Shape::Instant, "it does not fire at or after"),
        key("max_executions", Shape::Integer(1, i64::MAX), "then it is done"),
        key(
            "debounce",
            Shape::Either(&[Shape::Duration, Shape::Table(&DEBOUNCE)]),
            "events in quick succession start one run",
        ),
        key("if", Shape::Text, "an expression over `event`"),
        key("priority", Shape::Priority, "of the runs it starts"),
    ],
};

pub(crate) static CATCHUP: Table = Table {
    what: "`catchup`",
    one_of: &[],
    keys: &[
        key("policy", words!(CatchupPolicy), "`latest` unless given"),
        key("window", Shape::Duration, "older fires are forgotten"),
        key("max", Shape::Integer(1, 100_000), "at most so many, the latest ones"),
    ],
};

pub(crate) static DEBOUNCE: Table = Table {
    what: "`debounce`",
    one_of: &[],
    keys: &[
        required("window", Shape::Duration, "how long no other event may come"),
        key("key", Shape::Text, "events with different keys do not wait for each other"),
    ],
};

pub(super) const CHECK_KINDS: [&str; 2] = ["run", "http"];

pub(crate) static POLL: Table = Table {
    what: "`poll`",
    one_of: &CHECK_KINDS,
    keys: &[
        required("every", Shape::Duration, "at least 1s; a check that takes longer is not overtaken by the next"),
        key("run", Shape::Text, "a script"),
        key("http", Shape::Either(&[Shape::Text, Shape::Table(&HTTP)]), "a request; a text is the URL to get"),
        key("if", Shape::Text, "an expression over `event.data`, the output; false: nothing was found"),
        required("key", Shape::Text, "an expression over `event.data` that identifies what was found"),
        key("env", Shape::Map(&Shape::Text), "variables; values may hold expressions"),
        key("output", words!(OutputFrom), "where the output of `run` comes from; a file unless given"),
        key("shell", Shape::Text, "the interpreter of `run`"),
        key("timeout", Shape::Duration, "of one attempt"),
        key("retry", Shape::Table(&RETRY), "attempts and delays"),
        key("queue", Shape::Name, "which workers may execute it"),
        key("labels", Shape::Map(&Shape::Text), "what those workers must have"),
    ],
};

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

pub(super) const MAX_MINUTES: i64 = 5_256_000;
const MINUTES: Shape = Shape::Integer(1, MAX_MINUTES);

pub(crate) static DEFAULTS: Table = Table {
    what: "`defaults`",
    one_of: &[],
    keys: &[
        key("timeout", Shape::Duration, "of one attempt"),
        key("retry", Shape::Table(&RETRY), "attempts and delays"),
    ],
};

pub(crate) static RETRY: Table = Table {
    what: "`retry`",
    one_of: &[],
    keys: &[
        key("attempts", Shape::Integer(1, 10_000), "in all, the first included; 3 unless given, 1 without `retry`"),
        key("backoff", words!(Backoff), "`exponential` unless given"),
        key("delay", Shape::Duration, "before the second attempt; 1s unless given"),
        key("max_delay", Shape::Duration, "30s unless given"),
        key("jitter", Shape::Number(0.0, 1.0), "the random share of the delay"),
        key("retryable", Shape::Boolean, "false: neither a failure nor a lost worker leads to another attempt"),
        key(
            "on",
            Shape::OneOrMany(&Shape::Text),
            "only these failures: `timeout`, `5xx`, `4xx`, `429`, `exit:75` or a kind",
        ),
        key(
            "if",
            Shape::Either(&[Shape::Text, Shape::Boolean]),
            "only failures of which this expression over `error` is true",
        ),
    ],
};

pub(super) const KINDS: [&str; 8] = ["run", "steps", "http", "function", "workflow", "remote", "approval", "wait"];

pub(crate) static TASK: Table = Table {
    what: "a task",
    one_of: &KINDS,
    keys: &[
        key("run", Shape::Text, "a script"),
        key(
            "steps",
            Shape::List(&Shape::Either(&[Shape::Text, Shape::Table(&STEP)])),
            "scripts one after the other in the same folder",
        ),
        key("http", Shape::Either(&[Shape::Text, Shape::Table(&HTTP)]), "a request; a text is the URL to get"),
        key("function", Shape::Either(&[Shape::Text, Shape::Table(&FUNCTION)]), "a handler of the worker"),
        key("workflow", Shape::Either(&[Shape::Text, Shape::Table(&CHILD)]), "a run of another workflow"),
        key("remote", Shape::Either(&[Shape::Text, Shape::Table(&REMOTE)]), "a handler of another program"),
        key("approval", Shape::Table(&APPROVAL), "waits until somebody says yes"),
        key("wait", Shape::Table(&WAIT), "waits for a time, an event or a result"),
        key(
            "needs",
            Shape::OneOrMany(&Shape::Text),
            "tasks that must have ended before; `previous` is the one written above",
        ),
        key("trigger_rule", words!(TriggerRule), "how they must have ended; `all_success` unless given"),
        key("if", Shape::Either(&[Shape::Text, Shape::Boolean]), "an expression; false skips the task"),
        key("foreach", Shape::Either(&[Shape::Text, Shape::List(&Shape::Any)]), "repeats the task for every item"),
        key(
            "matrix",
            Shape::Map(&Shape::Any),
            "repeats the task for every combination of lists; `include` and `exclude` change them",
        ),
        key("max_parallel", Shape::Integer(1, 10_000), "how many items at once"),
        key("fail_fast", Shape::Boolean, "an item that fails stops the others; false unless given"),
        key("env", Shape::Map(&Shape::Text), "variables; values may hold expressions"),
        key("retry", Shape::Table(&RETRY), "attempts and delays"),
        key("timeout", Shape::Duration, "of one attempt"),
        key("queue", Shape::Name, "which workers may execute it"),
        key("labels", Shape::Map(&Shape::Text), "what those workers must have"),
        key("priority", Shape::Priority, "overrides the run's"),
        key("pool", Shape::Name, "bounds task runs across workflows"),
        key("on_exhausted", words!(OnExhausted), "when the attempts are used up; `dead_letter` unless given"),
        key(
            "max_lost",
            Shape::Integer(0, 1_000),
            "how many workers may be lost while they execute it; with the next it fails; 5 unless given",
        ),
        key("on_store_loss", words!(OnStoreLoss), "while the store is out of reach; as the worker is set unless given"),
        key("description", Shape::Text, "what it does"),
        key("publishes_events", Shape::OneOrMany(&Shape::Event), "emitted when it succeeds, with its output"),
        key("shell", Shape::Text, "the interpreter of `run`"),
        key("cwd", Shape::Text, "the directory of `run`"),
        key(
            "artifacts",
            Shape::Either(&[Shape::OneOrMany(&Shape::Text), Shape::Map(&Shape::OneOrMany(&Shape::Text))]),
            "files of `run` that are kept: paths, or names with paths",
        ),
        key(
            "files_from",
            Shape::OneOrMany(&Shape::Text),
            "artifacts of other tasks that are put into the folder before it begins: `tasks.TASK.artifacts.NAME`",
        ),
        key("cache", Shape::Table(&CACHE), "files that are kept from one run to the next"),
        key("reuse", Shape::Table(&REUSE), "an earlier result with the same key stands for that of the task"),
        key("limits", Shape::Table(&LIMITS), "what `run` may use"),
        key(
            "image",
            Shape::Either(&[Shape::Text, Shape::Table(&IMAGE)]),
            "the container image that `run` or `steps` are executed in",
        ),
        key("exit_codes", Shape::Table(&EXIT_CODES), "exit codes that are no failures"),
        key("output", words!(OutputFrom), "where the output of `run` comes from; `file` unless given"),
        key("env_file", Shape::OneOrMany(&Shape::Text), "files of variables for `run`, stored with the version"),
    ],
};

pub(crate) static CACHE: Table = Table {
    what: "`cache`",
    one_of: &[],
    keys: &[
        required(
            "key",
            Shape::Text,
            "files are given to tasks of the namespace with the same key; may hold expressions",
        ),
        required("paths", Shape::OneOrMany(&Shape::Text), "paths or patterns below the folder of the task"),
        key("ttl", Shape::Duration, "how long they are kept; 7d unless given"),
    ],
};

pub(crate) static REUSE: Table = Table {
    what: "`reuse`",
    one_of: &[],
    keys: &[
        required(
            "key",
            Shape::Text,
            "the task is not executed if its result for this key is kept; may hold expressions",
        ),
        key("ttl", Shape::Duration, "how old a result may be; 7d unless given"),
    ],
};

pub(crate) static IMAGE: Table = Table {
    what: "`image`",
    one_of: &[],
    keys: &[
        required("name", Shape::Text, "may hold expressions"),
        key(
            "command",
            Shape::OneOrMany(&Shape::Text),
            "without `run`: what is executed instead of the image's own command",
        ),
        key("user", Shape::Text, "a user, or user and group"),
        key("network", Shape::Text, "like `none` or `host`; the engine's own unless given"),
        key("memory", Shape::Size, "what the container may use at most"),
        key("cpus", Shape::Number(0.01, 1024.0), "how many processors it may use"),
        key("pull", words!(Pull), "when the image is fetched; `missing` unless given"),
        key("username", Shape::Text, "at the registry; may hold `secrets`"),
        key("password", Shape::Text, "at the registry; may hold `secrets`"),
    ],
};

pub(crate) static STEP: Table = Table {
    what: "a step",
    one_of: &[],
    keys: &[
        key("name", Shape::Name, "for the log; `step-1` and so on unless given"),
        required("run", Shape::Text, "a script"),
        key("if", Shape::Either(&[Shape::Text, Shape::Boolean]), "an expression; false leaves the step out"),
        key("env", Shape::Map(&Shape::Text), "variables of this step; values may hold expressions"),
        key("shell", Shape::Text, "the interpreter; that of the task unless given"),
        key("cwd", Shape::Text, "a folder below that of the task"),
        key("continue_on_error", Shape::Boolean, "its failure does not end the task"),
    ],
};

pub(crate) static EXIT_CODES: Table = Table {
    what: "`exit_codes`",
    one_of: &[],
    keys: &[
        key("skip", Shape::OneOrMany(&Shape::Integer(1, 255)), "the task is skipped"),
        key("continue", Shape::OneOrMany(&Shape::Integer(1, 255)), "the task has succeeded"),
    ],
};

pub(crate) static FUNCTION: Table = Table {
    what: "`function`",
    one_of: &[],
    keys: &[
        required("handler", Shape::Text, "its name"),
        key("payload", Shape::Any, "what it is given; may hold expressions"),
    ],
};

pub(crate) static REMOTE: Table = Table {
    what: "`remote`",
    one_of: &[],
    keys: &[
        required("handler", Shape::Text, "its name"),
        key("payload", Shape::Any, "what it is given; may hold expressions"),
    ],
};

pub(crate) static CHILD: Table = Table {
    what: "`workflow`",
    one_of: &[],
    keys: &[
        required("name", Shape::Text, "may hold expressions"),
        key("namespace", Shape::Name, "this one's unless given"),
        key("inputs", Shape::Map(&Shape::Any), "may hold expressions"),
    ],
};

pub(crate) static APPROVAL: Table = Table {
    what: "`approval`",
    one_of: &[],
    keys: &[
        key("roles", Shape::OneOrMany(&Shape::Name), "who may decide"),
        key("timeout", Shape::Duration, "how long it waits"),
        key("on_timeout", words!(OnTimeout), "`fail` unless given"),
        key("message", Shape::Text, "what is asked; may hold expressions"),
    ],
};

pub(super) const WAIT_KINDS: [&str; 4] = ["for", "until", "event", "result"];

pub(crate) static WAIT: Table = Table {
    what: "`wait`",
    one_of: &WAIT_KINDS,
    keys: &[
        key("for", Shape::DurationTemplate, "a duration"),
        key("until", Shape::InstantTemplate, "a time"),
        key("event", Shape::Event, "the name of an event"),
        key("result", Shape::True, "somebody outside delivers the result"),
        key("key", Shape::Text, "only an event with this key"),
        key("if", Shape::Text, "only an event for which this expression is true"),
        key("timeout", Shape::Duration, "how long it waits for an event or a result"),
    ],
};

pub(crate) static LIMITS: Table = Table {
    what: "`limits`",
    one_of: &[],
    keys: &[
        key("memory", Shape::Size, "like 512MiB"),
        key("files", Shape::Integer(1, 1_048_576), "open files"),
        key("cpu", Shape::Duration, "processor time"),
    ],
};

pub(crate) static HTTP: Table = Table {
    what: "`http`",
    one_of: &[],
    keys: &[
        key("method", Shape::Word(|| [METHODS, LOWER_METHODS].concat()), "GET unless given"),
        required("url", Shape::Text, "may hold expressions"),
        key("headers", Shape::Map(&Shape::Text), "values may hold expressions, `secrets` too"),
        key("query", Shape::Map(&Shape::Text), "values may hold expressions"),
        key("json", Shape::Any, "the body as JSON"),
        key("form", Shape::Map(&Shape::Text), "the body as a form"),
        key("text", Shape::Text, "the body as text"),
        key("body", Shape::Any, "`text` if it is a text, else `json`"),
        key("auth", Shape::Table(&AUTH), "who asks"),
        key("expect", Shape::Table(&EXPECT), "which answers are a success"),
        key("follow_redirects", Shape::Either(&[Shape::Integer(0, 20), Shape::Boolean]), "how many; 5 unless given"),
        key("max_response_bytes", Shape::Size, "1 MiB at most"),
    ],
};

pub(super) const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
const LOWER_METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];

pub(crate) static AUTH: Table = Table {
    what: "`auth`",
    one_of: &["basic", "bearer"],
    keys: &[
        key("basic", Shape::Table(&BASIC), "a name and a password"),
        key("bearer", Shape::Text, "a token; may hold `secrets`"),
    ],
};

pub(crate) static BASIC: Table = Table {
    what: "`basic`",
    one_of: &[],
    keys: &[
        required("username", Shape::Text, "may hold expressions, `secrets` too"),
        required("password", Shape::Text, "may hold expressions, `secrets` too"),
    ],
};

pub(crate) static EXPECT: Table = Table {
    what: "`expect`",
    one_of: &[],
    keys: &[
        key("status", Shape::OneOrMany(&Shape::Status), "200, 2xx or 200-204; 2xx unless given"),
        key("body", Shape::Either(&[Shape::Text, Shape::Table(&EXPECT_BODY)]), "what the body must be"),
    ],
};

pub(crate) static EXPECT_BODY: Table = Table {
    what: "`body`",
    one_of: &["contains", "matches", "json"],
    keys: &[
        key("contains", Shape::Text, "a text that it holds"),
        key("matches", Shape::Text, "a regular expression that finds something in it"),
        key("json", Shape::Text, "an expression over `body`, `status` and `headers`"),
    ],
};

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
