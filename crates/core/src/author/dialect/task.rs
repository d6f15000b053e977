//! The keys of a task, whatever its kind, and of scripts.

use crate::retry::{Backoff, OnExhausted};
use crate::rule::TriggerRule;
use crate::workflow::{OnStoreLoss, OutputFrom, Pull};

use super::http::HTTP;
use super::kinds::{APPROVAL, CHILD, FUNCTION, REMOTE, WAIT};
use super::table::{Shape, Table, key, required, words};

pub(crate) const KINDS: [&str; 8] = ["run", "steps", "http", "function", "workflow", "remote", "approval", "wait"];

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

pub(crate) static LIMITS: Table = Table {
    what: "`limits`",
    one_of: &[],
    keys: &[
        key("memory", Shape::Size, "like 512MiB"),
        key("files", Shape::Integer(1, 1_048_576), "open files"),
        key("cpu", Shape::Duration, "processor time"),
    ],
};
