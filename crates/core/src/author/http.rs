//! `http` as written.

use indexmap::IndexMap;
use serde_json::Value;

use crate::diagnostic::quoted;
use crate::expr::has_expression;
use crate::workflow::{
    BodyExpect, DEFAULT_REDIRECTS, Http, HttpAuth, HttpBody, HttpExpect, MAX_RESPONSE_BYTES, StatusRange,
};
use crate::yaml::{Kind, NodeId};

use super::dialect::{AUTH, BASIC, EXPECT, EXPECT_BODY, HTTP, METHODS, Table};
use super::fields::{Entry, Path, Reader, unread};
use super::spec::{Field, Text};

const MAX_FIELDS: usize = 200;

/// `http: URL`, or a mapping.
pub(super) fn read(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Http> {
    let mut http = Http {
        method: "GET".into(),
        url: String::new(),
        headers: IndexMap::new(),
        query: IndexMap::new(),
        body: None,
        auth: None,
        expect: HttpExpect::default(),
        follow_redirects: DEFAULT_REDIRECTS,
        max_response_bytes: MAX_RESPONSE_BYTES,
    };
    if let Kind::Scalar { .. } = reader.node(id).kind {
        http.url = url(reader, id, path, texts)?;
        return Some(http);
    }
    let mut bodies: Vec<Entry<'_>> = Vec::new();
    let mut has_url = false;
    for entry in reader.entries(id, path, &HTTP)? {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "method" => http.method = method(reader, value, at).unwrap_or_default(),
            "url" => {
                has_url = true;
                http.url = url(reader, value, at, texts).unwrap_or_default();
            }
            "headers" => http.headers = fields(reader, value, at, Field::Header, texts),
            "query" => http.query = fields(reader, value, at, Field::Query, texts),
            "json" | "form" | "text" | "body" => bodies.push(entry),
            "auth" => http.auth = auth(reader, value, at, texts),
            "expect" => http.expect = expect(reader, value, at, texts),
            "follow_redirects" => http.follow_redirects = redirects(reader, value, at),
            "max_response_bytes" => http.max_response_bytes = max_response(reader, value, at),
            other => unread(other),
        }
    }
    match bodies[..] {
        [] => {}
        [entry] => http.body = body(reader, entry, path, texts),
        [first, second, ..] => {
            let message =
                format!("a request has one body, but this one has both `{}` and `{}`", first.name, second.name);
            reader.report.add(reader.place(second.key), path.key(second.name), message);
        }
    }
    if let (Some(entry), "GET" | "HEAD") = (bodies.first(), http.method.as_str()) {
        let message = format!("a {} request has no body", http.method);
        reader.report.add_with_help(reader.place(entry.key), path.key(entry.name), message, "add `method: POST`");
    }
    if !has_url {
        reader.report.add_with_help(reader.place(id), path, "`http` has no url", "write `http: {url: …}`");
    }
    Some(http)
}

