//! The numbered events of a run: what they tell, and that they are the same whenever they are read.
//!
//! That no number is missing or told twice is checked at the end of every conformance test, for every run it made.

use mainspring_core::state::RunState;
use mainspring_store::{Error, Reopen, RunEvent, RunEventKind};

use crate::conformance;
use crate::world::{SECOND, World, operator};

/// One word per event: `task:a=failed/2`, `attempt:a=failed/1`, `action:pause`, `run:entered_stage=running/1`.
fn told(w: &World, events: &[RunEvent]) -> Vec<String> {
    let word = |how: &dyn std::fmt::Debug| format!("{how:?}").to_lowercase();
    events
        .iter()
        .map(|event| match &event.what {
            RunEventKind::TaskEnded { key, state, attempt } => {
                format!("task:{}={state}/{}", w.task_name(*key), attempt.number)
            }
            RunEventKind::AttemptEnded { key, outcome, attempt } => {
                format!("attempt:{}={}/{}", w.task_name(*key), word(outcome), attempt.number)
            }
            RunEventKind::Action { action, .. } => format!("action:{action}"),
            RunEventKind::Run { how, state, stage } => format!("run:{}={state}/{stage}", word(how)),
        })
        .collect()
}

async fn expect(w: &World, events: &[&str]) {
    let log = w.log(w.run, 100).await;
    assert_eq!(told(w, &log), events);
}

