//! However a script resists, it ends: timeout, cancellation, loss of the session, shutdown.

mod common;

use std::time::{Duration, Instant};

use common::{Rig, assignment, eventually, function, is_running, script, until_gone, until_pids};
use mainspring_core::work::{Assignment, LogStream, Order, Outcome};
use mainspring_core::workflow;
use mainspring_worker::{CancelReason, OnStoreLoss, PoolConfig, Registry};
use serde_json::json;

/// A shell with a child, a grandchild and a background process; all write their ids to the file.
const TREE: &str = r#"
echo $$ >> "$PIDS"
bash -c 'echo $$ >> "$PIDS"; sleep 1000 & echo $! >> "$PIDS"; wait' &
sleep 1000 &
echo $! >> "$PIDS"
wait
"#;

/// Ignores TERM, and says when it is ready to.
const STUBBORN: &str = r#"
trap 'echo ignored' TERM
echo $$ >> "$PIDS"
while true; do sleep 0.01 || true; done
"#;

fn writes_pids(rig: &Rig, text: &str) -> (Order, std::path::PathBuf) {
    let pids = rig.root.path().join("pids");
    let env = vec![("PIDS".to_owned(), pids.to_str().unwrap().to_owned())];
    (Order { env, ..script(text) }, pids)
}

fn quick(grace_ms: u64) -> PoolConfig {
    PoolConfig { grace: Duration::from_millis(grace_ms), ..PoolConfig::default() }
}

fn cancelled(reason: &str) -> Outcome {
    Outcome::Cancelled { reason: reason.into() }
}

#[tokio::test]
async fn cancelling_ends_the_whole_tree() {
    let mut rig = Rig::new();
    let (order, pids) = writes_pids(&rig, TREE);
    let given = rig.start(order);
    let pids = until_pids(&pids, 4).await;
    assert!(pids.iter().all(|pid| is_running(*pid)));
    rig.pool.cancel(given.key, 2, CancelReason::Requested("another attempt".into()));
    rig.pool.cancel(given.key, 1, CancelReason::Requested("enough".into()));
    assert_eq!(rig.next().await.outcome, cancelled("enough"));
    for pid in pids {
        until_gone(pid).await;
    }
    rig.until_line("cancelled: sending SIGTERM").await;
    rig.until_swept().await;
}

#[tokio::test]
async fn a_stubborn_script_is_killed_after_the_grace() {
    let mut rig = Rig::with(quick(3_000), Registry::default());
    let (order, pids) = writes_pids(&rig, STUBBORN);
    let given = rig.start(order);
    let pids = until_pids(&pids, 1).await;
    let begin = Instant::now();
    rig.pool.cancel(given.key, 1, CancelReason::Requested("enough".into()));
    assert_eq!(rig.next().await.outcome, cancelled("enough"));
    assert!(begin.elapsed() >= Duration::from_secs(3));
    until_gone(pids[0]).await;
    rig.until_line("ignored").await;
    assert_eq!(rig.until_line("sending SIGKILL").await.stream, LogStream::System);
}

#[tokio::test]
async fn a_script_may_tidy_up_within_the_grace() {
    let mut rig = Rig::new();
    let (order, pids) =
        writes_pids(&rig, "trap 'echo tidied; exit 0' TERM; echo $$ >> $PIDS; while :; do sleep 0.01 || true; done");
    let given = rig.start(order);
    until_pids(&pids, 1).await;
    rig.pool.cancel(given.key, 1, CancelReason::Requested("enough".into()));
    assert_eq!(rig.next().await.outcome, cancelled("enough"));
    rig.until_line("tidied").await;
}

#[tokio::test]
async fn children_have_the_same_grace_as_the_script() {
    let mut rig = Rig::new();
    let done = rig.root.path().join("done");
    let child = format!(
        "trap 'sleep 0.3; echo x > {}; exit' TERM; echo $$ >> $PIDS; while :; do sleep 0.01 || true; done",
        done.display()
    );
    // The script dies of TERM at once; its child, which holds no pipe, still has something to do.
    let (order, pids) =
        writes_pids(&rig, &format!("bash -c '{}' >/dev/null 2>&1 & wait", child.replace('\'', "'\\''")));
    let given = rig.start(order);
    let pids = until_pids(&pids, 1).await;
    rig.pool.cancel(given.key, 1, CancelReason::Requested("enough".into()));
    assert_eq!(rig.next().await.outcome, cancelled("enough"));
    assert!(done.exists(), "the child was killed before its grace was over");
    until_gone(pids[0]).await;
}

