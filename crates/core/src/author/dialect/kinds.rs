//! The keys of tasks that are neither scripts nor requests.

use crate::workflow::OnTimeout;

use super::table::{Shape, Table, key, required, words};

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

pub(crate) const WAIT_KINDS: [&str; 4] = ["for", "until", "event", "result"];

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