conformance! {
    async fn a_plain_run_has_an_event_per_task_and_its_end(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}}").await;
        expect(w, &[]).await;
        w.play(&[], &[]).await;
        expect(w, &["task:a=success/1", "task:b=success/1", "run:ended=success/0"]).await;
        let log = w.store.run_log(w.run, 0, 100).await.unwrap();
        assert_eq!((log.seq, log.state), (3, RunState::Success));
        assert_eq!(log.events[2].at, w.store.run_summary(w.run).await.unwrap().finished_at.unwrap());
    }

    async fn a_run_without_tasks_has_an_end_with_a_number(w: &mut World) {
        w.submit("{name: w, tasks: {}}").await;
        expect(w, &["run:ended=success/0"]).await;
        w.submit("{name: v, tasks: {}, finally: {clean: {run: x}}}").await;
        w.play(&[], &[]).await;
        expect(w, &["run:enteredstage=running/3", "task:clean=success/1", "run:ended=success/3"]).await;
    }

    async fn attempts_and_actions_stand_between(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, retry: {attempts: 3}}}}").await;
        w.claim(1).await;
        w.retry("a").await;
        w.pause().await;
        w.resume().await;
        w.pass(SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        w.claim(1).await;
        w.lose_session().await;
        w.play(&[], &[]).await;
        expect(w, &["attempt:a=failed/1", "action:pause", "action:resume", "attempt:a=lost/2", "task:a=success/3", "run:ended=success/0"]).await;
    }

    async fn stages_are_entered_with_a_number_and_the_end_is_the_last(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}, on_failure: {page: {run: x}}, finally: {clean: {run: x}}}").await;
        w.play(&[], &[]).await;
        expect(w, &["task:a=success/1", "task:page=skipped/0", "run:enteredstage=running/3", "task:clean=success/1", "run:ended=success/3"]).await;
        w.submit("{name: v, tasks: {a: {run: x}}, on_failure: {page: {run: x}}}").await;
        w.play(&["a"], &[]).await;
        expect(w, &["task:a=failed/1", "run:enteredstage=running/1", "task:page=success/1", "run:ended=failed/1"]).await;
    }

    async fn what_was_told_stays_told_when_a_run_is_reopened(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}, finally: {clean: {run: x}}}").await;
        w.play(&["a"], &[]).await;
        let before = w.log(w.run, 100).await;
        assert_eq!(before.len(), 5);
        let (id, workflow) = (w.id(), w.workflow(w.run).clone());
        w.store.reopen_run(w.now, id, w.run, &workflow, &Reopen::Failed, &operator()).await.unwrap();
        let after = w.log(w.run, 2).await;
        assert_eq!(after[..5], before[..], "no event that was read has changed");
        w.play(&["a"], &[]).await;
        let (id, workflow) = (w.id(), w.workflow(w.run).clone());
        w.store.reopen_run(w.now, id, w.run, &workflow, &Reopen::From(vec![0]), &operator()).await.unwrap();
        w.play(&[], &[]).await;
        let last = w.log(w.run, 100).await;
        assert_eq!(last[..5], before[..]);
        let ends: Vec<String> = told(w, &last).into_iter().filter(|event| event.starts_with("run:ended")).collect();
        assert_eq!(ends, ["run:ended=failed/3", "run:ended=failed/3", "run:ended=success/3"]);
    }

    async fn a_queued_run_tells_when_it_begins(w: &mut World) {
        let yaml = "{name: w, concurrency: {limit: 1}, tasks: {a: {run: x}}}";
        let first = w.submit(yaml).await;
        let second = w.submit(yaml).await;
        w.run = first;
        w.play(&[], &[]).await;
        w.run = second;
        expect(w, &["run:admitted=running/0"]).await;
        w.play(&[], &[]).await;
        expect(w, &["run:admitted=running/0", "task:a=success/1", "run:ended=success/0"]).await;
    }

    async fn a_run_that_times_out_says_so(w: &mut World) {
        w.submit("{name: w, timeout: 1s, tasks: {a: {run: x}}, finally: {clean: {run: x}}}").await;
        w.pass(2 * SECOND);
        let term = w.lead().await;
        assert_eq!(w.store.expire_runs(w.now, &term).await.unwrap(), 1);
        w.play(&[], &[]).await;
        expect(w, &["run:timedout=running/0", "task:a=cancelled/0", "run:enteredstage=running/3", "task:clean=success/1", "run:ended=failed/3"]).await;
    }

    async fn big_runs_are_read_by_number(w: &mut World) {
        let tasks: Vec<String> = (0..1_500).map(|n| format!("t{n}: {{run: x}}")).collect();
        w.submit(&format!("{{name: w, tasks: {{{}}}}}", tasks.join(", "))).await;
        for _ in 0..3 {
            w.claim(1_000).await;
            let ended = w.held.values().map(|claim| w.ended(claim.token, mainspring_core::state::TaskState::Success)).collect();
            let exchange = mainspring_store::Exchange { ended, ..w.empty_exchange() };
            w.exchange(&exchange).await;
        }
        let page = w.store.run_log(w.run, 1_200, 100).await.unwrap();
        assert_eq!(page.events.iter().map(|event| event.seq).collect::<Vec<_>>(), (1_201..=1_300).collect::<Vec<_>>());
        let rest = w.store.run_log(w.run, 1_499, 100).await.unwrap();
        assert_eq!(told(w, &rest.events)[1..], ["run:ended=success/0"]);
    }

    async fn a_run_that_is_not_there_is_not_found(w: &mut World) {
        let error = w.store.run_log(w.id(), 0, 10).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
    }

    async fn followers_of_many_runs_find_what_is_new(w: &mut World) {
        let first = w.submit("{name: w, tasks: {a: {run: x}}}").await;
        let second = w.submit("{name: w, tasks: {a: {run: x}}}").await;
        assert_eq!(w.store.runs_made_after(first, 10).await.unwrap(), [second]);
        let summaries = w.store.run_summaries(&[first, second, w.id()]).await.unwrap();
        assert_eq!(summaries.len(), 2);
        w.pause().await;
        let marks = w.store.run_marks(&[second]).await.unwrap();
        assert_eq!((marks[0].seq, marks[0].state), (1, RunState::Paused));
        let actions = w.store.actions_after(first, 10).await.unwrap();
        assert_eq!(actions.iter().map(|action| action.1).collect::<Vec<_>>(), [second]);
        w.resume().await;
    }
}
