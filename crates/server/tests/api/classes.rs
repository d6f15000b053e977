//! The classes of vulnerabilities that others in this field had: `docs/security.md` names a test for each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// As the page names them, in its order. One that is missing there, or has no test, is noticed here.
const CLASSES: [&str; 13] = [
    "API open by default",
    "authentication skipped by path suffix or other channel",
    "default or shared secret",
    "missing authorisation on one object or field",
    "command injection through a parameter or run id",
    "template or expression injection",
    "SQL injection",
    "path traversal",
    "SSRF, DNS rebinding",
    "stored XSS through logs or descriptions",
    "secrets in logs, UI or store",
    "sessions",
    "dependencies with known vulnerabilities",
];

/// What must not come back: the crate, and the first version that may.
const FLOORS: [(&str, &str); 4] =
    [("jsonwebtoken", "10.3"), ("sqlx", "0.8.1"), ("tokio-postgres", "0.7.18"), ("h2", "0.4.16")];
const BANNED: [&str; 2] = ["serde_yml", "serde_yaml"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every Rust source below a folder, without what was built.
fn sources(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_class_of_vulnerability_has_its_test() {
    let mut all = String::new();
    sources(&root().join("crates"), &mut all);
    sources(&root().join("tests"), &mut all);
    let page = text("docs/security.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .skip_while(|line| !line.starts_with("| class |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), CLASSES);
    for row in rows {
        let names: Vec<&str> = row[1].split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{} names no test", row[0]);
        for name in names {
            assert!(all.contains(&format!("fn {name}(")), "{}: there is no test `{name}`", row[0]);
        }
    }
}

/// The parts of a version that count, as numbers.
fn version(text: &str) -> Vec<u64> {
    text.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// Advisory databases miss some: the floors are kept in `deny.toml`, and the lock file is above them.
#[test]
fn dependencies_stay_above_their_floors() {
    let (deny, lock) = (text("deny.toml"), text("Cargo.lock"));
    let locked: BTreeSet<(&str, &str)> = lock
        .split("[[package]]")
        .filter_map(|package| {
            let field = |name: &str| package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            Some((field("name")?.trim_matches('"'), field("version")?.trim_matches('"')))
        })
        .collect();
    assert!(locked.iter().any(|(name, _)| *name == "sqlx"), "the lock file was not understood");
    for (name, floor) in FLOORS {
        let entry = format!("name = \"{name}\", version = \"<{floor}\"");
        assert!(deny.contains(&entry), "deny.toml lacks {entry}");
        for (_, found) in locked.iter().filter(|(known, _)| *known == name) {
            assert!(version(found) >= version(floor), "{name} {found} is locked, but {floor} is the least");
        }
    }
    for name in BANNED {
        assert!(deny.contains(&format!("crate = \"{name}\"")), "deny.toml lacks {name}");
        assert!(!locked.iter().any(|(known, _)| *known == name), "{name} is locked");
    }
    assert!(version("0.8.0") < version("0.8.1") && version("10.10.0") > version("10.3"));
}