#[tokio::test]
async fn a_timeout_ends_the_whole_tree() {
    let mut rig = Rig::with(quick(10_000), Registry::default());
    let (order, pids) = writes_pids(&rig, TREE);
    let failure = rig.failure(Order { timeout_ms: Some(6_000), ..order }).await;
    assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("timeout", "timed out after 6s"));
    for pid in until_pids(&pids, 4).await {
        until_gone(pid).await;
    }
}

#[tokio::test]
async fn a_timeout_ends_even_a_stubborn_script() {
    let mut rig = Rig::with(quick(3_000), Registry::default());
    let (order, pids) = writes_pids(&rig, STUBBORN);
    let failure = rig.failure(Order { timeout_ms: Some(6_000), ..order }).await;
    assert_eq!(failure.kind, "timeout");
    assert!(failure.detail.unwrap().contains("ignored"));
    until_gone(until_pids(&pids, 1).await[0]).await;
}

#[tokio::test]
async fn a_background_process_does_not_keep_a_task_open() {
    let mut rig =
        Rig::with(PoolConfig { drain: Duration::from_millis(200), ..PoolConfig::default() }, Registry::default());
    let (order, pids) = writes_pids(&rig, "sleep 1000 & echo $! >> $PIDS; echo started");
    assert_eq!(rig.run(order).await, Outcome::Success { output: None });
    until_gone(until_pids(&pids, 1).await[0]).await;
    rig.until_line("processes left in the background").await;
    rig.until_line("started").await;
}

#[tokio::test]
async fn a_silent_background_process_ends_with_its_task() {
    let mut rig = Rig::new();
    let (order, pids) = writes_pids(&rig, "sleep 1000 >/dev/null 2>&1 & echo $! >> $PIDS");
    assert_eq!(rig.run(order).await, Outcome::Success { output: None });
    until_gone(until_pids(&pids, 1).await[0]).await;
}

#[tokio::test]
async fn a_lost_session_kills_at_once_and_reports_nothing() {
    let mut rig = Rig::new();
    let (order, pids) = writes_pids(&rig, STUBBORN);
    rig.start(order);
    rig.start(function("sleep", json!({"for": "1h"})));
    let pids = until_pids(&pids, 1).await;
    assert_eq!(rig.pool.holding().len(), 2);
    rig.pool.session_lost(7);
    until_gone(pids[0]).await;
    eventually("empty pool", || (rig.pool.running() == 0).then_some(())).await;
    assert!(rig.completions.try_recv().is_err());
}

#[tokio::test]
async fn what_comes_late_for_a_lost_session_is_not_begun() {
    let mut rig = Rig::new();
    let (order, pids) = writes_pids(&rig, "echo $$ >> $PIDS; sleep 1000");
    rig.pool.session_lost(7);
    rig.start(order);
    rig.start(function("sleep", json!({"for": "1h"})));
    assert_eq!(rig.pool.running(), 0);
    let of_the_next = Assignment { session: 8, ..assignment(script("true")) };
    rig.pool.assign(vec![of_the_next]);
    let ended = rig.next().await;
    assert_eq!((ended.session, ended.outcome), (8, Outcome::Success { output: None }), "the pool itself lives on");
    assert!(!pids.exists(), "nothing of the lost session was begun before");
}

#[tokio::test]
async fn a_lost_attempt_dies_even_while_it_is_being_cancelled() {
    let mut rig = Rig::new();
    let (order, pids) = writes_pids(&rig, STUBBORN);
    let given = rig.start(order);
    let pids = until_pids(&pids, 1).await;
    rig.pool.cancel(given.key, 1, CancelReason::Requested("enough".into()));
    rig.until_line("ignored").await;
    rig.pool.cancel(given.key, 1, CancelReason::Lost);
    until_gone(pids[0]).await;
    eventually("empty pool", || (rig.pool.running() == 0).then_some(())).await;
    assert!(rig.completions.try_recv().is_err());
}

