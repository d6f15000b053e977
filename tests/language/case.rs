//! The form of a case.
//!
//! `=== TITLE`, workflows with `---` between them, what is done after `--- do` (see [`crate::steps`]), and after `--- ends`
//! what comes of it (see [`crate::report`]). The first workflow is submitted at once unless a step submits.

use std::path::PathBuf;

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) title: String,
    /// Everything but the title and the end, as it is written.
    text: String,
    pub(crate) workflows: Vec<String>,
    pub(crate) steps: Vec<String>,
    pub(crate) ends: String,
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("language/cases")
}

/// The preamble of a file and its cases.
pub(crate) fn read(file: &str) -> (String, Vec<Case>) {
    let path = folder().join(file);
    let content = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut blocks = content.split("=== ");
    let preamble = blocks.next().unwrap_or_default().to_owned();
    (preamble, blocks.map(case).collect())
}

fn case(block: &str) -> Case {
    let (title, rest) = block.split_once('\n').expect("a title has a line of its own");
    let (text, ends) = rest.split_once("--- ends\n").unwrap_or_else(|| panic!("`{title}` does not say how it ends"));
    let (workflows, steps) = text.split_once("--- do\n").unwrap_or((text, ""));
    Case {
        title: title.to_owned(),
        text: text.to_owned(),
        workflows: workflows.split("---\n").map(str::to_owned).collect(),
        steps: steps.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect(),
        ends: ends.trim_end().to_owned(),
    }
}

/// Writes what came out into the file.
pub(crate) fn write(file: &str, preamble: &str, cases: &[Case], got: &[String]) {
    let blocks: Vec<String> = cases
        .iter()
        .zip(got)
        .map(|(case, got)| format!("=== {}\n{}--- ends\n{got}\n", case.title, case.text))
        .collect();
    std::fs::write(folder().join(file), format!("{preamble}{}", blocks.join("\n"))).expect("the cases can be written");
}
