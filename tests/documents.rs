//! The pages for contributors name files of this repository: each of them exists.

use std::path::Path;

/// Words in backticks that look like a path below one of these folders.
const ROOTS: [&str; 7] = ["crates/", "tests/", "docs/", "examples/", "scripts/", "deploy/", "bench/"];

#[test]
fn every_path_that_the_pages_for_contributors_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = ["core", "store", "engine", "worker", "server", "api", "telemetry", "mainspring", "testkit"];
    let (mut named, mut missing) = (0, Vec::new());
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let in_crate = crates.iter().any(|name| word.starts_with(&format!("{name}/")));
            if word.contains([' ', '*', '{', '…']) || !(in_crate || ROOTS.iter().any(|root| word.starts_with(root))) {
                continue;
            }
            named += 1;
            let path = if in_crate { root.join("crates").join(word) } else { root.join(word) };
            if !path.exists() {
                missing.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(named > 60, "only {named} paths were found: the pages are written in another way now");
    assert!(missing.is_empty(), "{missing:#?}");
}
