//! What people look at: lists with filters and pages, runs, task runs, counts.

use mainspring_core::RunId;
use mainspring_core::state::{RunState, TaskState};
use mainspring_store::{Error, RunFilter};

use crate::conformance;
use crate::world::{MILLI, World};

async fn list(w: &World, filter: RunFilter) -> Vec<RunId> {
    w.store.list_runs(&filter).await.unwrap().iter().map(|run| run.id).collect()
}

fn all() -> RunFilter {
    RunFilter { limit: 100, ..RunFilter::default() }
}

conformance! {
    async fn runs_are_listed_newest_first_page_by_page(w: &mut World) {
        let mut runs = Vec::new();
        for _ in 0..7 {
            runs.push(w.submit("{name: w, tasks: {a: {run: x}}}").await);
        }
        runs.reverse();
        assert_eq!(list(w, all()).await, runs);
        let mut paged = Vec::new();
        loop {
            let page = list(w, RunFilter { limit: 3, before: paged.last().copied(), ..RunFilter::default() }).await;
            match page.is_empty() {
                true => break,
                false => paged.extend(page),
            }
        }
        assert_eq!(paged, runs);
    }

    async fn open_runs_are_listed_page_by_page_whatever_lies_between(w: &mut World) {
        let version = w.version("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, run: x}}}").await;
        let mut runs = Vec::new();
        for _ in 0..450 {
            runs.push(w.new_run(&version).await);
        }
        w.store.create_runs(w.now, &runs).await.unwrap();
        let mut ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
        ids.reverse();
        let paused = [ids[449], ids[220], ids[3]];
        for run in paused {
            w.run = run;
            w.versions.insert(run, version.id);
            w.pause().await;
        }
        let of = |state, limit, before| RunFilter { state: Some(state), limit, before, ..RunFilter::default() };
        assert_eq!(list(w, of(RunState::Paused, 100, None)).await, [ids[3], ids[220], ids[449]]);
        assert_eq!(list(w, of(RunState::Paused, 2, Some(ids[3]))).await, [ids[220], ids[449]]);
        assert_eq!(list(w, of(RunState::Running, 2, Some(ids[1]))).await, [ids[2], ids[4]]);
        assert_eq!(list(w, of(RunState::Running, 1_000, None)).await.len(), 447);
        assert!(list(w, of(RunState::Running, 0, None)).await.is_empty());
        assert!(list(w, of(RunState::Pending, 10, None)).await.is_empty());
        w.run = ids[3];
    }

    async fn queued_runs_are_listed(w: &mut World) {
        let yaml = "{name: w, concurrency: {limit: 1}, tasks: {a: {run: x}}}";
        let first = w.submit(yaml).await;
        let second = w.submit(yaml).await;
        let of = |state| RunFilter { state: Some(state), ..all() };
        assert_eq!(list(w, of(RunState::Running)).await, [first]);
        assert_eq!(list(w, of(RunState::Pending)).await, [second]);
    }

    async fn filters_combine(w: &mut World) {
        let begin = w.now;
        let done = w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.play(&[], &[]).await;
        let middle = w.now;
        let open = w.submit("{name: w, tasks: {a: {run: x}}}").await;
        let version = w.version("{name: v, namespace: other, tasks: {a: {run: x}}}").await;
        let mut new = w.new_run(&version).await;
        new.correlation_id = Some("order-7".into());
        let other = new.id;
        w.create(new).await;
        let text = |text: &str| Some(text.to_owned());
        for (filter, expected) in [
            (RunFilter { state: Some(RunState::Success), ..all() }, vec![done]),
            (RunFilter { state: Some(RunState::Running), ..all() }, vec![other, open]),
            (RunFilter { state: Some(RunState::Paused), ..all() }, vec![]),
            (RunFilter { namespace: text("other"), ..all() }, vec![other]),
            (RunFilter { workflow: text("w"), ..all() }, vec![open, done]),
            (RunFilter { workflow: text("w"), state: Some(RunState::Running), ..all() }, vec![open]),
            (RunFilter { correlation_id: text("order-7"), ..all() }, vec![other]),
            (RunFilter { correlation_id: text("order-8"), ..all() }, vec![]),
            (RunFilter { since: Some(middle), ..all() }, vec![other, open]),
            (RunFilter { until: Some(middle), ..all() }, vec![done]),
            (RunFilter { since: Some(begin), until: Some(begin + MILLI), ..all() }, vec![done]),
            (RunFilter { limit: 1, ..all() }, vec![other]),
        ] {
            let shown = format!("{filter:?}");
            assert_eq!(list(w, filter).await, expected, "{shown}");
        }
    }

    async fn open_runs_are_listed_also_while_they_have_no_live_task(w: &mut World) {
        let yaml = "{name: w, concurrency: {limit: 1}}";
        let first = w.submit("{name: w, concurrency: {limit: 1}, tasks: {a: {run: x}}}").await;
        let empty = w.try_submit(yaml).await.run().unwrap();
        let tasks: Vec<String> = (0..5_001).map(|at| format!("t{at}: {{run: x}}")).collect();
        let version = w.version(&format!("{{name: v, tasks: {{{}}}}}", tasks.join(", "))).await;
        let new = w.new_run(&version).await;
        let being_made = new.id;
        w.create_only(new).await;
        assert_eq!(list(w, RunFilter { state: Some(RunState::Pending), ..all() }).await, [being_made, empty]);
        assert_eq!(list(w, RunFilter { state: Some(RunState::Running), ..all() }).await, [first]);
        w.run = first;
        w.cancel().await;
        w.proceed().await;
        assert_eq!(list(w, RunFilter { state: Some(RunState::Cancelled), ..all() }).await, [first]);
        assert_eq!(list(w, RunFilter { state: Some(RunState::Success), ..all() }).await, [empty]);
        assert_eq!(list(w, RunFilter { state: Some(RunState::Running), ..all() }).await, [being_made]);
    }

    async fn a_summary_says_where_the_run_stands(w: &mut World) {
        let made = w.now;
        w.submit("{name: w, priority: 600, tasks: {a: {run: x}, b: {needs: a, run: x}}}").await;
        let run = w.store.run_summary(w.run).await.unwrap();
        assert_eq!((run.workflow.as_str(), run.namespace.as_str(), run.version_number), ("w", "default", 1));
        assert_eq!((run.state, run.priority, run.open_tasks, run.generation), (RunState::Running, 600, 2, 0));
        assert_eq!((run.created_at, run.started_at, run.finished_at), (made, Some(made), None));
        w.claim(1).await;
        w.cancel().await;
        assert!(w.store.run_summary(w.run).await.unwrap().cancelling);
        w.succeed("a").await;
        let run = w.store.run_summary(w.run).await.unwrap();
        assert_eq!((run.state, run.open_tasks), (RunState::Cancelled, 0));
        assert!(run.finished_at > Some(made));
    }

    async fn what_has_ended_is_counted_by_run(w: &mut World) {
        let first = w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}, c: {needs: [a, b], run: x}}}").await;
        w.claim(2).await;
        w.succeed("a").await;
        w.succeed("b").await;
        let second = w.submit("{name: v, tasks: {a: {run: x}}}").await;
        let counts = w.store.ended_counts(&[first, second]).await.unwrap();
        assert_eq!((counts.get(&first), counts.get(&second), counts.len()), (Some(&2), None, 1));
        assert!(w.store.ended_counts(&[]).await.unwrap().is_empty());
        assert_eq!(w.store.run_summary(first).await.unwrap().open_tasks, 1);
    }

    async fn what_does_not_exist_is_not_found(w: &mut World) {
        let unknown = w.id();
        assert!(matches!(w.store.run(unknown).await.unwrap_err(), Error::NotFound { .. }));
        assert!(matches!(w.store.run_summary(unknown).await.unwrap_err(), Error::NotFound { .. }));
        assert!(w.store.task_runs(unknown).await.unwrap().is_empty());
    }

    async fn task_runs_are_live_and_ended_ones_in_order(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}, c: {needs: a, run: x}}}").await;
        w.claim(2).await;
        w.fail("a").await;
        let rows = w.store.task_runs(w.run).await.unwrap();
        let states: Vec<TaskState> = rows.iter().map(|row| row.state).collect();
        assert_eq!(states, [TaskState::Failed, TaskState::Running, TaskState::UpstreamFailed]);
        assert_eq!(rows[1].max_failures, Some(1));
        assert!(rows[2].finished_at.is_some());
        assert_eq!(w.store.ended_tasks(w.run, &[2]).await.unwrap().len(), 1);
        assert_eq!(w.store.ended_tasks(w.run, &[1]).await.unwrap().len(), 0);
        assert_eq!(w.store.ended_tasks(w.run, &[]).await.unwrap().len(), 2);
    }

    async fn runs_are_counted_by_state(w: &mut World) {
        for _ in 0..3 {
            w.submit("{name: w, tasks: {a: {run: x}}}").await;
        }
        w.pause().await;
        let counts = w.store.run_counts().await.unwrap();
        let counts: Vec<(RunState, i64)> = counts.iter().map(|count| (count.state, count.runs)).collect();
        assert_eq!(counts, [(RunState::Running, 2), (RunState::Paused, 1)]);
    }
}
