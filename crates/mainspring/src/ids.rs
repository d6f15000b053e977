//! Ids as people type them: whole, or the beginning of one that no other has; `@last` is the newest run.

use mainspring_api::List;
use mainspring_api::runs::Run;
use mainspring_core::RunId;
use mainspring_core::diagnostic::quoted;
use serde_json::Value;

use crate::api::{Connection, PAGE};
use crate::failure::{Failure, Result};

const LAST: &str = "@last";
/// The beginning of an id that tells its millisecond: enough but for runs that were made together.
pub(crate) const SHORT: usize = 13;
/// Fewer characters say nothing.
const LEAST: usize = 4;

/// As many characters of ids as tell them apart, at least those of their millisecond.
pub(crate) fn short_length<'i>(ids: impl Iterator<Item = &'i str>) -> usize {
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let common = |pair: &[&str]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(one, other)| one == other).count();
    ids.windows(2).map(|pair| common(pair) + 1).max().unwrap_or(0).max(SHORT)
}

/// The beginning of an id.
pub(crate) fn shortened(id: &str, length: usize) -> &str {
    id.get(..length).unwrap_or(id)
}

/// Whether a text could be the beginning of an id.
pub(crate) fn looks_like_id(text: &str) -> bool {
    (LEAST..=36).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// The run of a task run: `search` and the API name those by RUN.INDEX.
fn run_of(text: &str) -> &str {
    match text.split_once('.') {
        Some((run, index)) if run.parse::<RunId>().is_ok() && index.starts_with(|c: char| c.is_ascii_digit()) => run,
        _ => text,
    }
}

/// Refuses what is no id before anything is asked.
pub(crate) fn check_run(text: &str) -> Result<()> {
    let text = run_of(text);
    if text == LAST || looks_like_id(text) {
        return Ok(());
    }
    Err(Failure::bad_input(format!("{} is not the id of a run", quoted(text)))
        .remedy("write an id, the beginning of one, or @last for the newest run; `mainspring runs list` shows them"))
}

/// The run that is meant.
pub(crate) async fn find_run(api: &Connection, text: &str) -> Result<RunId> {
    check_run(text)?;
    let text = run_of(text);
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let is_last = text == LAST;
    let query = [("namespace", api.namespace()), ("id", Some(text).filter(|_| !is_last)), ("limit", Some("5"))];
    let found: List<Run> = api.read(&["workflow-runs"], &query).await?;
    match found.items.as_slice() {
        [newest, ..] if is_last => Ok(newest.id),
        [one] => Ok(one.id),
        [] if is_last => Err(Failure::bad_input("there is no run yet").remedy("`mainspring submit FILE` starts one")),
        [] => Err(Failure::bad_input(format!("no run has an id that begins with {}", quoted(text)))
            .remedy("`mainspring runs list` shows what there is")),
        several => Err(several_match(text, several.iter().map(|run| run.id.to_string()))),
    }
}

/// The id of one of a few things of a list, by its id, the beginning of that, or its name.
pub(crate) async fn find_among(api: &Connection, path: &[&str], what: &str, text: &str) -> Result<String> {
    if text.parse::<RunId>().is_ok() {
        return Ok(text.to_owned());
    }
    let found: List<Value> = api.read(path, &[("limit", Some(PAGE))]).await?;
    let id = |item: &Value| item["id"].as_str().unwrap_or_default().to_owned();
    let named = |item: &&Value| item["name"] == text;
    let begins = |item: &&Value| looks_like_id(text) && id(item).starts_with(&text.to_lowercase());
    let matching: Vec<String> = match found.items.iter().filter(named).map(id).collect::<Vec<_>>() {
        names if !names.is_empty() => names,
        _ => found.items.iter().filter(begins).map(id).collect(),
    };
    match matching.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::bad_input(format!("there is no {what} {}", quoted(text))).remedy(ways_to_name(what))),
        several if found.items.iter().any(|item| named(&item)) => {
            let how_many = format!("{} have the name {}: {}", several.len(), quoted(text), several.join(", "));
            Err(Failure::bad_input(how_many).remedy("write the id of the one that is meant"))
        }
        several => Err(several_match(text, several.iter().cloned())),
    }
}

/// Refuses what is no whole id, where no list could tell which one begins so.
pub(crate) fn require_id(what: &str, text: &str, remedy: &str) -> Result<()> {
    match text.parse::<RunId>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::bad_input(format!("{} is not the id of a {what}", quoted(text)))
            .remedy(format!("write the whole id: {remedy}"))),
    }
}

/// How something of a list is named, and what shows it.
fn ways_to_name(what: &str) -> &'static str {
    match what {
        "schedule" => {
            "write WORKFLOW/TRIGGER, its id or the beginning of its id; `mainspring schedules list` shows them"
        }
        "event handler" => "write its id or the beginning of it; `mainspring handlers list` shows them",
        "token" => "write its name, its id or the beginning of its id; `mainspring tokens list` shows them",
        "job" => "write its name or its id; `mainspring jobs list` shows them",
        _ => "write its id or the beginning of it",
    }
}

pub(crate) fn several_match(text: &str, ids: impl Iterator<Item = String>) -> Failure {
    let ids: Vec<String> = ids.collect();
    Failure::bad_input(format!("several ids begin with {}: {}", quoted(text), ids.join(", ")))
        .remedy("write more of it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_tell_themselves_apart() {
        let ids = ["019aa1b2-c3d4-7000-8000-000000000001", "019aa1b2-c3d4-7000-8000-000000000002"];
        assert_eq!(short_length(ids.into_iter()), 36);
        assert_eq!(short_length(ids.into_iter().take(1)), SHORT);
        assert_eq!(shortened(ids[0], SHORT), "019aa1b2-c3d4");
        assert_eq!(shortened("x", SHORT), "x");
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for wrong in ["", "x", "abc", "not-an-id", "019aa1b2-c3d4-7000-8000-0000000000011"] {
            assert!(check_run(wrong).is_err(), "{wrong}");
        }
        let whole = "019aa1b2-c3d4-7000-8000-000000000001";
        for right in ["@last", "019a", whole, &format!("{whole}.0"), &format!("{whole}.0.3")] {
            assert!(check_run(right).is_ok(), "{right}");
        }
    }
}
