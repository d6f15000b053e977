//! Dead letters: one pending each, closed by what concerns them and by nothing else; batches that go on after a crash.

use mainspring_core::dead_letter::{Reason, Resolution};
use mainspring_core::staleness::Health;
use mainspring_core::state::RunState;
use mainspring_store::{
    DeadLetter, LetterFilter, LetterPatch, NewBatch, NewLetter, Operator, Reopen, StaleRun, WatchFilter,
};

use crate::conformance;
use crate::world::{SECOND, World};

const MINUTE: i64 = 60 * SECOND;

fn ann() -> Operator {
    Operator {
        by: "ann".into(),
        reason: Some("why".into()),
        token: Some("token".into()),
        metadata: Some("{\"n\":1}".into()),
        letter: None,
    }
}

async fn letters(w: &World) -> Vec<DeadLetter> {
    let mut all = w.store.letters(&LetterFilter { limit: 1_000, ..LetterFilter::default() }).await.unwrap();
    all.sort_by_key(|letter| letter.task.map(|task| (task.index, task.item)));
    all
}

async fn statuses(w: &World) -> Vec<Resolution> {
    letters(w).await.iter().map(|letter| letter.status).collect()
}

async fn reopen(w: &mut World, what: Reopen) {
    let (id, action) = (w.run, w.id());
    let workflow = w.workflows[&w.versions[&id]].clone();
    w.store.reopen_run(w.now, action, id, &workflow, &what, &ann()).await.unwrap();
}

fn stale(w: &World, moved_at: i64) -> StaleRun {
    let letter = NewLetter {
        id: w.id(),
        run: w.run,
        task: None,
        version: w.versions[&w.run],
        reason: Reason::StalenessTimeout,
        original_state: "waiting_for_dependencies".into(),
        error_type: None,
        error_message: Some("stale".into()),
        total_attempts: 0,
        last_attempt_at: None,
        metadata: None,
        snapshot: None,
    };
    StaleRun { letter, moved_at, reason: "stale".into() }
}

