//! A real server whose clock is set by an hour and by a day, forward and back: nothing fires twice, and firing goes on.
//!
//! The clock is that of libfaketime (the Debian package `faketime`): what it shows is read from a file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mainspring_core::Micros;
use mainspring_store::{Flavor, Store};
use mainspring_testkit::server::{ServerPlan, ServerProcess};
use mainspring_testkit::wait::until;
use mainspring_testkit::{TestDatabase, invariants};

use crate::scene::{DAY, HOUR, SECOND, stranger_of};

const PATIENCE: Duration = Duration::from_secs(90);

fn library() -> PathBuf {
    let folders = [
        "/usr/lib/x86_64-linux-gnu/faketime",
        "/usr/lib/aarch64-linux-gnu/faketime",
        "/usr/lib64/faketime",
        "/usr/lib/faketime",
    ];
    let found = folders.iter().map(|folder| Path::new(folder).join("libfaketime.so.1")).find(|path| path.exists());
    found.unwrap_or_else(|| {
        panic!("libfaketime is not installed: run `scripts/install-packages faketime`, as scripts/test does")
    })
}

struct Watch {
    file: PathBuf,
    offset: Micros,
}

impl Watch {
    fn set(&mut self, by: Micros) {
        self.offset += by;
        // Replaced as a whole: the server may read at any moment.
        let fresh = self.file.with_extension("new");
        std::fs::write(&fresh, format!("{:+}\n", self.offset / SECOND)).unwrap();
        std::fs::rename(&fresh, &self.file).unwrap();
    }
}

/// Up to where every trigger is settled.
async fn covered(store: &Store) -> Micros {
    store.settled_schedules().await.unwrap().unwrap_or(Micros::MIN)
}

async fn comes_past(store: &Store, instant: Micros, server: &mut ServerProcess) -> Micros {
    until("every trigger comes past an instant", PATIENCE, async || {
        assert_eq!(server.ended().unwrap(), None, "{}", server.last_lines(20));
        Ok(Some(covered(store).await).filter(|covered| *covered > instant))
    })
    .await
    .unwrap_or_else(|error| panic!("{error}\n{}", server.last_lines(20)))
}

async fn says(server: &ServerProcess, words: &str, times: usize) {
    until(words, PATIENCE, async || Ok((server.last_lines(10_000).matches(words).count() >= times).then_some(())))
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", server.last_lines(20)));
}

async fn check(flavor: Flavor) {
    let database = TestDatabase::new(flavor).await;
    let folder = tempfile::tempdir().unwrap();
    let mut watch = Watch { file: folder.path().join("clock"), offset: 0 };
    watch.set(0);
    let client = stranger_of(database.url()).await;
    let yaml = "{name: w, triggers: [{id: a, every: 1s}, {id: b, cron: '* * * * * *'}, {id: c, every: 2s, catchup: all}], \
                tasks: {t: {function: noop, queue: nobody}}}";
    client.put_workflow(mainspring_core::parse(yaml).unwrap(), yaml).await.unwrap();
    let store = client.store();
    let plan = ServerPlan::new(database.url(), folder.path())
        .set("LD_PRELOAD", library().display().to_string())
        .set("FAKETIME_TIMESTAMP_FILE", watch.file.display().to_string())
        .set("FAKETIME_NO_CACHE", "1")
        .set("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .set("MAINSPRING_WORKER_QUEUES", "somebody");
    let mut server = plan.start().unwrap();
    let mut reached = comes_past(store, covered(store).await, &mut server).await;
    for (round, jump) in [HOUR, DAY].into_iter().enumerate() {
        watch.set(jump);
        reached = comes_past(store, reached + jump - 5 * SECOND, &mut server).await;
        watch.set(-jump);
        says(&server, "the clock was set back", round + 1).await;
        let waiting = covered(store).await;
        // Time that goes on is followed: when the clock has caught up, firing goes on.
        watch.set(jump);
        reached = comes_past(store, waiting.max(reached), &mut server).await;
        says(&server, "the clock has caught up", round + 1).await;
    }
    // A server that starts behind says so too.
    watch.set(-HOUR);
    server.stop(PATIENCE).await.unwrap();
    let mut server = plan.start().unwrap();
    says(&server, "the clock was set back", 4).await;
    watch.set(HOUR);
    comes_past(store, reached, &mut server).await;
    server.stop(PATIENCE).await.unwrap();
    assert_eq!(invariants::check(database.url()).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_on_postgres() {
    check(Flavor::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_on_sqlite() {
    check(Flavor::Sqlite).await;
}