#[tokio::test]
async fn shutdown_waits_and_then_hands_back() {
    let mut rig = Rig::with(quick(100), Registry::default());
    let (order, pids) = writes_pids(&rig, STUBBORN);
    let stubborn = rig.start(order);
    let waiting = rig.start(function("sleep", json!({"for": "1h"})));
    let pids = until_pids(&pids, 1).await;
    let short = rig.start(script("sleep 0.05"));
    let pool = rig.pool.clone();
    // Long enough for the short one on a loaded machine.
    let patience = Duration::from_secs(8);
    tokio::join!(pool.shutdown(patience), rig.pool.shutdown(patience));
    assert!(!is_running(pids[0]));
    let mut outcomes = Vec::new();
    while let Ok(completion) = rig.completions.try_recv() {
        outcomes.push((completion.key, completion.outcome));
    }
    outcomes.sort_by_key(|(key, _)| key.index);
    let expected = [
        (stubborn.key, Outcome::Released),
        (waiting.key, Outcome::Released),
        (short.key, Outcome::Success { output: None }),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(rig.run(script("true")).await, Outcome::Released, "what comes too late is handed back");
    rig.pool.shutdown(Duration::ZERO).await;
    assert_eq!(std::fs::read_dir(rig.root.path()).unwrap().count(), 1, "only the file with the ids is left");
}

#[tokio::test]
async fn a_stuck_log_stops_neither_timeout_nor_cancellation() {
    let (mut rig, _logs) = Rig::without_log(quick(500), Registry::default(), 1);
    let failure = rig.failure(Order { timeout_ms: Some(300), ..script("yes") }).await;
    assert_eq!(failure.kind, "timeout");
    let given = rig.start(script("yes"));
    rig.pool.cancel(given.key, 1, CancelReason::Requested("enough".into()));
    assert_eq!(rig.next().await.outcome, cancelled("enough"));
    // One that has ended and only waits for its log is not forgotten either.
    let given = rig.start(script("seq 1000"));
    rig.pool.cancel(given.key, 1, CancelReason::Lost);
    eventually("empty pool", || (rig.pool.running() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_silent_store_ends_everything() {
    let config =
        PoolConfig { on_store_loss: OnStoreLoss::Kill, lease_ttl: Duration::from_secs(5), ..PoolConfig::default() };
    let mut rig = Rig::with(config, Registry::default());
    let (order, pids) = writes_pids(&rig, STUBBORN);
    rig.start(order);
    let pids = until_pids(&pids, 1).await;
    assert_eq!(rig.next().await.outcome, Outcome::Released);
    until_gone(pids[0]).await;
}

#[tokio::test]
async fn what_a_task_says_about_a_silent_store_wins() {
    for own in [OnStoreLoss::Kill, OnStoreLoss::default()] {
        let config = PoolConfig { on_store_loss: own, lease_ttl: Duration::from_millis(400), ..PoolConfig::default() };
        let mut rig = Rig::with(config, Registry::default());
        let (order, goes_on) = writes_pids(&rig, STUBBORN);
        let goes_on_key = rig.start(Order { on_store_loss: Some(workflow::OnStoreLoss::Continue), ..order }).key;
        let goes_on = until_pids(&goes_on, 1).await;
        let killed = rig.start(Order { on_store_loss: Some(workflow::OnStoreLoss::Kill), ..script("sleep 1000") }).key;
        let ended = rig.next().await;
        assert_eq!((ended.key, ended.outcome), (killed, Outcome::Released), "{own:?}");
        assert_eq!(rig.pool.holding(), [(goes_on_key, 1)], "{own:?}");
        assert!(is_running(goes_on[0]), "{own:?}");
        rig.pool.session_lost(7);
        until_gone(goes_on[0]).await;
    }
}