conformance! {
    async fn retrying_one_task_leaves_the_entries_of_others(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}, c: {run: x}}}").await;
        w.play(&["a", "b", "c"], &[]).await;
        assert_eq!(statuses(w).await, [Resolution::Pending; 3]);
        reopen(w, Reopen::From(vec![0])).await;
        assert_eq!(statuses(w).await, [Resolution::Retried, Resolution::Pending, Resolution::Pending]);
        let first = &letters(w).await[0];
        assert_eq!((first.resolved_by.as_deref(), first.acted_by.as_deref(), first.notes.as_deref()), (Some("ann"), Some("token"), Some("why")));
        assert_eq!(first.metadata.as_ref().unwrap()["n"], 1);
        w.play(&[], &[]).await;
        reopen(w, Reopen::FailedOf(vec![1, 2])).await;
        assert_eq!(statuses(w).await, [Resolution::Retried; 3]);
        w.play(&[], &[]).await;
        w.expect("success a=success b=success c=success").await;
    }

    async fn a_finaliser_that_runs_again_takes_its_entry_along(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}, finally: {f: {run: x}}}").await;
        w.play(&["a", "f"], &[]).await;
        assert_eq!(statuses(w).await, [Resolution::Pending; 2]);
        reopen(w, Reopen::From(vec![0])).await;
        assert_eq!(statuses(w).await, [Resolution::Retried; 2]);
        w.play(&[], &[]).await;
    }

    async fn an_entry_is_pending_once_and_edited_at_any_time(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.play(&[], &[]).await;
        let manual = NewLetter { reason: Reason::ManualDlq, ..stale(w, 0).letter };
        assert_eq!(w.store.add_letter(w.now, &manual).await.unwrap(), Some(manual.id));
        let second = NewLetter { id: w.id(), ..manual.clone() };
        assert_eq!(w.store.add_letter(w.now, &second).await.unwrap(), None);
        let ann = Operator::new("ann", None);
        let close = || w.store.close_letter(w.now, manual.id, Resolution::Cancelled, &ann);
        assert!(close().await.unwrap());
        assert!(!close().await.unwrap(), "once");
        assert_eq!(w.store.add_letter(w.now, &second).await.unwrap(), Some(second.id));
        let patch = LetterPatch { notes: Some("later".into()), acted_by: "bob".into(), ..LetterPatch::default() };
        w.store.patch_letter(w.now, manual.id, &patch).await.unwrap();
        let edited = w.store.letter(manual.id).await.unwrap();
        assert_eq!((edited.status, edited.notes.as_deref(), edited.resolved_by.as_deref()), (Resolution::Cancelled, Some("later"), Some("ann")));
        let reopened = LetterPatch { status: Some(Resolution::Pending), acted_by: "bob".into(), ..LetterPatch::default() };
        w.store.patch_letter(w.now, manual.id, &reopened).await.unwrap_err();
        assert_eq!(w.store.forget_letters(i64::MAX).await.unwrap(), 1, "pending ones stay");
    }

    async fn a_batch_goes_on_where_it_was_and_counts_what_it_did(w: &mut World) {
        for _ in 0..3 {
            w.submit("{name: w, tasks: {a: {run: x}}}").await;
            w.play(&["a"], &[]).await;
        }
        let id = w.id();
        let batch = NewBatch { id, filter: LetterFilter::default(), action: "cancel".into(), operator: Operator::new("ann", None), matched: 3 };
        w.store.add_batch(w.now, &batch).await.unwrap();
        let mut row = w.store.open_batch().await.unwrap().unwrap();
        let entries = w.store.batch_entries(&row, 2).await.unwrap();
        assert_eq!(entries.iter().map(|entry| entry.1).collect::<Vec<_>>(), [true, true]);
        // One is closed, and then the process dies: it comes along to be counted.
        w.pass(SECOND);
        w.store.close_letter(w.now, entries[0].0, Resolution::Cancelled, &Operator::new("ann", None)).await.unwrap();
        assert_eq!(w.store.batch_entries(&row, 2).await.unwrap(), [(entries[0].0, false), (entries[1].0, true)]);
        row.position = Some(entries[1].0);
        row.done = 2;
        assert!(w.store.advance_batch(w.now, None, &row).await.unwrap());
        assert!(!w.store.advance_batch(w.now, None, &row).await.unwrap(), "another node has brought it further");
        let row = w.store.batch(id).await.unwrap();
        assert_eq!((row.done, w.store.batch_entries(&row, 10).await.unwrap().len()), (2, 1));
        // What fails after the batch was asked for is not meant.
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.play(&["a"], &[]).await;
        assert_eq!(w.store.batch_entries(&row, 10).await.unwrap().len(), 1);
    }

    async fn open_runs_are_counted_by_health(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        assert_eq!(w.store.runs_by_health(w.now).await.unwrap(), (1, 0, 0));
        w.pass(50 * MINUTE);
        w.submit("{name: quick, lifecycle: {waiting_for_dependencies: 10m}, tasks: {a: {run: x}}}").await;
        assert_eq!(w.store.runs_by_health(w.now).await.unwrap(), (1, 1, 0));
        w.pass(9 * MINUTE);
        assert_eq!(w.store.runs_by_health(w.now).await.unwrap(), (0, 2, 0), "the shortest threshold says who is young");
        w.pass(2 * MINUTE);
        assert_eq!(w.store.runs_by_health(w.now).await.unwrap(), (0, 0, 2));
    }

    async fn a_stale_run_and_its_entry_are_one_transaction(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}, finally: {f: {run: x}}}").await;
        let watched = |w: &World| { let (store, now) = (w.store.clone(), w.now); async move {
            store.watched_runs(now, &WatchFilter { limit: 10, ..WatchFilter::default() }).await.unwrap()
        }};
        assert_eq!(watched(w).await[0].judgement.health, Health::Healthy);
        w.pass(50 * MINUTE);
        assert_eq!(watched(w).await[0].judgement.health, Health::Warning);
        w.pass(11 * MINUTE);
        let run = watched(w).await.remove(0);
        assert_eq!(run.judgement.health, Health::Stale);
        let moved = w.store.give_up(w.now, None, &[stale(w, run.moved_at - 1)]).await.unwrap();
        assert!(!moved[0].moved_to_dlq, "it has moved since it was judged");
        let gone = w.store.give_up(w.now, None, &[stale(w, run.moved_at)]).await.unwrap();
        assert!(gone[0].moved_to_dlq && gone[0].failed);
        assert_eq!(w.claim(10).await, ["f"], "its finalisers run");
        let again = w.store.give_up(w.now, None, &[stale(w, i64::MAX)]).await.unwrap();
        assert!(!again[0].moved_to_dlq, "never a second pending entry");
        w.succeed("f").await;
        w.expect("failed a=cancelled b=cancelled f=success").await;
        assert!(watched(w).await.is_empty());
        reopen(w, Reopen::Failed).await;
        assert_eq!(statuses(w).await, [Resolution::Retried]);
        assert_eq!(watched(w).await[0].judgement.health, Health::Healthy, "its clock begins anew");
        w.play(&[], &[]).await;
        assert_eq!(w.store.run_summary(w.run).await.unwrap().state, RunState::Success);
    }
}
