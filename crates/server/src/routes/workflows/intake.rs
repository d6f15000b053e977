//! From a body to a workflow: the dialect in YAML or JSON, and the short JSON form.
//!
//! JSON may carry any printable name up to 255 characters: it is kept as the title and slugged into a name.

use std::collections::HashSet;

use mainspring_core::Workflow;
use mainspring_core::work::BundleFile;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use serde_json::{Map, Value, json};

use super::known_forms;
use crate::body::{self, Document, Name};
use crate::problem::{Fault, Problem};

const LONGEST_TITLE: usize = 255;
/// All files of a workflow together.
const MOST_FILES: usize = 1_000;
const MOST_FILE_BYTES: usize = 10 << 20;
const MOST_PARTS: usize = 64;
const LONGEST_PART: usize = 255;
/// The name that workers give to scripts.
const RESERVED: &str = ".mainspring-script";
const INVALID: &str = "the workflow is not valid";

/// A workflow that was read, with what the body says about it beside the dialect.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) workflow: Workflow,
    pub(crate) source: String,
    pub(crate) files: Vec<BundleFile>,
    /// Whether it is to be switched on or off.
    pub(crate) active: Option<bool>,
    /// The name was made of the title: another workflow may have it.
    pub(crate) is_slugged: bool,
    /// Warnings about probable mistakes.
    pub(crate) warnings: Vec<Fault>,
}

/// Reads a body; `namespace` is that of the request.
pub(crate) fn read(document: Document, namespace: Option<&str>) -> Result<Intake, Problem> {
    let Document { text, is_yaml, files } = document;
    let (source, active, is_slugged) = if is_yaml { (text, None, false) } else { from_json(text)? };
    let (mut workflow, warnings) =
        mainspring_core::parse_with_warnings(&source).map_err(|errors| Problem::from_diagnostics(INVALID, &errors))?;
    let warnings = warnings.iter().map(Problem::fault_of).collect();
    if let Some(namespace) = namespace
        && workflow.namespace != namespace
    {
        if workflow.namespace != DEFAULT_NAMESPACE {
            let said = format!("is `{}`, but the request says `{namespace}`", workflow.namespace);
            return Err(Problem::invalid("/namespace", said));
        }
        namespace.clone_into(&mut workflow.namespace);
    }
    check_files(&workflow, &files)?;
    Ok(Intake { workflow, source, files, active, is_slugged, warnings })
}

/// The files of a bundle must be those that `files` names, within the limits, and stay within the folder that they are
/// unpacked to.
fn check_files(workflow: &Workflow, files: &[BundleFile]) -> Result<(), Problem> {
    if !workflow.files.is_empty() && files.is_empty() {
        let said = "the files beside a workflow come along in a bundle: use `mainspring apply` where they are";
        return Err(Problem::invalid("/files", said));
    }
    if files.len() > MOST_FILES || files.iter().map(|file| file.content.len()).sum::<usize>() > MOST_FILE_BYTES {
        return Err(Problem::invalid("/files", "more than 10 MiB or 1,000 files in all"));
    }
    let names = |entry: &str, path: &str| {
        let entry = entry.trim_start_matches("./").trim_end_matches('/');
        entry == "." || path.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let (mut seen, mut folders) = (HashSet::new(), HashSet::new());
    for file in files {
        folders.extend(file.path.match_indices('/').map(|(at, _)| &file.path[..at]));
    }
    for (nth, file) in files.iter().enumerate() {
        let is_plain = !file.path.is_empty()
            && file.path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']));
        // Paths that a worker could not unpack are refused here, where the author reads the message.
        let fits = file.path.split('/').count() <= MOST_PARTS
            && file.path.split('/').all(|part| part.len() <= LONGEST_PART)
            && file.path != RESERVED
            && !folders.contains(file.path.as_str());
        if is_plain && !fits {
            let said = "cannot be unpacked: it has too many or too long parts, a reserved name, or is a folder of another file";
            return Err(Problem::invalid(&format!("/files/{nth}/path"), said));
        }
        if !is_plain || !seen.insert(&file.path) {
            let said = "must be a path of its own, relative and without `..`";
            return Err(Problem::invalid(&format!("/files/{nth}/path"), said));
        }
        if !workflow.files.iter().any(|entry| names(entry, &file.path)) {
            return Err(Problem::invalid(&format!("/files/{nth}/path"), "`files` of the workflow does not name it"));
        }
    }
    Ok(())
}

/// Texts that need no change stay as they are, so that problems name their lines.
fn from_json(text: String) -> Result<(String, Option<bool>, bool), Problem> {
    let value: Value = body::from_json(text.as_bytes())?;
    let Value::Object(mut fields) = value else {
        return Err(Problem::faults(INVALID, vec![Fault::at("", "a workflow is an object")]));
    };
    let title = slug_name(&mut fields)?;
    let active = match fields.shift_remove("is_active") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(active)) => Some(active),
        Some(_) => return Err(Problem::invalid("/is_active", "must be true or false")),
    };
    let cron = fields.shift_remove("schedule_cron");
    let has_list = known_forms::tasks_by_name(&mut fields)?;
    let is_plain = title.is_none() && active.is_none() && cron.is_none() && !has_list;
    match cron {
        None | Some(Value::Null) => {}
        Some(Value::String(expression)) if expression.trim().is_empty() => {}
        Some(Value::String(expression)) => {
            if fields.contains_key("triggers") {
                return Err(Problem::invalid("/schedule_cron", "write it as one of the triggers, not beside them"));
            }
            fields.insert("triggers".into(), json!([{ "cron": expression }]));
        }
        Some(_) => return Err(Problem::invalid("/schedule_cron", "must be a cron expression")),
    }
    for optional in ["description", "title"] {
        if fields.get(optional).is_some_and(Value::is_null) {
            fields.shift_remove(optional);
        }
    }
    let is_plain =
        is_plain && fields.len() == serde_json::from_str::<Map<String, Value>>(&text).map_or(0, |all| all.len());
    let source = if is_plain { text } else { Value::Object(fields).to_string() };
    Ok((source, active, title.is_some()))
}

