//! The pages name files of this repository: each of them exists, and so does every page that another one links to. And what
//! the pages say of all files of a kind holds.

use std::path::{Path, PathBuf};

/// Words in backticks that look like a path below one of these folders.
const ROOTS: [&str; 9] =
    ["crates/", "tests/", "docs/", "examples/", "scripts/", "deploy/", "bench/", "ui/src/", "sdk/"];
const CRATES: [&str; 10] =
    ["core/", "store/", "engine/", "worker/", "server/", "api/", "boxed/", "telemetry/", "mainspring/", "testkit/"];
/// Folders whose pages are read, beside those at the top.
const FOLDERS: [&str; 3] = ["docs", "deploy", "sdk"];

#[test]
fn every_file_that_a_page_names_or_links_to_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut pages =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "crates/store/sql/README.md"].map(PathBuf::from).to_vec();
    FOLDERS.iter().for_each(|folder| find_pages(root, Path::new(folder), &mut pages));
    let (mut named, mut missing) = (0, Vec::new());
    for page in pages {
        let text = prose(&std::fs::read_to_string(root.join(&page)).unwrap());
        let folder = page.parent().unwrap();
        for path in named_files(&text).into_iter().chain(links(&text).map(|link| folder.join(link))) {
            named += 1;
            if !root.join(&path).exists() {
                missing.push(format!("{}: {}", page.display(), path.display()));
            }
        }
    }
    assert!(named > 250, "only {named} paths were found: the pages are written in another way now");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Without it, each crate that calls such a function compiles its body again (decision 0028).
#[test]
fn public_async_functions_of_libraries_are_boxed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut boxed, mut bare) = (0, Vec::new());
    for library in ["store", "engine"] {
        let mut sources = Vec::new();
        find_files(root, &Path::new("crates").join(library).join("src"), "rs", &mut sources);
        for source in sources {
            let text = std::fs::read_to_string(root.join(&source)).unwrap();
            let mut block = "";
            let mut previous = "";
            for line in text.lines() {
                if line.starts_with("impl") {
                    block = previous;
                }
                let marked = if line.starts_with(' ') { block } else { previous };
                let declared = line.trim_start().strip_prefix("pub async fn ");
                // A generic function is compiled by its caller.
                if let Some(declared) = declared.filter(|declared| !declared.split('(').next().unwrap().contains('<')) {
                    match marked == "#[boxed]" {
                        true => boxed += 1,
                        false => bare.push(format!("{}: {declared}", source.display())),
                    }
                }
                previous = line;
            }
        }
    }
    assert!(boxed > 300, "only {boxed} functions were found: they are written in another way now");
    assert!(bare.is_empty(), "{bare:#?}");
}

fn find_pages(root: &Path, folder: &Path, pages: &mut Vec<PathBuf>) {
    find_files(root, folder, "md", pages);
}

fn find_files(root: &Path, folder: &Path, kind: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            find_files(root, &path, kind, found);
        } else if path.extension().is_some_and(|extension| extension == kind) {
            found.push(path);
        }
    }
}

/// The page without its blocks of code.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

fn named_files(text: &str) -> Vec<PathBuf> {
    let words = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let plain = words.filter(|word| !word.contains([' ', '*', '{', '…', '<']));
    let named = plain.filter_map(|word| {
        let path = word.split(['#', ':']).next()?;
        match CRATES.iter().any(|name| path.starts_with(name)) {
            true => Some(Path::new("crates").join(path)),
            false => ROOTS.iter().any(|root| path.starts_with(root)).then(|| path.into()),
        }
    });
    named.collect()
}

/// Targets of links within the repository.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains(':') && !target.starts_with('/'))
}
