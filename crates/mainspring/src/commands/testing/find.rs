//! Which files are tests, which workflow each is for, and where child workflows are.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use mainspring_core::diagnostic::Place;
use mainspring_core::simulate::{Children, Subject, Suite};
use mainspring_core::{Diagnostic, Diagnostics, Workflow};

use crate::failure::{Failure, Result, cause};
use crate::source::Source;

const ENDINGS: [&str; 2] = [".test.yaml", ".test.yml"];
/// Folders within folders.
const MAX_DEPTH: usize = 12;

/// The files named, and those below the folders named, sorted.
pub(crate) fn test_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let unreadable = |error: std::io::Error| {
            Failure::bad_input(format!("cannot read {}: {}", path.display(), cause(&error))).remedy("check the path")
        };
        if path.metadata().map_err(unreadable)?.is_dir() {
            let is_test = |name: &str| ENDINGS.iter().any(|ending| name.ends_with(ending));
            search(path, 0, &is_test, &mut files).map_err(unreadable)?;
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn search(
    folder: &Path,
    depth: usize,
    is_wanted: &dyn Fn(&str) -> bool,
    files: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            // Neither hidden folders nor what other tools make; a folder that cannot be read holds no tests of ours.
            if depth < MAX_DEPTH && !name.starts_with('.') && name != "node_modules" && name != "target" {
                let _ = search(&entry.path(), depth + 1, is_wanted, files);
            }
        } else if is_wanted(&name) {
            files.push(folder.strip_prefix("./").unwrap_or(folder).join(&name).components().collect());
        }
    }
    Ok(())
}

/// The workflow files that paths mean: files as they are named, and below folders everything that is YAML and no test.
pub(crate) fn workflow_files(paths: &[String]) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for path in paths {
        let is_folder = path != "-" && Path::new(path).is_dir();
        if !is_folder {
            files.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        let is_workflow = |name: &str| {
            let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
            is_yaml && !ENDINGS.iter().any(|ending| name.ends_with(ending))
        };
        search(Path::new(path), 0, &is_workflow, &mut found).map_err(|error| {
            Failure::bad_input(format!("cannot read {path}: {}", cause(&error))).remedy("check the path")
        })?;
        if found.is_empty() {
            return Err(Failure::bad_input(format!("there is no workflow file below {path}"))
                .remedy("workflow files end in .yaml or .yml; `mainspring init` writes some to begin with"));
        }
        found.sort();
        files.extend(found.iter().map(|file| file.display().to_string()));
    }
    Ok(files)
}

/// The workflow a test is for: the one it names, or the one with its name.
pub(super) fn workflow_file(test: &Path, suite: &Suite) -> std::result::Result<PathBuf, Diagnostics> {
    let folder = test.parent().unwrap_or(Path::new(""));
    let problem = |place: Place, message: String, help: String| {
        Diagnostics(vec![Diagnostic { place, path: "/workflow".into(), message, help: Some(help) }])
    };
    if let Some(named) = &suite.workflow {
        let path = folder.join(&named.value);
        return match path.is_file() {
            true => Ok(path),
            false => Err(problem(
                named.place,
                format!("there is no workflow file {}", path.display()),
                "the path is relative to the test file".into(),
            )),
        };
    }
    let name = test.file_name().unwrap_or_default().to_string_lossy();
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    let candidates = ["yaml", "yml", "json"].map(|ending| folder.join(format!("{stem}.{ending}")));
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        problem(
            Place::default(),
            format!("there is no workflow file {}", candidates[0].display()),
            "put the test beside its workflow, or name it: `workflow: FILE` and `cases: […]`".into(),
        )
    })
}

/// The workflow under test, and the others of its folder, read when the first child is looked for.
pub(super) struct Folder {
    path: PathBuf,
    subject: Subject,
    others: OnceCell<HashMap<(String, String), Subject>>,
}

impl Folder {
    pub(super) fn new(path: &Path, workflow: Workflow) -> Self {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Self { path: path.to_owned(), subject: Subject::new(workflow), others: OnceCell::new() }
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Files that are no valid workflows are not children; `validate` is for them.
    fn read_others(&self) -> HashMap<(String, String), Subject> {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return HashMap::new() };
        let mut others = HashMap::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
            if !is_yaml || ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                continue;
            }
            if let Ok(source) = Source::read(&entry.path().display().to_string())
                && let Ok(workflow) = source.parse()
            {
                others.insert((workflow.namespace.clone(), workflow.name.clone()), Subject::new(workflow));
            }
        }
        others
    }
}

impl Children for Folder {
    fn find(&self, namespace: &str, name: &str) -> Option<&Subject> {
        let own = self.subject.workflow();
        if own.namespace == namespace && own.name == name {
            return Some(&self.subject);
        }
        self.others.get_or_init(|| self.read_others()).get(&(namespace.to_owned(), name.to_owned()))
    }
}