fn method(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Option<String> {
    let text = reader.constant(id, path)?;
    let upper = text.to_ascii_uppercase();
    if METHODS.contains(&upper.as_str()) {
        return Some(upper);
    }
    let message = format!("there is no method {}", quoted(text));
    reader.report.add_with_help(reader.place(id), path, message, format!("write one of {}", METHODS.join(", ")));
    None
}

/// The scheme must be known unless the whole beginning is an expression.
fn url(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<String> {
    let text = reader.filled_text(id, path)?;
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let known = lower.starts_with("http://") || lower.starts_with("https://") || text.starts_with("${{");
    let (host_missing, spaced) = match text.split_once("://") {
        Some((_, rest)) => (rest.is_empty() || rest.starts_with('/'), has_space(text)),
        None => (false, has_space(text)),
    };
    if !known || host_missing || spaced {
        let message = format!("{} is not a URL that can be asked", quoted(text));
        reader.report.add_with_help(reader.place(id), path, message, "write `http://HOST/…` or `https://HOST/…`");
        return None;
    }
    if has_expression(text) {
        texts.push(Text::new(Field::Url, id, path));
    }
    Some(text.to_owned())
}

/// White space outside expressions.
fn has_space(text: &str) -> bool {
    let Ok(parts) = crate::expr::split(text) else { return false };
    parts.iter().any(|part| match part {
        crate::expr::Part::Text(text) => text.chars().any(|one| one.is_whitespace() || one.is_control()),
        crate::expr::Part::Expression { .. } => false,
    })
}

/// Headers, parameters or the fields of a form. Names are constant, values may hold expressions.
fn fields(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    field: impl Fn(String) -> Field,
    texts: &mut Vec<Text>,
) -> IndexMap<String, String> {
    let mut read = IndexMap::new();
    let entries = reader.mapping(id, path).unwrap_or_default();
    if entries.len() > MAX_FIELDS {
        reader.report.add(reader.place(id), path, format!("there are more than {MAX_FIELDS} entries"));
        return read;
    }
    let of_headers = matches!(field(String::new()), Field::Header(_));
    for (key, value) in entries {
        let name = reader.tree.scalar(*key);
        let at = path.key(name);
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if of_headers && (name.is_empty() || name.len() > 128 || !name.bytes().all(token)) {
            reader.report.add(reader.place(*key), at, format!("{} is not the name of a header", quoted(name)));
            continue;
        }
        let Some(text) = (if reader.is_null(*value) { Some("") } else { reader.text(*value, at) }) else { continue };
        if of_headers && text.chars().any(|one| matches!(one, '\r' | '\n')) {
            let message = format!("the header {} holds a line break", quoted(name));
            reader.report.add(reader.place(*value), at, message);
            continue;
        }
        if has_expression(text) {
            texts.push(Text::new(field(name.into()), *value, at));
        }
        read.insert(name.to_owned(), text.to_owned());
    }
    read
}

fn body(reader: &mut Reader<'_, '_>, entry: Entry<'_>, path: Path<'_>, texts: &mut Vec<Text>) -> Option<HttpBody> {
    let (id, at) = (entry.value, path.key(entry.name));
    if entry.name == "form" {
        return Some(HttpBody::Form(fields(reader, id, at, Field::Form, texts)));
    }
    if entry.name == "text" {
        let text = reader.text(id, at)?;
        if has_expression(text) {
            texts.push(Text::new(Field::BodyText, id, at));
        }
        return Some(HttpBody::Text(text.to_owned()));
    }
    let mut found = Vec::new();
    let value = reader.json(id, at, "", &mut |pointer, node, path| {
        found.push(Text::new(Field::BodyJson(pointer.into()), node, path));
    })?;
    if entry.name == "body"
        && let Value::String(text) = value
    {
        texts.extend(found.into_iter().map(|text| Text { field: Field::BodyText, ..text }));
        return Some(HttpBody::Text(text));
    }
    texts.append(&mut found);
    Some(HttpBody::Json(value))
}

fn auth(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<HttpAuth> {
    let entry = only_one(reader, id, path, &AUTH)?;
    let (at, value) = (path.key(entry.name), entry.value);
    if entry.name == "bearer" {
        return template(reader, value, at, Field::Bearer, texts).map(HttpAuth::Bearer);
    }
    let (mut username, mut password) = (None, None);
    for entry in reader.entries(value, at, &BASIC)? {
        let (at, value) = (at.key(entry.name), entry.value);
        match entry.name {
            "username" => username = Some(template(reader, value, at, Field::Username, texts)?),
            "password" => password = Some(template(reader, value, at, Field::Password, texts)?),
            other => unread(other),
        }
    }
    let (Some(username), Some(password)) = (username, password) else {
        let message = "`basic` needs a username and a password";
        reader.report.add_with_help(reader.place(value), at, message, "write `basic: {username: …, password: …}`");
        return None;
    };
    Some(HttpAuth::Basic { username, password })
}

/// A text that may hold an expression.
pub(super) fn template(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    field: Field,
    texts: &mut Vec<Text>,
) -> Option<String> {
    let text = reader.filled_text(id, path)?;
    if has_expression(text) {
        texts.push(Text::new(field, id, path));
    }
    Some(text.to_owned())
}

/// The one entry of a mapping that must have exactly one.
fn only_one<'t>(reader: &mut Reader<'t, '_>, id: NodeId, path: Path<'_>, table: &Table) -> Option<Entry<'t>> {
    let entries = reader.entries(id, path, table)?;
    if let [entry] = entries[..] {
        return Some(entry);
    }
    let message = format!("{} must have exactly one of {}", table.what, table.one_of.join(", "));
    reader.report.add(reader.place(id), path, message);
    None
}

fn expect(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> HttpExpect {
    let mut expect = HttpExpect::default();
    for entry in reader.entries(id, path, &EXPECT).unwrap_or_default() {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "status" => {
                let ranges = statuses(reader, value, at);
                if !ranges.is_empty() {
                    expect.status = ranges;
                }
            }
            "body" => expect.body = expect_body(reader, value, at, texts),
            other => unread(other),
        }
    }
    expect
}

fn expect_body(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<BodyExpect> {
    if let Kind::Scalar { .. } = reader.node(id).kind {
        return reader.constant(id, path).map(|text| BodyExpect::Contains(text.to_owned()));
    }
    let entry = only_one(reader, id, path, &EXPECT_BODY)?;
    let (at, value) = (path.key(entry.name), entry.value);
    match entry.name {
        "contains" => reader.constant(value, at).map(|text| BodyExpect::Contains(text.to_owned())),
        "matches" => reader.pattern(value, at).map(|text| BodyExpect::Matches(text.to_owned())),
        _ => {
            texts.push(Text::new(Field::ExpectJson, value, at));
            reader.filled_text(value, at).map(|text| BodyExpect::Json(text.to_owned()))
        }
    }
}

fn statuses(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Vec<StatusRange> {
    let mut ranges = Vec::new();
    let items = reader.one_or_many(id, path, "a status or a list of them").unwrap_or_default();
    if items.is_empty() {
        reader.report.add(reader.place(id), path, "`status` names no status");
    }
    for (index, item) in items.into_iter().enumerate() {
        let path = path.index(index);
        let Some(text) = reader.text(item, path) else { continue };
        match status_range(text) {
            Some(range) => ranges.push(range),
            None => {
                let message = format!("{} is not a status", quoted(text));
                reader.report.add_with_help(reader.place(item), path, message, "write `200`, `2xx` or `200-204`");
            }
        }
    }
    ranges
}

/// `200`, `2xx` or `200-204`.
fn status_range(text: &str) -> Option<StatusRange> {
    let status = |text: &str| text.parse::<u16>().ok().filter(|status| (100..=599).contains(status));
    let (from, to) = match text.split_once('-') {
        Some((from, to)) => (status(from)?, status(to)?),
        None => match text.strip_suffix("xx") {
            Some(hundred) => (status(&format!("{hundred}00"))?, status(&format!("{hundred}99"))?),
            None => (status(text)?, status(text)?),
        },
    };
    (from <= to).then_some(StatusRange { from, to })
}

/// A number, or `true` and `false` for the usual number and none.
fn redirects(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> u8 {
    if let Kind::Scalar { text, .. } = &reader.node(id).kind {
        match text.as_ref() {
            "true" => return DEFAULT_REDIRECTS,
            "false" => return 0,
            _ => {}
        }
    }
    reader.integer(id, path, 0..=20).map_or(DEFAULT_REDIRECTS, |number| number as u8)
}

fn max_response(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> u64 {
    match reader.size(id, path) {
        Some(size) if size > MAX_RESPONSE_BYTES => {
            let message = "an answer becomes the task's output, so it can be 1 MiB at most";
            reader.report.add(reader.place(id), path, message);
            MAX_RESPONSE_BYTES
        }
        Some(size) => size,
        None => MAX_RESPONSE_BYTES,
    }
}
