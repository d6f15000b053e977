//! Files of other tasks: fetched before a script begins, and only what was kept.

mod common;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Rig, script};
use mainspring_core::work::{
    ArtifactReader, ArtifactSource, CacheOrder, IncomingFile, Order, Outcome, ProcessOrder, SourceFuture, Transfer,
    TransferError,
};
use mainspring_worker::CancelReason;
use serde_json::json;

/// Gives every file the same pieces; the first times it breaks off.
#[derive(Debug, Default)]
struct Pieces {
    pieces: Vec<Vec<u8>>,
    breaks: AtomicUsize,
}

struct Reading(VecDeque<Vec<u8>>, bool);

impl ArtifactReader for Reading {
    fn next(&mut self) -> SourceFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            match self.0.pop_front() {
                Some(piece) => Ok(Some(piece)),
                None if self.1 => Err(TransferError::Failed("the connection broke".into())),
                None => Ok(None),
            }
        })
    }
}

impl ArtifactSource for Pieces {
    fn open<'a>(&'a self, _: Transfer, _: &'a IncomingFile) -> SourceFuture<'a, Box<dyn ArtifactReader>> {
        let left = self.breaks.load(Ordering::SeqCst);
        self.breaks.store(left.saturating_sub(1), Ordering::SeqCst);
        let reading = Reading(self.pieces.clone().into(), left > 0);
        Box::pin(async move { Ok(Box::new(reading) as Box<dyn ArtifactReader>) })
    }
}

/// Never gives anything.
#[derive(Debug)]
struct Silence;

impl ArtifactSource for Silence {
    fn open<'a>(&'a self, _: Transfer, _: &'a IncomingFile) -> SourceFuture<'a, Box<dyn ArtifactReader>> {
        Box::pin(std::future::pending())
    }
}

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn file(path: &str, sha256: &str) -> IncomingFile {
    IncomingFile {
        task_run_id: "0190a1b2-0000-7000-8000-000000000001.0".parse().unwrap(),
        attempt: 1,
        name: path.into(),
        path: path.into(),
        executable: true,
        bytes: 5,
        sha256: sha256.into(),
        cached: false,
    }
}

fn given(files: Vec<IncomingFile>, text: &str) -> Order {
    Order { process: ProcessOrder { incoming: files, ..ProcessOrder::default() }, ..script(text) }
}

fn rig(pieces: &[&str], breaks: usize) -> Rig {
    let rig = Rig::new();
    let pieces = pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect();
    rig.pool.fetch_artifacts_from(Arc::new(Pieces { pieces, breaks: AtomicUsize::new(breaks) }));
    rig
}

#[tokio::test]
async fn files_are_there_before_the_script_begins_even_if_a_transfer_breaks_off() {
    for breaks in [0, 2] {
        let mut rig = rig(&["hel", "lo"], breaks);
        let text =
            "test -x dist/deep/a; echo \"a=$(cat dist/deep/a) $(cd $MAINSPRING_FILES; ls)\" >> $MAINSPRING_OUTPUT";
        let output = rig.output(given(vec![file("dist/deep/a", HELLO)], text)).await;
        assert_eq!(output, Some(json!({"a": "hello dist"})), "{breaks}");
    }
}

#[tokio::test]
async fn a_corrupted_file_fails_the_task_with_both_digests() {
    let mut rig = rig(&["hellO"], 0);
    let failure = rig.failure(given(vec![file("a", HELLO)], "echo begun")).await;
    assert_eq!(failure.kind, "files", "{failure:?}");
    let digests: Vec<&str> =
        failure.message.split(|c: char| !c.is_ascii_hexdigit()).filter(|word| word.len() == 64).collect();
    assert!(digests.len() == 2 && digests.contains(&HELLO) && digests[0] != digests[1], "{}", failure.message);
    assert!(rig.lines().is_empty(), "the script does not begin");
    let mut rig = self::rig(&["hello", "and more"], 0);
    let failure = rig.failure(given(vec![file("a", HELLO)], "true")).await;
    assert!(failure.message.contains("corrupted"), "{}", failure.message);
}

