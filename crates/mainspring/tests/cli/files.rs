//! Files between tasks: kept by one worker, checked and used by another, in the database and in an object store.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::object_store::ObjectServer;
use crate::remote_workers::{Worker, token, url};
use crate::support::{Place, Server, on_both_databases, task, until};

/// Bytes that a process may need more for a file than for none.
const BOUNDED: u64 = 80 << 20;

fn server(place: &Place, more: &[(&str, &str)]) -> Server {
    let folder = format!("file://{}", place.path("objects").display());
    let usual = [
        ("MAINSPRING_SERVER_ROLES", "api,scheduler"),
        ("MAINSPRING_ARTIFACTS_URL", folder.as_str()),
        ("MAINSPRING_ARTIFACTS_DATABASE_LIMIT", "64KiB"),
    ];
    let kept = usual.iter().filter(|(name, _)| !more.iter().any(|(other, _)| other == name));
    place.server(&kept.chain(more).copied().collect::<Vec<_>>())
}

fn workers(place: &Place, server: &Server) -> [Worker; 2] {
    let token = token(place);
    ["make", "take"].map(|name| Worker::start(place, name, &url(server), &token, &["--queues", name]))
}

/// Files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn workflow(bytes: u64, between: &str) -> String {
    format!(
        "name: handover\ntasks:\n  make:\n    queue: make\n    run: |\n      mkdir -p dist/deep\n      \
         head -c {bytes} /dev/urandom > dist/deep/big\n      (cd dist && sha256sum deep/big > sum)\n      \
         printf '#!/bin/sh\\necho works\\n' > dist/tool\n      chmod +x dist/tool\n      echo other > other.txt\n    \
         artifacts: {{dist: dist/, other: other.txt}}\n{between}  take:\n    needs: previous\n    queue: take\n    \
         files_from: [tasks.make.artifacts.dist]\n    run: |\n      (cd dist && sha256sum -c sum)\n      test ! -e other.txt\n      \
         echo \"said=$(./dist/tool)\" >> \"$MAINSPRING_OUTPUT\"\n"
    )
}

#[track_caller]
fn was_taken(shown: &Value) {
    assert_eq!(shown["status"], "success", "{shown:#}");
    assert_eq!(task(shown, "take")["output"]["said"], "works", "{shown:#}");
}

fn files_go_from_one_remote_worker_to_another(database: &str) {
    let place = Place::on(database);
    let server = server(&place, &[]);
    let _workers = workers(&place, &server);
    place.write("handover.yaml", workflow(3_000_000, ""));
    let run = place.submit("handover.yaml", &[]);
    was_taken(&place.ended(&run));
    assert_eq!(files(&place.path("objects")).len(), 1, "small files are in the database");
    let kept = place.call(&["runs", "artifacts", &run]).expect(0).json();
    let big = kept["items"].as_array().unwrap().iter().find(|file| file["name"] == "make/1/dist/deep/big").unwrap();
    assert_eq!((&big["bytes"], big["sha256"].as_str().map(str::len)), (&3_000_000.into(), Some(64)), "{kept:#}");
    let asked = ["--server", &url(&server), "runs", "artifacts", &run, "--get", "make/1/dist/deep/big", "copy"];
    let reader = crate::remote_workers::make_token(&place, "viewer");
    place.call_with(&asked, &[("MAINSPRING_TOKEN", &reader)]).expect(0);
    assert_eq!(std::fs::metadata(place.path("copy")).unwrap().len(), 3_000_000);
}

fn a_corrupted_file_fails_the_task_and_both_digests_are_named(database: &str) {
    let place = Place::on(database);
    let server = server(&place, &[]);
    let _workers = workers(&place, &server);
    place.write("handover.yaml", workflow(200_000, "  ask: {needs: previous, approval: {}}\n"));
    let run = place.submit("handover.yaml", &[]);
    until("the approval", || {
        let waiting = place.call(&["approvals", "list"]).expect(0).json();
        (!waiting["items"].as_array().unwrap().is_empty()).then_some(())
    });
    let kept = place.call(&["runs", "artifacts", &run]).expect(0).json();
    let digest = |name: &str| {
        let file = kept["items"].as_array().unwrap().iter().find(|file| file["name"] == name).unwrap();
        file["sha256"].as_str().unwrap().to_owned()
    };
    let object = files(&place.path("objects")).pop().expect("an object");
    let mut content = std::fs::read(&object).unwrap();
    content[100_000] ^= 1;
    std::fs::write(&object, content).unwrap();
    place.call(&["tasks", "approve", &run, "ask"]).expect(0);
    let shown = place.ended(&run);
    let said = task(&shown, "take").to_string();
    let digests: std::collections::BTreeSet<&str> =
        said.split(|c: char| !c.is_ascii_hexdigit()).filter(|word| word.len() == 64).collect();
    assert!(said.contains("it is corrupted") && said.contains("dist/deep/big"), "{shown:#}");
    assert!(digests.len() == 2 && digests.contains(digest("make/1/dist/deep/big").as_str()), "{said}");
}

