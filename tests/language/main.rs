//! The workflow dialect, executed: texts in `cases/*.txt`, each with what is done to its runs and how they end, run by the
//! real engine on both databases; and random workflows against an interpreter that knows only the definitions.
//!
//! `MAINSPRING_TEST_BLESS=1` writes what comes out into the files, to be read before it is believed.

mod case;
mod gates;
mod meddling;
mod random;
mod report;
mod scene;
mod steps;

use std::rc::Rc;

use mainspring_store::Flavor;
use tokio::task::{JoinSet, LocalSet};

use crate::case::{Case, read, write};
use crate::scene::Scene;

/// Runs every case of a file at once on one node and one database, and compares.
async fn check(file: &str, flavor: Flavor) {
    let (preamble, cases) = read(file);
    let scene = Rc::new(Scene::new(flavor).await);
    let mut got: Vec<(usize, String)> = LocalSet::new()
        .run_until(async {
            let mut playing = JoinSet::new();
            for (number, case) in cases.iter().cloned().enumerate() {
                let scene = Rc::clone(&scene);
                playing.spawn_local(async move { (number, scene.play(&case, &format!("c{number}")).await) });
            }
            playing.join_all().await
        })
        .await;
    got.sort_unstable();
    let got: Vec<String> = got.into_iter().map(|outcome| outcome.1).collect();
    let violations = Rc::into_inner(scene).expect("every case is over").close().await;
    judge(file, &preamble, &cases, &got, flavor);
    assert!(violations.is_empty(), "{flavor:?}: {violations:#?}");
}

/// The same with a node and a database for each case, one after the other: these cases end sessions.
async fn check_alone(file: &str, flavor: Flavor) {
    let (preamble, cases) = read(file);
    let (mut got, mut violations) = (Vec::new(), Vec::new());
    for case in &cases {
        let scene = Scene::new(flavor).await;
        got.push(scene.play(case, "alone").await);
        violations.extend(scene.close().await);
    }
    judge(file, &preamble, &cases, &got, flavor);
    assert!(violations.is_empty(), "{flavor:?}: {violations:#?}");
}

fn judge(file: &str, preamble: &str, cases: &[Case], got: &[String], flavor: Flavor) {
    if std::env::var_os("MAINSPRING_TEST_BLESS").is_some() {
        write(file, preamble, cases, got);
        return;
    }
    let wrong: Vec<String> = cases
        .iter()
        .zip(got)
        .filter(|(case, got)| case.ends != **got)
        .map(|(case, got)| format!("{file}: {}\nexpected\n{}\ngot\n{got}\n", case.title, case.ends))
        .collect();
    assert!(wrong.is_empty(), "{flavor:?}: {} of {} cases\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

macro_rules! files {
    ($($(#[$meta:meta])* $name:ident: $how:ident($file:literal);)*) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                super::$how($file, mainspring_store::Flavor::Sqlite).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_postgres() {
                super::$how($file, mainspring_store::Flavor::Postgres).await;
            }
        }
    )*};
}

files! {
    tasks: check("tasks.txt");
    rules: check("rules.txt");
    foreach: check("foreach.txt");
    children: check("children.txt");
    approvals: check("approvals.txt");
    waits: check("waits.txt");
    endings: check("endings.txt");
    limits: check("limits.txt");
    reopening: check("reopening.txt");
    sessions: check_alone("sessions.txt");
    many_items: check("many-items.txt");
}

#[test]
fn there_are_enough_cases() {
    let folder = case::folder();
    let count: usize = std::fs::read_dir(folder)
        .expect("the cases are there")
        .flatten()
        .map(|entry| read(&entry.file_name().to_string_lossy()).1.len())
        .sum();
    assert!(count >= 100, "{count} cases");
}
