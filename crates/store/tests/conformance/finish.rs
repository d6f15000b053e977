//! Handing in results: what counts, what is refused, what is acknowledged again, what is tried again.

use mainspring_core::state::TaskState;
use mainspring_store::{ContinuedAs, Exchange, TaskToken};

use crate::conformance;
use crate::world::{SECOND, World};

const TWO: &str = "{name: w, tasks: {a: {run: x, retry: {attempts: 2}}, b: {needs: a, run: x}}}";

async fn hand_in(w: &mut World, token: TaskToken, state: TaskState) -> mainspring_store::Reply {
    let exchange = Exchange { ended: vec![w.ended(token, state)], ..w.empty_exchange() };
    w.exchange(&exchange).await
}

async fn dead_letters(w: &World) -> Vec<(i32, i16, i32)> {
    use sqlx::Connection;
    let sql = "SELECT idx, reason, total_attempts FROM dead_letters ORDER BY created_at, idx";
    if w.db.url().starts_with("postgres") {
        let mut connection = sqlx::PgConnection::connect(w.db.url()).await.unwrap();
        sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap()
    } else {
        let mut connection = sqlx::SqliteConnection::connect(w.db.url()).await.unwrap();
        sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap()
    }
}

async fn letter_ids(w: &World) -> Vec<uuid::Uuid> {
    use sqlx::Connection;
    let sql = "SELECT id FROM dead_letters";
    let rows: Vec<(uuid::Uuid,)> = if w.db.url().starts_with("postgres") {
        let mut connection = sqlx::PgConnection::connect(w.db.url()).await.unwrap();
        sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap()
    } else {
        let mut connection = sqlx::SqliteConnection::connect(w.db.url()).await.unwrap();
        sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap()
    };
    rows.into_iter().map(|row| row.0).collect()
}

