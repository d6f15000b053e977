//! Rows and runs that time moves: retries that become due, runs whose deadline passes.

use mainspring_core::state::{RunState, TaskState};
use mainspring_store::{Created, Duties, NewRun, Reopen, RunFilter};

use crate::conformance;
use crate::world::{MILLI, SECOND, World, operator};

conformance! {
    async fn only_what_is_due_is_promoted(w: &mut World) {
        w.submit("{name: w, defaults: {retry: {}}, tasks: {a: {run: x}, b: {run: x}}}").await;
        w.claim(2).await;
        assert_eq!(w.store.next_due().await.unwrap(), None);
        let first = w.now + SECOND;
        w.retry("a").await;
        w.pass(SECOND);
        w.retry("b").await;
        assert_eq!(w.store.next_due().await.unwrap(), Some(first));
        assert_eq!(w.store.promote_due(first - 1, 10).await.unwrap(), 0);
        assert_eq!(w.store.promote_due(first, 10).await.unwrap(), 1);
        w.expect("running a=ready b=retrying").await;
        assert_eq!(w.store.promote_due(first + 2 * SECOND, 10).await.unwrap(), 1);
        assert_eq!(w.store.next_due().await.unwrap(), None);
        w.expect("running a=ready b=ready").await;
    }

    async fn a_promoted_row_queues_behind_those_that_wait(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, retry: {}}}}").await;
        w.claim(1).await;
        w.retry("a").await;
        w.submit("{name: other, tasks: {z: {run: x}}}").await;
        w.pass(SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        assert_eq!(w.claim_in_order().await, ["z", "w.a"]);
    }

    async fn promotion_respects_its_bound(w: &mut World) {
        for _ in 0..3 {
            w.submit("{name: w, tasks: {a: {run: x, retry: {}}}}").await;
            w.claim(1).await;
            w.retry("a").await;
        }
        w.pass(SECOND);
        assert_eq!(w.store.promote_due(w.now, 2).await.unwrap(), 2);
        assert_eq!(w.store.promote_due(w.now, 2).await.unwrap(), 1);
    }

    async fn a_promoted_row_goes_through_the_gate_of_its_pool(w: &mut World) {
        w.store.set_pool(w.now, "default", "p", Some(1)).await.unwrap();
        w.submit("{name: w, defaults: {retry: {}}, tasks: {a: {run: x, pool: p}, b: {run: x, pool: p}}}").await;
        w.claim(1).await;
        w.retry("a").await;
        w.expect("running a=retrying b=ready").await;
        w.pass(SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        w.expect("running a=gated b=ready").await;
        w.play(&[], &[]).await;
    }

    async fn a_retry_never_seems_to_begin_before_it_was_due(w: &mut World) {
        // The promotion and the claim both looked at the clock early, and then had to wait.
        w.store.set_pool(w.now, "default", "p", Some(1)).await.unwrap();
        w.submit("{name: w, defaults: {retry: {}}, tasks: {a: {run: x}, b: {run: x}, c: {run: x, pool: p}}}").await;
        w.claim(3).await;
        for task in ["a", "b", "c"] {
            w.retry(task).await;
        }
        let early = w.now;
        w.pass(2 * SECOND);
        let due = w.now;
        w.store.set_pool(due, "default", "p", Some(0)).await.unwrap();
        w.pause().await;
        w.store.promote_due(due, 10).await.unwrap();
        w.expect("paused a=held b=held c=held").await;
        w.now = early;
        w.resume().await;
        w.store.set_pool(early, "default", "p", Some(1)).await.unwrap();
        assert_eq!(w.claim(3).await, ["a", "b", "c"]);
        for row in w.store.task_runs(w.run).await.unwrap() {
            assert!(row.started_at.is_some_and(|started| started >= due), "{row:?}");
        }
    }

    async fn a_deadline_fails_the_run(w: &mut World) {
        let made_at = w.now;
        w.submit("{name: w, timeout: 10s, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {run: x}}}").await;
        w.claim(1).await;
        assert_eq!(w.store.next_deadline().await.unwrap(), Some(made_at + 10 * SECOND));
        let term = w.lead().await;
        assert_eq!(w.store.expire_runs(made_at + 10 * SECOND - 1, &term).await.unwrap(), 0);
        w.pass(10 * SECOND);
        let running = w.token("a");
        assert_eq!(w.store.expire_runs(w.now, &term).await.unwrap(), 1);
        assert_eq!(w.store.next_deadline().await.unwrap(), None);
        assert_eq!(w.store.expire_runs(w.now, &term).await.unwrap(), 0, "once");
        w.expect("running a=running b=cancelled c=cancelled").await;
        assert_eq!(w.exchange(&w.empty_exchange()).await.cancel, [running]);
        w.end("a", TaskState::Cancelled).await;
        w.expect("failed a=cancelled b=cancelled c=cancelled").await;
        assert!(w.store.run_summary(w.run).await.unwrap().timed_out);
    }

    async fn the_shorter_of_timeout_and_longest_duration_is_the_deadline(w: &mut World) {
        for (says, seconds, entries) in [
            ("lifecycle: {max_duration: 10s}", 10, 1),
            ("timeout: 20s, lifecycle: {max_duration: 10s}", 10, 1),
            ("timeout: 5s, lifecycle: {max_duration: 10s, steps_in_process: 1s}", 5, 0),
        ] {
            let made_at = w.now;
            w.submit(&format!("{{name: w, {says}, tasks: {{a: {{run: x}}}}, finally: {{f: {{run: x}}}}}}")).await;
            assert_eq!(w.store.next_deadline().await.unwrap(), Some(made_at + seconds * SECOND), "{says}");
            w.pass(seconds * SECOND);
            let term = w.lead().await;
            assert_eq!(w.store.expire_runs(w.now, &term).await.unwrap(), 1);
            w.expect("running a=cancelled f=ready").await;
            w.play(&[], &[]).await;
            w.expect("failed a=cancelled f=success").await;
            assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), entries, "{says}: a life that was too long");
            let reopened_at = w.now;
            let (id, workflow) = (w.id(), w.workflow(w.run).clone());
            w.store.reopen_run(w.now, id, w.run, &workflow, &Reopen::Failed, &operator()).await.unwrap();
            assert_eq!(w.store.next_deadline().await.unwrap(), Some(reopened_at + seconds * SECOND), "{says}");
            assert_eq!(w.store.pending_dead_letters(w.run).await.unwrap(), 0);
            w.play(&[], &[]).await;
        }
        w.submit("{name: w, lifecycle: {steps_in_process: 1s}, tasks: {a: {run: x}}}").await;
        assert_eq!(w.store.next_deadline().await.unwrap(), None, "a threshold of a phase ends nothing");
    }

    async fn a_deadline_also_ends_runs_that_queue_or_pause(w: &mut World) {
        let yaml = "{name: w, timeout: 10s, concurrency: {limit: 1}, tasks: {a: {run: x}}}";
        let first = w.submit(yaml).await;
        let second = w.try_submit(yaml).await.run().unwrap();
        w.run = first;
        w.pause().await;
        w.pass(11 * SECOND);
        let term = w.lead().await;
        assert_eq!(w.store.expire_runs(w.now, &term).await.unwrap(), 2);
        for run in [first, second] {
            w.run = run;
            w.expect("failed a=cancelled").await;
        }
    }

    async fn a_deadline_during_finalisers_lets_them_finish(w: &mut World) {
        w.submit("{name: w, timeout: 10s, tasks: {a: {run: x}}, finally: {c: {run: x}, d: {needs: c, run: x}}}").await;
        w.claim(1).await;
        w.succeed("a").await;
        w.pass(11 * SECOND);
        let term = w.lead().await;
        w.store.expire_runs(w.now, &term).await.unwrap();
        w.expect("running a=success c=ready d=pending").await;
        w.pass(MILLI);
        w.play(&[], &[]).await;
        w.expect("failed a=success c=success d=success").await;
    }

    async fn a_run_begins_when_its_time_has_come(w: &mut World) {
        let version = w.version("{name: w, timeout: 10s, tasks: {a: {run: x}, b: {run: x, needs: a}}}").await;
        let start = w.now + 60 * SECOND;
        let new = w.new_run(&version).await;
        w.create(NewRun { start_at: Some(start), ..new }).await;
        w.expect("pending").await;
        assert_eq!(w.store.next_start().await.unwrap(), Some(start));
        let duties = Duties { next_due: None, next_start: Some(start), has_events: false, has_continuations: false };
        assert_eq!(w.store.duties().await.unwrap(), duties);
        let pending = RunFilter { state: Some(RunState::Pending), limit: 10, ..RunFilter::default() };
        assert_eq!(w.store.list_runs(&pending).await.unwrap().len(), 1);
        w.pass(30 * SECOND);
        assert_eq!(w.store.begin_due_runs(w.now, start - 1, 10).await.unwrap(), 0);
        w.check_now().await;
        assert!(w.claim(1).await.is_empty());
        w.pass(30 * SECOND);
        assert_eq!(w.store.begin_due_runs(w.now, start, 10).await.unwrap(), 1);
        w.check_now().await;
        assert_eq!(w.store.begin_due_runs(w.now, start, 10).await.unwrap(), 0, "it begins once");
        assert_eq!(w.store.duties().await.unwrap(), Duties { next_start: None, has_continuations: true, ..duties });
        assert_eq!(w.store.hears_events_since(w.run).await.unwrap(), w.now, "what was announced before is not for it");
        w.proceed().await;
        w.expect("running a=ready b=pending").await;
        assert_eq!(w.store.next_deadline().await.unwrap(), Some(start + 10 * SECOND), "its time runs from its start");
        assert_eq!(w.store.next_start().await.unwrap(), None);
        w.play(&[], &[]).await;
    }

    async fn a_run_that_was_to_begin_later_is_cancelled(w: &mut World) {
        let version = w.version("{name: w, concurrency: {limit: 1}, tasks: {a: {run: x}, b: {run: x, needs: a}}}").await;
        let new = w.new_run(&version).await;
        w.create(NewRun { start_at: Some(w.now + SECOND), ..new }).await;
        w.cancel().await;
        w.expect("cancelled a=cancelled b=cancelled").await;
        let summary = w.store.run_summary(w.run).await.unwrap();
        assert_eq!(summary.started_at, None, "it never began");
        assert!(summary.finished_at.is_some());
        assert_eq!(w.store.begin_due_runs(w.now, w.now + SECOND, 10).await.unwrap(), 0);
    }

    async fn a_run_that_begins_later_queues_for_its_limit_then(w: &mut World) {
        let version = w.version("{name: w, concurrency: {limit: 1}, tasks: {a: {run: x}}}").await;
        let new = w.new_run(&version).await;
        let later = new.id;
        w.create(NewRun { start_at: Some(w.now + SECOND), ..new }).await;
        let new = w.new_run(&version).await;
        let first = w.create(new).await;
        assert!(matches!(first, Created::New(_)), "the later one holds nothing yet: {first:?}");
        w.pass(SECOND);
        assert_eq!(w.store.begin_due_runs(w.now, w.now, 10).await.unwrap(), 1);
        w.store.proceed_run(w.now, later).await.unwrap();
        assert_eq!(w.store.run_summary(later).await.unwrap().state, RunState::Pending);
        w.play(&[], &[]).await;
        w.run = later;
        w.proceed().await;
        w.expect("running a=ready").await;
        w.play(&[], &[]).await;
    }

    async fn a_run_without_tasks_begins_and_ends(w: &mut World) {
        let version = w.version("{name: w, tasks: {}}").await;
        let new = w.new_run(&version).await;
        w.create(NewRun { start_at: Some(w.now + SECOND), ..new }).await;
        w.pass(SECOND);
        assert_eq!(w.store.begin_due_runs(w.now, w.now, 10).await.unwrap(), 1);
        w.proceed().await;
        assert_eq!(w.run_state().await, RunState::Success);
    }
}