#[tokio::test]
async fn path_traversal_by_files_of_other_tasks_is_refused() {
    for path in ["../x", "/etc/x", "a/../../x", ".mainspring-script"] {
        let mut rig = rig(&["hello"], 0);
        let failure = rig.failure(given(vec![file(path, HELLO)], "true")).await;
        assert_eq!((failure.kind.as_str(), failure.permanent), ("files", true), "{path}");
    }
    let mut rig = rig(&["hello"], 0);
    let failure = rig.failure(given(vec![file("a", HELLO), file("a", HELLO)], "true")).await;
    assert!(failure.message.contains("already"), "{}", failure.message);
}

#[tokio::test]
async fn a_transfer_ends_with_a_cancel_and_with_the_time_of_the_task() {
    let mut rig = Rig::new();
    rig.pool.fetch_artifacts_from(Arc::new(Silence));
    let order = || given(vec![file("a", HELLO)], "true");
    let failure = rig.failure(Order { timeout_ms: Some(50), ..order() }).await;
    assert_eq!(failure.kind, "timeout");
    let assignment = rig.start(order());
    rig.pool.cancel(assignment.key, assignment.attempt, CancelReason::Requested("not wanted".into()));
    let outcome = rig.next().await.outcome;
    assert!(matches!(outcome, mainspring_core::work::Outcome::Cancelled { .. }), "{outcome:?}");
}

fn cached(cache: CacheOrder, text: &str) -> Order {
    let remarks = vec!["cache: said first".to_owned()];
    let process = ProcessOrder { cache: Some(Box::new(cache)), remarks, ..ProcessOrder::default() };
    Order { process, ..script(text) }
}

#[tokio::test]
async fn a_task_goes_on_without_a_cache_that_does_not_arrive_whole() {
    const LIST: &str = "echo \"files=$(find . -type f -not -name '.*' | sort | xargs)\" >> $MAINSPRING_OUTPUT";
    let restored = |last: &str| vec![file("deps/a", HELLO), file("deps/b", last)];
    let mut rig = rig(&["hello"], 0);
    let output = rig.output(cached(CacheOrder { restored: restored(HELLO), ..CacheOrder::default() }, LIST)).await;
    assert_eq!(output, Some(json!({"files": "./deps/a ./deps/b"})));
    let other = HELLO.replace('2', "3");
    let output = rig.output(cached(CacheOrder { restored: restored(&other), ..CacheOrder::default() }, LIST)).await;
    assert_eq!(output, Some(json!({"files": ""})), "none is left where one is corrupted");
    let line = rig.until_line("the files are left out").await;
    assert!(line.text.contains("corrupted"), "{}", line.text);
    rig.until_line("cache: said first").await;
}

#[tokio::test]
async fn files_for_a_cache_are_collected_from_the_folder_of_a_task_that_succeeded() {
    let mut rig = Rig::new();
    let cache = |limit| CacheOrder { saved: vec!["deps/".into()], limit, ..CacheOrder::default() };
    let text = "mkdir deps; echo a > deps/a; echo b > deps/b; echo c > c";
    rig.start(cached(cache(100), text));
    let completion = rig.next().await;
    let left: Vec<_> = completion.artifacts.iter().map(|file| (file.name.as_str(), file.cache_files)).collect();
    assert_eq!(left, [("deps/a", Some(2)), ("deps/b", Some(2))]);
    rig.start(cached(cache(100), &format!("{text}; exit 1")));
    assert!(rig.next().await.artifacts.is_empty(), "it has failed");
    for (limit, text, remark) in [(3, text, "cache: nothing is kept: with `deps/b`"), (100, "true", "no file matches")]
    {
        rig.start(cached(cache(limit), text));
        let completion = rig.next().await;
        assert!(matches!(completion.outcome, Outcome::Success { .. }), "{:?}", completion.outcome);
        assert!(completion.artifacts.is_empty());
        rig.until_line(remark).await;
    }
}