conformance! {
    async fn a_result_moves_the_row_to_history(w: &mut World) {
        w.submit(TWO).await;
        w.claim(1).await;
        let mut ended = w.ended(w.token("a"), TaskState::Success);
        ended.output = Some(r#"{"rows":3}"#.into());
        ended.started_at = Some(w.now - 5);
        let exchange = Exchange { ended: vec![ended.clone()], ..w.empty_exchange() };
        assert!(w.exchange(&exchange).await.fenced.is_empty());
        let row = &w.store.ended_tasks(w.run, &[0]).await.unwrap()[0];
        assert_eq!(row.output, Some(serde_json::json!({"rows": 3})));
        assert_eq!((row.state, row.attempt, row.started_at), (TaskState::Success, 1, ended.started_at));
        assert_eq!((row.finished_at, row.session, row.seq), (Some(ended.finished_at), Some(w.session), Some(1)));
        w.expect("running a=success b=ready").await;
    }

    async fn a_failure_is_kept_with_what_it_said(w: &mut World) {
        w.submit(TWO).await;
        w.claim(1).await;
        w.fail("a").await;
        let row = &w.store.ended_tasks(w.run, &[]).await.unwrap()[0];
        assert_eq!((row.exit_code, row.error_kind.as_deref(), row.error.as_deref()), (Some(1), Some("exit"), Some("exit code 1")));
        w.expect("failed a=failed b=upstream_failed").await;
    }

    async fn the_same_result_again_is_acknowledged(w: &mut World) {
        w.submit(TWO).await;
        w.claim(1).await;
        let token = w.token("a");
        w.succeed("a").await;
        assert!(hand_in(w, token, TaskState::Success).await.fenced.is_empty());
        // Also in one batch with itself.
        w.claim(1).await;
        let ended = w.ended(w.token("b"), TaskState::Success);
        let exchange = Exchange { ended: vec![ended.clone(), ended], ..w.empty_exchange() };
        assert!(w.exchange(&exchange).await.fenced.is_empty());
        w.expect("success a=success b=success").await;
    }

    async fn another_token_is_refused(w: &mut World) {
        w.submit(TWO).await;
        w.claim(1).await;
        let token = w.token("a");
        let other = w.open_session().await;
        for wrong in [
            TaskToken { session: other, ..token },
            TaskToken { attempt: 2, ..token },
            TaskToken { attempt: 0, ..token },
            TaskToken { key: w.key("b"), ..token },
        ] {
            let mut exchange = Exchange { ended: vec![w.ended(wrong, TaskState::Success)], ..w.empty_exchange() };
            exchange.sessions = vec![w.session, other];
            let reply = w.lane.exchange(&exchange).await.unwrap();
            assert_eq!(reply.fenced, [wrong]);
            let continued = vec![w.continued(wrong, ContinuedAs::Released)];
            let reply = w.lane.exchange(&Exchange { ended: Vec::new(), continued, ..exchange }).await.unwrap();
            assert_eq!(reply.fenced, [wrong]);
        }
        w.expect("running a=running b=pending").await;
        assert!(hand_in(w, token, TaskState::Success).await.fenced.is_empty());
    }

    async fn a_refused_result_does_not_hold_up_the_others(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}}}").await;
        w.claim(2).await;
        let stale = TaskToken { attempt: 7, ..w.token("a") };
        let ended = vec![w.ended(stale, TaskState::Success), w.ended(w.token("b"), TaskState::Success)];
        let exchange = Exchange { ended, ..w.empty_exchange() };
        assert_eq!(w.lane.exchange(&exchange).await.unwrap().fenced, [stale]);
        w.expect("running a=running b=success").await;
    }

    async fn a_retry_waits_until_it_is_due_and_counts_its_attempts(w: &mut World) {
        w.submit(TWO).await;
        w.claim(1).await;
        let first = w.token("a");
        w.retry("a").await;
        w.expect("running a=retrying b=pending").await;
        assert!(w.claim(1).await.is_empty(), "not due yet");
        // The same failure again was applied already; what does not fit the row is refused.
        let repeated = Exchange { continued: vec![w.continued(first, ContinuedAs::Retry { due_at: 0 })], ..w.empty_exchange() };
        assert!(w.exchange(&repeated).await.fenced.is_empty());
        assert_eq!(hand_in(w, first, TaskState::Success).await.fenced, [first]);
        w.pass(SECOND);
        assert_eq!(w.store.promote_due(w.now, 10).await.unwrap(), 1);
        w.claim(1).await;
        assert_eq!(w.token("a").attempt, 2);
        assert_eq!(w.held[&w.key("a")].failures, 1);
        assert_eq!(hand_in(w, first, TaskState::Success).await.fenced, [first]);
        w.claim(1).await;
        let attempts = w.store.attempts(w.key("a")).await.unwrap();
        assert_eq!(attempts.iter().map(|attempt| (attempt.attempt, attempt.outcome)).collect::<Vec<_>>(), [(1, 0)]);
        assert_eq!(attempts[0].error_kind.as_deref(), Some("exit"));
    }

    async fn exhaustion_makes_exactly_one_dead_letter(w: &mut World) {
        w.submit(TWO).await;
        w.claim(1).await;
        w.retry("a").await;
        assert!(dead_letters(w).await.is_empty());
        w.pass(SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        w.claim(1).await;
        let token = w.token("a");
        w.retry("a").await;
        w.expect("failed a=failed b=upstream_failed").await;
        assert_eq!(dead_letters(w).await, [(0, 1, 2)]);
        let id = letter_ids(w).await[0];
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        let (seconds, _) = id.get_timestamp().unwrap().to_unix();
        assert!((w.now / SECOND - seconds as i64).abs() < 60, "its id says when it was made");
        let again = Exchange { continued: vec![w.continued(token, ContinuedAs::Retry { due_at: 0 })], ..w.empty_exchange() };
        assert!(w.exchange(&again).await.fenced.is_empty());
        assert_eq!(dead_letters(w).await.len(), 1);
        let row = &w.store.ended_tasks(w.run, &[0]).await.unwrap()[0];
        assert_eq!((row.attempt, row.failures), (2, 2));
    }

    async fn without_a_dead_letter_queue_exhaustion_leaves_no_entry(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, on_exhausted: fail}, b: {run: x, on_exhausted: continue}, c: {needs: b, run: x}}}").await;
        w.play(&["a", "b"], &[]).await;
        w.expect("failed a=failed b=failed c=success").await;
        assert!(dead_letters(w).await.is_empty());
    }

    async fn a_failure_that_continues_is_a_success_for_others(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, on_exhausted: continue}, b: {needs: a, run: x}}}").await;
        w.play(&["a"], &[]).await;
        w.expect("success a=failed b=success").await;
    }

    async fn a_released_attempt_costs_nothing(w: &mut World) {
        w.submit(TWO).await;
        for attempt in 1..=4 {
            assert_eq!(w.claim(1).await, ["a"]);
            assert_eq!(w.token("a").attempt, attempt);
            w.release("a").await;
            w.expect("running a=ready b=pending").await;
        }
        w.claim(1).await;
        assert_eq!(w.held[&w.key("a")].failures, 0);
        assert_eq!(w.store.attempts(w.key("a")).await.unwrap().len(), 4);
    }

    async fn one_batch_may_hold_every_kind_of_result(w: &mut World) {
        w.submit("{name: w, defaults: {retry: {}}, tasks: {a: {run: x}, b: {run: x}, c: {run: x}, d: {run: x}, e: {needs: [a, b, c, d], run: x, trigger_rule: all_done}}}").await;
        w.claim(4).await;
        let ended = vec![w.ended(w.token("d"), TaskState::Failed), w.ended(w.token("a"), TaskState::Success)];
        let due_at = w.now;
        let continued = vec![w.continued(w.token("c"), ContinuedAs::Released), w.continued(w.token("b"), ContinuedAs::Retry { due_at })];
        let exchange = Exchange { ended, continued, ..w.empty_exchange() };
        assert!(w.exchange(&exchange).await.fenced.is_empty());
        w.expect("running a=success b=retrying c=ready d=failed e=pending").await;
        w.store.promote_due(w.now, 10).await.unwrap();
        w.play(&[], &[]).await;
        w.expect("failed a=success b=success c=success d=failed e=success").await;
    }

    async fn event_numbers_have_no_gap(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, run: x}, d: {run: x}}}").await;
        w.claim(2).await;
        w.release("a").await;
        w.claim(2).await;
        w.fail("a").await;
        w.pause().await;
        w.resume().await;
        w.succeed("d").await;
        w.expect("failed a=failed b=upstream_failed c=upstream_failed d=success").await;
        let mut numbers: Vec<i64> = w.store.ended_tasks(w.run, &[]).await.unwrap().iter().filter_map(|row| row.seq).collect();
        numbers.extend(w.store.attempts(w.key("a")).await.unwrap().iter().map(|row| row.seq));
        numbers.sort_unstable();
        // 1 the release, 2 to 4 the failure and what followed, 5 and 6 pause and resume, 7 the success, 8 the run's end.
        assert_eq!(numbers, [1, 2, 3, 4, 7]);
        assert_eq!(w.store.run_summary(w.run).await.unwrap().seq, 8);
    }
}
