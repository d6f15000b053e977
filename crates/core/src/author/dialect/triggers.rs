//! The keys of triggers.

use crate::workflow::{CatchupPolicy, OutputFrom, Overlap, RunEnd};

use super::http::HTTP;
use super::table::{Shape, Table, key, required, words};
use super::task::RETRY;

pub(crate) const TRIGGER_KINDS: [&str; 8] = ["cron", "every", "at", "event", "webhook", "workflow", "poll", "manual"];

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

pub(crate) const CHECK_KINDS: [&str; 2] = ["run", "http"];

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