fn tasks_of_a_server_hand_files_on_without_an_object_store(database: &str) {
    let place = Place::on(database);
    let _server = place.server(&[]);
    let text =
        workflow(3_000_000, "").replace("queue: make", "queue: default").replace("queue: take", "queue: default");
    place.write("handover.yaml", text);
    was_taken(&place.ended(&place.submit("handover.yaml", &[])));
    place.write(
        "wrong.yaml",
        "name: wrong\ntasks:\n  none: {run: 'true', artifacts: {dist: dist/}}\n  \
         take: {needs: none, files_from: tasks.none.artifacts.dist, run: 'true'}\n  \
         large: {run: head -c 11000000 /dev/zero > big, artifacts: big}\n",
    );
    let shown = place.ended(&place.submit("wrong.yaml", &[]));
    let said = |name: &str| task(&shown, name).to_string();
    assert!(said("take").contains("`tasks.none.artifacts.dist` has no files"), "{shown:#}");
    assert!(
        said("large").contains("more than 10 MiB together") && said("large").contains("artifacts.url"),
        "{shown:#}"
    );
}

on_both_databases! {
    files_go_from_one_remote_worker_to_another
    a_corrupted_file_fails_the_task_and_both_digests_are_named
    tasks_of_a_server_hand_files_on_without_an_object_store
}

/// The most memory that a process has had so far.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_megabytes_go_from_worker_to_worker_in_bounded_memory() {
    let database = mainspring_testkit::database::TestDatabase::empty_sqlite().await;
    let place = Place::on(database.url());
    let server = server(&place, &[]);
    let workers = workers(&place, &server);
    place.write("first.yaml", workflow(100_000, ""));
    was_taken(&place.ended(&place.submit("first.yaml", &[])));
    let pids = [server.pid(), workers[0].pid(), workers[1].pid()];
    let before = pids.map(peak);
    place.write("handover.yaml", workflow(200_000_000, ""));
    was_taken(&place.ended(&place.submit("handover.yaml", &[])));
    for ((pid, before), name) in pids.into_iter().zip(before).zip(["server", "maker", "taker"]) {
        let grown = peak(pid).saturating_sub(before);
        assert!(grown < BOUNDED, "the {name} needed {} MB more for a file of 200 MB", grown >> 20);
    }
    assert!(files(&place.path("objects")).iter().any(|file| file.metadata().unwrap().len() == 200_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn larger_files_are_kept_in_s3() {
    let database = mainspring_testkit::database::TestDatabase::empty_sqlite().await;
    let place = Place::on(database.url());
    let objects = ObjectServer::start();
    let endpoint = format!("http://{}", objects.address());
    let variables = [
        ("MAINSPRING_ARTIFACTS_URL", "s3://bucket/some/prefix"),
        ("AWS_ENDPOINT", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let server = server(&place, &variables);
    let _workers = workers(&place, &server);
    // More than one part.
    place.write("handover.yaml", workflow(20_000_000, ""));
    was_taken(&place.ended(&place.submit("handover.yaml", &[])));
    let kept = objects.kept();
    assert_eq!(kept.len(), 1, "{:?}", kept.keys());
    let (path, content) = kept.into_iter().next().unwrap();
    assert!(path.starts_with("/bucket/some/prefix/artifacts/"), "{path}");
    assert_eq!(content.len(), 20_000_000);
}

#[test]
fn an_object_store_that_cannot_be_is_refused_before_anything_starts() {
    let place = Place::new();
    for (url, cause) in [
        ("http://x", "must be file:///FOLDER or s3://BUCKET/PREFIX"),
        ("file:///proc/nowhere", "cannot make the folder"),
    ] {
        place.call_with(&["server"], &[("MAINSPRING_ARTIFACTS_URL", url)]).expect(2).says(&[cause]);
    }
    let alone = [("MAINSPRING_ARTIFACTS_MAX_BYTES", "1GiB")];
    place.call_with(&["server"], &alone).expect(2).says(&["means nothing without artifacts.url"]);
}
