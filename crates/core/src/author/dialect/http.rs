//! The keys of an HTTP request.

use super::table::{Shape, Table, key, required};

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

pub(crate) const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

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
