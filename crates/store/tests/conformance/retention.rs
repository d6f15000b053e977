//! Forgetting old runs, and the months of the history.

use mainspring_core::state::TaskState;
use mainspring_core::work::{LogLine, LogStream};
use mainspring_store::{EventRow, LogCursor, PurgeScope, StoredChunk};
use serde_json::Value;

use crate::conformance;
use crate::world::{SECOND, World, execute};

conformance! {
    async fn an_old_run_goes_with_everything_it_left(w: &mut World) {
        let version = w.version("{name: w, tasks: {a: {run: x, on_exhausted: fail}, b: {needs: a, run: x}}}").await;
        let mut new = w.new_run(&version).await;
        new.inputs = Some("{}".into());
        new.idempotency_key = Some("key".into());
        w.create(new).await;
        w.claim(1).await;
        w.release("a").await;
        let line = LogLine { at: w.now, stream: LogStream::Stdout, text: "hello".into() };
        w.store.append_logs(&[StoredChunk { key: w.key("a"), attempt: 1, chunk: 1, lines: vec![line] }]).await.unwrap();
        w.play(&["a"], &[]).await;
        let key = w.key("a");
        let old = w.run;
        let ended = w.store.run_summary(old).await.unwrap().finished_at.unwrap();
        let open = w.submit("{name: w, tasks: {a: {run: x}}}").await;
        assert_eq!(w.store.purge_runs(ended, None).await.unwrap().runs, 0);
        assert_eq!(w.store.purge_runs(ended + 1, None).await.unwrap().runs, 1);
        assert_eq!(w.store.purge_runs(i64::MAX, None).await.unwrap().runs, 0, "open runs stay");
        assert!(w.store.run(old).await.is_err());
        assert!(w.store.task_runs(old).await.unwrap().is_empty());
        assert!(w.store.attempts(key).await.unwrap().is_empty());
        assert!(w.store.read_logs(key, None, LogCursor::default(), 10).await.unwrap().is_empty());
        assert_eq!(w.store.submitted_run("default", "key").await.unwrap(), None);
        assert!(w.store.run(open).await.is_ok());
    }

    async fn what_a_failure_ended_unexecuted_is_told(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, on_exhausted: fail}, b: {needs: a, run: x}, c: {run: x}}}").await;
        w.play(&["a"], &[]).await;
        let told = w.store.ends_without_attempt(&[w.run]).await.unwrap();
        assert_eq!(told.iter().map(|row| (row.1, row.2)).collect::<Vec<_>>(), [(1, TaskState::UpstreamFailed)]);
    }

    async fn one_workflow_can_be_forgotten_sooner_than_another(w: &mut World) {
        w.submit("{name: kept, tasks: {a: {run: x}}}").await;
        let kept = w.run;
        w.play(&[], &[]).await;
        w.submit("{name: short, tasks: {a: {run: x}}}").await;
        let short = w.run;
        w.play(&[], &[]).await;
        let names = w.store.workflow_names().await.unwrap();
        let id = names.iter().find(|(_, namespace, name)| namespace == "default" && name == "short").unwrap().0;
        let ended = w.store.run_summary(short).await.unwrap().finished_at.unwrap();
        let scope = |before| PurgeScope::ended_before(before).of_workflow(id);
        assert_eq!(w.store.purge_chunk(&mut scope(ended)).await.unwrap(), None, "not old enough");
        assert_eq!(w.store.purge_chunk(&mut scope(i64::MAX)).await.unwrap().unwrap().runs, 1);
        assert!(w.store.run(short).await.is_err());
        assert!(w.store.run(kept).await.is_ok());
    }

    async fn events_go_when_nobody_can_ask_for_them(w: &mut World) {
        let yaml = "{name: w, tasks: {a: {run: x}}}";
        let mut announced = Vec::new();
        for name in ["before", "since", "unmatched"] {
            let id = w.id();
            let (namespace, name, source) = ("default".to_owned(), name.to_owned(), "test".to_owned());
            let event = EventRow { id, namespace, name, key: None, data: Value::Null, source, created_at: w.now, run: None, depth: 0, cause: None, trace: None };
            w.store.insert_event(&event).await.unwrap();
            announced.push(id);
            if announced.len() == 1 {
                w.pass(SECOND);
                w.submit(yaml).await;
            }
        }
        for event in &announced[..2] {
            w.store.events_matched(*event).await.unwrap();
            w.store.event_handled(*event).await.unwrap();
        }
        let made_at = w.store.run_summary(w.run).await.unwrap().created_at;
        assert_eq!(w.store.forget_events(made_at - SECOND).await.unwrap(), 0, "not old enough");
        assert_eq!(w.store.forget_events(i64::MAX).await.unwrap(), 1, "what came before every open run");
        assert_eq!(w.store.forget_events(i64::MAX).await.unwrap(), 0, "the run may still wait for the other");
        w.play(&[], &[]).await;
        assert_eq!(w.store.forget_events(i64::MAX).await.unwrap(), 1, "an event that was not delivered stays");
        assert_eq!(w.store.unmatched_events(10).await.unwrap()[0].id, announced[2]);
    }

    async fn a_run_with_a_pending_dead_letter_stays(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.play(&["a"], &[]).await;
        assert_eq!(w.store.purge_runs(i64::MAX, None).await.unwrap().runs, 0);
        execute(&w.db, "UPDATE dead_letters SET status = 2").await;
        assert_eq!(w.store.purge_runs(i64::MAX, None).await.unwrap().runs, 1);
    }

    async fn many_runs_go_in_several_calls(w: &mut World) {
        let version = w.version("{name: w}").await;
        for _ in 0..3 {
            let mut runs = Vec::new();
            for _ in 0..70 {
                runs.push(w.new_run(&version).await);
            }
            w.store.create_runs(w.now, &runs).await.unwrap();
        }
        for deleted in [100, 100, 10, 0] {
            assert_eq!(w.store.purge_runs(i64::MAX, None).await.unwrap().runs, deleted);
        }
    }

    async fn many_events_end_a_chunk_before_many_runs_do(w: &mut World) {
        for _ in 0..3 {
            w.submit("{name: w, tasks: {a: {run: x}}}").await;
            w.play(&[], &[]).await;
            execute(&w.db, "UPDATE runs SET seq = 600").await;
        }
        let mut scope = PurgeScope::ended_before(i64::MAX);
        for _ in 0..3 {
            assert_eq!(w.store.purge_chunk(&mut scope).await.unwrap().unwrap().runs, 1);
        }
        assert_eq!(w.store.purge_chunk(&mut scope).await.unwrap(), None);
    }

    async fn many_logs_go_before_their_run(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        let line = LogLine { at: w.now, stream: LogStream::Stdout, text: "hello".into() };
        let key = w.key("a");
        let chunks: Vec<_> =
            (1..=1_500).map(|chunk| StoredChunk { key, attempt: 1, chunk, lines: vec![line.clone()] }).collect();
        w.store.append_logs(&chunks).await.unwrap();
        w.play(&[], &[]).await;
        let mut scope = PurgeScope::ended_before(i64::MAX);
        let first = w.store.purge_chunk(&mut scope).await.unwrap().unwrap();
        assert_eq!((first.runs, first.log_chunks), (0, 1_000));
        assert!(w.store.run(w.run).await.is_ok());
        let second = w.store.purge_chunk(&mut scope).await.unwrap().unwrap();
        assert_eq!((second.runs, second.task_runs, second.log_chunks), (1, 1, 500));
        assert_eq!(w.store.purge_chunk(&mut scope).await.unwrap(), None);
    }

    async fn runs_made_after_the_time_are_not_looked_at(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        let old = w.run;
        w.play(&[], &[]).await;
        let ended = w.store.run_summary(old).await.unwrap().finished_at.unwrap();
        w.pass(SECOND);
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.play(&[], &[]).await;
        let mut scope = PurgeScope::ended_before(ended + 1).in_namespace("default");
        assert_eq!(w.store.purge_chunk(&mut scope).await.unwrap().unwrap().runs, 1);
        assert_eq!(w.store.purge_chunk(&mut scope).await.unwrap(), None);
        assert!(w.store.run(old).await.is_err());
        assert!(w.store.run(w.run).await.is_ok());
    }

    async fn a_purged_run_leaves_nothing_to_do(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, on_exhausted: fail}}}").await;
        w.play(&["a"], &[]).await;
        let id = if w.db.url().starts_with("postgres") { format!("'{}'", w.run) } else { format!("x'{}'", w.run.simple()) };
        execute(&w.db, &format!("INSERT INTO continuations (run_id, kind, created_at) VALUES ({id}, 3, 0)")).await;
        assert_eq!(w.store.purge_runs(i64::MAX, None).await.unwrap().runs, 1);
        assert!(!w.store.proceed(w.now).await.unwrap());
        w.run = uuid::Uuid::nil();
    }

    async fn months_are_made_once_and_late_rows_find_a_place(w: &mut World) {
        w.store.ensure_history_partitions(w.now).await.unwrap();
        w.store.ensure_history_partitions(w.now).await.unwrap();
        // A run of a month that has no partition.
        w.now += 400 * 86_400 * crate::world::SECOND;
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.play(&[], &[]).await;
        w.expect("success a=success").await;
        w.store.ensure_history_partitions(w.now).await.unwrap();
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.play(&[], &[]).await;
        w.expect("success a=success").await;
    }
}
