//! Functions inside the worker's process.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Rig, assignment, eventually, function};
use mainspring_core::work::{Failure, LogStream, Order, Outcome};
use mainspring_worker::{CancelReason, FunctionCall, PoolConfig, Registry};
use serde_json::json;

fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register("greet", |call: FunctionCall| async move {
        call.log.info("hello\nworld").await;
        call.log.error("trouble").await;
        Ok(Some(json!({"key": call.key.to_string(), "attempt": call.attempt, "got": call.payload().clone()})))
    });
    registry.register("panic", |call: FunctionCall| async move {
        tokio::task::yield_now().await;
        if call.attempt > 0 {
            panic!("number {}", call.attempt);
        }
        Ok(None)
    });
    registry.register("panic:early", |call: FunctionCall| {
        assert!(call.attempt > 100, "too early");
        std::future::ready(Ok(None))
    });
    registry.register("deaf", |_: FunctionCall| std::future::pending());
    registry.register("tidy", |call: FunctionCall| async move {
        call.log.info("ready").await;
        call.cancel.cancelled().await;
        call.log.info("tidied").await;
        Ok(None)
    });
    registry
}

#[tokio::test]
async fn noop_gives_its_payload_back_before_assign_returns() {
    let mut rig = Rig::new();
    rig.start(function("noop", json!(null)));
    assert_eq!(rig.completions.try_recv().unwrap().outcome, Outcome::Success { output: None });
    rig.start(function("noop", json!({"a": [1]})));
    assert_eq!(rig.completions.try_recv().unwrap().outcome, Outcome::Success { output: Some(json!({"a": [1]})) });
    assert_eq!(rig.pool.running(), 0);
}

#[tokio::test]
async fn noops_are_cheap() {
    let mut rig = Rig::new();
    let given = assignment(function("noop", json!(null)));
    let begin = Instant::now();
    rig.pool.assign(vec![given; 100_000]);
    // A fraction of a second; what grows with the square of their number would take far longer than this.
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    for _ in 0..100_000 {
        rig.completions.try_recv().unwrap();
    }
}

#[tokio::test]
async fn handlers_see_their_call_and_write_logs() {
    let mut rig = Rig::with(PoolConfig::default(), registry());
    let given = rig.start(function("greet", json!({"x": 1})));
    let expected = json!({"key": given.key.to_string(), "attempt": 1, "got": {"x": 1}});
    assert_eq!(rig.next().await.outcome, Outcome::Success { output: Some(expected) });
    assert_eq!(rig.until_text(LogStream::Stdout, 2).await, ["hello", "world"]);
    assert_eq!(rig.until_text(LogStream::Stderr, 1).await, ["trouble"]);
}

#[tokio::test]
async fn the_log_of_a_handler_has_a_limit() {
    let mut registry = registry();
    registry.register("chatter", |call: FunctionCall| async move {
        for _ in 0..100 {
            call.log.info("0123456789").await;
        }
        Ok(None)
    });
    let mut rig = Rig::with(PoolConfig { log_limit: 105, ..PoolConfig::default() }, registry);
    assert_eq!(rig.run(function("chatter", json!(null))).await, Outcome::Success { output: None });
    rig.until_line("output truncated").await;
    assert_eq!(rig.lines().len(), 10);
}

#[tokio::test]
async fn an_unknown_handler_is_named_with_the_known_ones() {
    let mut rig = Rig::with(PoolConfig::default(), registry());
    let failure = rig.failure(function("nope", json!(null))).await;
    assert_eq!(
        failure.message,
        "this worker has no handler `nope`; did you mean `noop`? it has cleanup:old_traces, deaf, fail, greet, \
         health:check, kb:reindex, metrics:collect, noop, notify:send, panic, panic:early, sleep, tidy"
    );
    let failure = rig.failure(function("panic:earl", json!(null))).await;
    assert!(failure.message.contains("did you mean `panic:early` or `panic`?"), "{}", failure.message);
    assert_eq!((failure.kind.as_str(), failure.permanent), ("handler", true));
    let failure = rig.failure(function(&"x".repeat(10_000_000), json!(null))).await;
    assert!(failure.message.len() < 400, "{}", failure.message.len());
}

#[tokio::test]
async fn panics_fail_their_own_task_only() {
    let mut rig = Rig::with(PoolConfig::default(), registry());
    let failure = rig.failure(function("panic", json!(null))).await;
    assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("panic", "panicked: number 1"));
    let failure = rig.failure(function("panic:early", json!(null))).await;
    assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("panic", "panicked: too early"));
    assert_eq!(rig.run(function("noop", json!(null))).await, Outcome::Success { output: None });
    eventually("empty pool", || (rig.pool.running() == 0).then_some(())).await;
}

#[tokio::test]
async fn fail_fails_as_often_as_told() {
    let mut rig = Rig::new();
    let failure = rig.failure(function("fail", json!({"message": "no", "kind": "http", "permanent": true}))).await;
    let expected = Failure { kind: "http".into(), message: "no".into(), permanent: true, ..Failure::default() };
    assert_eq!(failure, expected);
    let mut given = assignment(function("fail", json!({"times": 2})));
    for (attempt, fails) in [(1, true), (2, true), (3, false)] {
        given.attempt = attempt;
        rig.pool.assign(vec![given.clone()]);
        assert_eq!(matches!(rig.next().await.outcome, Outcome::Failed(_)), fails);
    }
}

#[tokio::test]
async fn time_limits_hold_for_functions() {
    let mut rig = Rig::with(PoolConfig::default(), registry());
    for handler in ["sleep", "deaf"] {
        let order = Order { timeout_ms: Some(50), ..function(handler, json!({"for": "1h"})) };
        let failure = rig.failure(order).await;
        assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("timeout", "timed out after 50ms"));
    }
    assert_eq!(rig.run(function("sleep", json!({"ms": 20}))).await, Outcome::Success { output: None });
}

#[tokio::test]
async fn functions_can_be_cancelled_and_may_tidy_up() {
    let mut rig = Rig::with(PoolConfig::default(), registry());
    for handler in ["deaf", "tidy"] {
        let given = rig.start(function(handler, json!(null)));
        if handler == "tidy" {
            rig.until_line("ready").await;
        }
        rig.pool.cancel(given.key, 1, CancelReason::Requested("enough".into()));
        assert_eq!(rig.next().await.outcome, Outcome::Cancelled { reason: "enough".into() });
    }
    rig.until_line("tidied").await;
}

#[tokio::test]
async fn a_lost_function_is_dropped_in_silence() {
    struct Noticed(Arc<std::sync::atomic::AtomicBool>);
    impl Drop for Noticed {
        fn drop(&mut self) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut registry = registry();
    let seen = Arc::clone(&dropped);
    registry.register("held", move |_: FunctionCall| {
        let noticed = Noticed(Arc::clone(&seen));
        async move {
            std::future::pending::<()>().await;
            drop(noticed);
            Ok(None)
        }
    });
    let mut rig = Rig::with(PoolConfig { function_grace: common::DEADLINE, ..PoolConfig::default() }, registry);
    let given = rig.start(function("held", json!(null)));
    rig.pool.cancel(given.key, 1, CancelReason::Lost);
    eventually("drop", || dropped.load(std::sync::atomic::Ordering::SeqCst).then_some(())).await;
    eventually("empty pool", || (rig.pool.running() == 0).then_some(())).await;
    assert!(rig.completions.try_recv().is_err());
}
