//! Worker sessions: beats, the mark of death, the return of rows, and what losing a worker costs.

use mainspring_core::state::TaskState;
use mainspring_store::Exchange;

use crate::conformance;
use crate::world::{SECOND, World, execute, open_session};

const ONE: &str = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}}";

conformance! {
    async fn renewal_beats_for_all_live_sessions_of_a_node(w: &mut World) {
        let second = w.open_session().await;
        let elsewhere = open_session(&w.store, w.now, uuid::Uuid::from_u128(2)).await;
        let mut renewed = w.store.renew_sessions(w.now + 5, w.node).await.unwrap();
        renewed.sort_unstable();
        assert_eq!(renewed, [w.session, second]);
        let rows = w.store.live_sessions().await.unwrap();
        let beats: Vec<(i64, i64)> = rows.iter().map(|row| (row.id, row.beat)).collect();
        assert_eq!(beats, [(w.session, 1), (second, 1), (elsewhere, 0)]);
        assert_eq!(rows[0].beat_at, w.now + 5);
        w.reap(second).await;
        assert_eq!(w.store.renew_sessions(w.now, w.node).await.unwrap(), [w.session], "the dead do not revive");
    }

    async fn only_a_beat_that_stood_still_is_marked(w: &mut World) {
        w.submit(ONE).await;
        w.claim(1).await;
        let term = w.lead().await;
        w.store.renew_sessions(w.now, w.node).await.unwrap();
        assert_eq!(w.store.reap_session(w.now, w.session, 0, &term).await.unwrap(), 0);
        assert_eq!(w.store.live_sessions().await.unwrap().len(), 1);
        w.expect("running a=running b=pending").await;
        assert_eq!(w.store.reap_session(w.now, w.session, 1, &term).await.unwrap(), 1);
        assert!(w.store.live_sessions().await.unwrap().is_empty());
        w.expect("running a=ready b=pending").await;
        assert_eq!(w.store.reap_session(w.now, w.session, 1, &term).await.unwrap(), 0, "once");
    }

    async fn nothing_of_a_dead_session_is_applied(w: &mut World) {
        w.submit(ONE).await;
        w.claim(1).await;
        let late = w.ended(w.token("a"), TaskState::Success);
        let dead = w.session;
        w.lose_session().await;
        let exchange = Exchange {
            now: w.now,
            sessions: vec![dead, w.session],
            ended: vec![late.clone()],
            want: w.wants(5).await,
            ..Exchange::default()
        };
        let reply = w.lane.exchange(&exchange).await.unwrap();
        assert_eq!(reply.dead_sessions, [dead]);
        assert!(reply.claimed.is_empty());
        w.expect("running a=ready b=pending").await;
        // Handed in by another session it is refused as well.
        let reply = w.exchange(&Exchange { ended: vec![late.clone()], ..w.empty_exchange() }).await;
        assert_eq!(reply.fenced, [late.token]);
        w.play(&[], &[]).await;
        assert_eq!(w.store.ended_tasks(w.run, &[0]).await.unwrap()[0].attempt, 2);
    }

    async fn an_unknown_session_is_a_dead_one(w: &mut World) {
        let exchange = Exchange { sessions: vec![w.session, 999], ..w.empty_exchange() };
        assert_eq!(w.lane.exchange(&exchange).await.unwrap().dead_sessions, [999]);
    }

    async fn a_lost_attempt_is_recorded_and_costs_no_failure(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, retry: {attempts: 1}}}}").await;
        w.claim(1).await;
        let lost = w.session;
        w.lose_session().await;
        let attempts = w.store.attempts(w.key("a")).await.unwrap();
        assert_eq!((attempts[0].attempt, attempts[0].outcome, attempts[0].session), (1, 1, Some(lost)));
        w.claim(1).await;
        assert_eq!((w.token("a").attempt, w.held[&w.key("a")].failures), (2, 0));
        w.succeed("a").await;
        let row = &w.store.ended_tasks(w.run, &[]).await.unwrap()[0];
        assert_eq!((row.lost, row.failures), (1, 0));
    }

    async fn too_many_lost_workers_make_a_poison_pill(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, max_lost: 2}, b: {needs: a, run: x}}}").await;
        for _ in 0..2 {
            w.claim(1).await;
            w.lose_session().await;
            w.expect("running a=ready b=pending").await;
        }
        w.claim(1).await;
        w.lose_session().await;
        w.expect("failed a=failed b=upstream_failed").await;
        let row = &w.store.ended_tasks(w.run, &[0]).await.unwrap()[0];
        assert_eq!((row.error_kind.as_deref(), row.lost, row.attempt), (Some("poison_pill"), 3, 3));
    }

    async fn more_than_max_lost_workers_make_a_poison_pill(w: &mut World) {
        for (says, bears) in [(", max_lost: 0", 0), (", max_lost: 1", 1), ("", 5)] {
            w.submit(&format!("{{name: w, tasks: {{a: {{run: x{says}}}}}}}")).await;
            for lost in 0..bears {
                w.claim(1).await;
                w.lose_session().await;
                w.expect("running a=ready").await;
                assert_eq!(w.store.attempts(w.key("a")).await.unwrap().len(), lost + 1);
            }
            w.claim(1).await;
            w.lose_session().await;
            w.expect("failed a=failed").await;
            let row = &w.store.ended_tasks(w.run, &[0]).await.unwrap()[0];
            assert_eq!((row.error_kind.as_deref(), row.lost as usize), (Some("poison_pill"), bears + 1), "{says}");
        }
    }

    async fn what_is_not_retryable_fails_with_its_worker(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, retry: {retryable: false}}, b: {needs: a, run: x, trigger_rule: all_done}}}").await;
        w.claim(1).await;
        w.lose_session().await;
        w.expect("running a=failed b=ready").await;
        let row = &w.store.ended_tasks(w.run, &[0]).await.unwrap()[0];
        assert_eq!(row.error_kind.as_deref(), Some("worker_unavailable"));
        w.play(&[], &[]).await;
    }

    async fn a_session_that_ends_gives_back_what_it_still_holds(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}, c: {run: x, if: 'true'}}}").await;
        w.claim(1).await;
        w.take_decisions().await;
        let ended = std::mem::replace(&mut w.session, w.store.open_session(w.now, &other_node()).await.unwrap());
        assert_eq!(w.store.end_session(w.now, ended).await.unwrap(), 2);
        w.held.clear();
        w.deciding.clear();
        w.expect("running a=ready b=ready c=deciding").await;
        assert_eq!(w.store.end_session(w.now, ended).await.unwrap(), 0);
        w.play(&[], &[]).await;
    }

    async fn a_dead_session_with_very_many_rows_returns_all_of_them(w: &mut World) {
        let tasks: Vec<String> = (0..1_203).map(|at| format!("t{at}: {{function: noop}}")).collect();
        w.submit(&format!("{{name: w, tasks: {{{}}}}}", tasks.join(", "))).await;
        assert_eq!(w.claim(5_000).await.len(), 1_203);
        assert_eq!(w.lose_session().await, 1_203);
        assert_eq!(w.claim(5_000).await.len(), 1_203);
    }

    async fn the_sweep_finds_nothing_while_everybody_lives(w: &mut World) {
        w.submit(ONE).await;
        w.claim(1).await;
        let term = w.lead().await;
        assert_eq!(w.store.sweep_claims(w.now, &term).await.unwrap(), 0);
        w.expect("running a=running b=pending").await;
    }

    async fn the_sweep_returns_what_a_crash_between_mark_and_return_left(w: &mut World) {
        w.submit(ONE).await;
        w.claim(1).await;
        execute(&w.db, &format!("UPDATE sessions SET dead = TRUE WHERE id = {}", w.session)).await;
        w.session = w.open_session().await;
        let old = w.lead().await;
        let term = w.lead().await;
        assert_eq!(w.store.sweep_claims(w.now, &old).await.unwrap(), 0, "a leader of old sweeps nothing");
        assert_eq!(w.store.sweep_claims(w.now, &term).await.unwrap(), 1);
        w.held.clear();
        w.expect("running a=ready b=pending").await;
        w.play(&[], &[]).await;
    }

    async fn a_claim_that_cannot_be_returned_keeps_no_other_from_it(w: &mut World) {
        for name in ["broken", "sound"] {
            w.submit(&format!("{{name: {name}, tasks: {{a: {{run: x}}}}}}")).await;
            w.claim(1).await;
        }
        execute(&w.db, "UPDATE sessions SET dead = TRUE").await;
        execute(&w.db, "DELETE FROM runs WHERE id = (SELECT id FROM runs ORDER BY id LIMIT 1)").await;
        w.session = w.open_session().await;
        let term = w.lead().await;
        assert_eq!(w.store.sweep_claims(w.now, &term).await.unwrap(), 1);
        w.held.clear();
        execute(&w.db, "DELETE FROM task_runs WHERE run_id NOT IN (SELECT id FROM runs)").await;
        w.expect("running a=ready").await;
        w.play(&[], &[]).await;
    }

    async fn sessions_that_no_run_names_are_forgotten(w: &mut World) {
        w.submit(ONE).await;
        w.claim(1).await;
        w.lose_session().await;
        let idle = w.open_session().await;
        w.reap(idle).await;
        w.pass(10 * SECOND);
        let (now, margin) = (w.now, SECOND);
        assert_eq!(w.store.forget_sessions(now, margin).await.unwrap(), 0, "an attempt of this run names one");
        w.play(&[], &[]).await;
        w.pass(10 * SECOND);
        w.store.purge_runs(w.now, None).await.unwrap();
        assert_eq!(w.store.forget_sessions(now - 60 * SECOND, margin).await.unwrap(), 0, "not old enough");
        assert_eq!(w.store.forget_sessions(now, margin).await.unwrap(), 2);
        assert_eq!(w.store.sessions(true, 10).await.unwrap().len(), 1);
        w.submit(ONE).await;
        w.play(&[], &[]).await;
    }

    async fn a_new_server_on_a_file_buries_the_sessions_of_the_old_one(w: &mut World) {
        w.submit(ONE).await;
        w.claim(1).await;
        w.held.clear();
        let own = uuid::Uuid::from_u128(7);
        w.session = open_session(&w.store, w.now, own).await;
        assert_eq!(w.store.bury_local_sessions(w.now, own).await.unwrap(), 1);
        assert_eq!(w.store.live_sessions().await.unwrap().len(), 1);
        w.play(&[], &[]).await;
    }

    async fn a_draining_session_says_so(w: &mut World) {
        w.store.drain_session(w.session).await.unwrap();
        assert!(w.store.live_sessions().await.unwrap()[0].draining);
    }
}

fn other_node() -> mainspring_store::NewSession {
    mainspring_store::NewSession {
        node: uuid::Uuid::from_u128(3),
        worker: "w".into(),
        hostname: "h".into(),
        queues: String::new(),
        labels: String::new(),
        slots: 1,
        function_slots: 0,
        remote: false,
        version: String::new(),
    }
}