/// Turns an invalid name into a slug, and keeps it as the title.
fn slug_name(fields: &mut Map<String, Value>) -> Result<Option<String>, Problem> {
    let written = match fields.get("name") {
        None => return Ok(None),
        Some(Value::String(written)) => written.clone(),
        Some(_) => return Err(Problem::invalid("/name", "must be a text")),
    };
    if Name::try_from(written.clone()).is_ok() {
        return Ok(None);
    }
    let title = written.trim();
    let is_printable = !title.is_empty()
        && title.chars().count() <= LONGEST_TITLE
        && !title.chars().any(|one| one.is_control() || is_invisible(one));
    let name = slug(title);
    if !is_printable || name.is_empty() {
        let said = "must be a name (a-z 0-9 _ . -), or a title of at most 255 printable characters with a letter or digit of ASCII";
        return Err(Problem::invalid("/name", said));
    }
    fields.insert("name".into(), name.into());
    fields.entry("title").or_insert_with(|| title.into());
    Ok(Some(title.to_owned()))
}

/// Characters that change how others are shown, or are not shown at all.
fn is_invisible(one: char) -> bool {
    matches!(one, '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// The letters and digits of a title, in lower case, with dashes between them.
pub(crate) fn slug(title: &str) -> String {
    let mut name = String::new();
    for one in title.chars() {
        match one.to_ascii_lowercase() {
            fits @ ('a'..='z' | '0'..='9') => name.push(fits),
            '_' | '.' if !name.is_empty() => name.push(one),
            _ if !name.is_empty() && !name.ends_with('-') => name.push('-'),
            _ => {}
        }
        if name.len() >= 120 {
            break;
        }
    }
    name.trim_end_matches(['-', '.', '_']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(title: &str, name: &str) {
        assert_eq!(slug(title), name, "{title}");
    }

    #[test]
    fn titles_become_names() {
        check("Daily Cleanup", "daily-cleanup");
        check("  A -- b!! ", "a-b");
        check("../../etc", "etc");
        check("v1.2_x", "v1.2_x");
        check("Übersicht 7", "bersicht-7");
        check("日本", "");
        check(&"x".repeat(300), &"x".repeat(120));
    }

    #[test]
    fn the_short_form_is_a_workflow() {
        let text = r#"{"name": "Daily Cleanup", "description": "d", "schedule_cron": "0 3 * * *", "is_active": false}"#;
        let taken = read(Document { text: text.into(), is_yaml: false, ..Document::default() }, None).unwrap();
        assert_eq!(
            (taken.workflow.name.as_str(), taken.workflow.title.as_deref()),
            ("daily-cleanup", Some("Daily Cleanup"))
        );
        assert_eq!((taken.active, taken.is_slugged, taken.workflow.triggers.len()), (Some(false), true, 1));
        for wrong in [
            r#"{"name": "a\u200bb c"}"#,
            r#"{"name": "a\u202eb"}"#,
            r#"{"name": ""}"#,
            r#"{"name": "!"}"#,
            r#"{"name": "x", "is_active": 1}"#,
            "[]",
        ] {
            let problem =
                read(Document { text: wrong.into(), is_yaml: false, ..Document::default() }, None).unwrap_err();
            assert_eq!(problem.status().as_u16(), 422, "{wrong}");
        }
    }
}
