//! Firing: all of a unit or nothing, each nominal instant once, and only for who leads.

use mainspring_core::Micros;
use mainspring_core::schedule::{Fire, Missed};
use mainspring_core::workflow::Overlap;
use mainspring_store::{Created, DueTrigger, FireOf, Fired, Firing, NewFire, NewRun, Staged, Store, Term, VersionRef};

use crate::conformance;
use crate::triggers::{fires, trigger};
use crate::world::{SECOND, World, execute};

/// A fire of what is due, from what was read to one interval later.
pub(crate) fn firing(due: &DueTrigger, run: NewRun) -> Firing {
    let next = due.next_fire_at + 10 * SECOND;
    Firing {
        trigger: due.id,
        revision: due.revision,
        next_fire_at: due.next_fire_at,
        fires: vec![NewFire { nominal: due.next_fire_at, what: FireOf::Run(Box::new(run)) }],
        covered: due.next_fire_at,
        next: Some(Fire { nominal: next, fire_at: next }),
        next_if_refused: Some(Fire { nominal: next, fire_at: next }),
    }
}

/// Stages fires and commits them when the word says yes; staged for no longer than the policy allows.
async fn fire_ahead(
    store: &Store,
    at: Micros,
    term: &Term,
    unit: &[Firing],
    word: impl Future<Output = bool>,
) -> Fired {
    match store.stage_fires(at, at, term, unit).await.unwrap() {
        Staged::Ready(staged) => {
            let heard = tokio::time::timeout(store.fire_policy().longest_wait, word).await;
            if heard.unwrap_or(false) { Fired::Done(staged.commit().await.unwrap()) } else { Fired::Stale }
        }
        Staged::Stale => Fired::Stale,
        Staged::Deposed => Fired::Deposed,
    }
}

async fn new_run(w: &mut World, version: &VersionRef) -> NewRun {
    let run = w.new_run(version).await;
    w.versions.insert(run.id, version.id);
    run
}

conformance! {
    async fn what_is_due_fires_once(w: &mut World) {
        let version = w.version("{name: w, triggers: [{id: a, every: 10s}, {id: b, every: 10s}, {id: c, every: 1h}], tasks: {t: {run: x}}}").await;
        assert!(w.store.due_triggers(w.now, 10).await.unwrap().is_empty());
        w.pass(10 * SECOND);
        let due = w.store.due_triggers(w.now, 10).await.unwrap();
        assert_eq!(due.len(), 2);
        assert_eq!(w.store.due_triggers(w.now, 1).await.unwrap().len(), 1);
        assert_eq!(due[0].version, Some(version.id));
        let term = w.lead().await;
        let unit = [firing(&due[0], new_run(w, &version).await), firing(&due[1], new_run(w, &version).await)];
        let Fired::Done(created) = w.store.fire(w.now, w.now, &term, &unit).await.unwrap() else { panic!("it did not fire") };
        assert!(created.iter().all(|created| matches!(created, Created::New(_))));
        assert_eq!(w.store.fire(w.now, w.now, &term, &unit).await.unwrap(), Fired::Stale, "the same again is nothing");
        for name in ["a", "b"] {
            let row = trigger(w, "w", name).await;
            assert_eq!(fires(w, &row).await, ["10 fired x1"]);
            assert_eq!((row.fired, row.last_fire_at), (1, Some(w.now)));
            assert_eq!(row.next.map(|next| next.nominal - row.created_at), Some(20 * SECOND));
        }
        for created in &created {
            w.run = created.run().unwrap();
            w.expect("running t=ready").await;
        }
        for created in created {
            w.run = created.run().unwrap();
            w.play(&[], &[]).await;
        }
    }

    async fn a_unit_with_a_stale_part_does_nothing(w: &mut World) {
        let version = w.version("{name: w, triggers: [{id: a, every: 10s}, {id: b, every: 10s}], tasks: {t: {run: x}}}").await;
        w.pass(10 * SECOND);
        let due = w.store.due_triggers(w.now, 10).await.unwrap();
        let term = w.lead().await;
        w.store.pause_trigger(w.now, due[1].id).await.unwrap();
        let unit = [firing(&due[0], new_run(w, &version).await), firing(&due[1], new_run(w, &version).await)];
        assert_eq!(w.store.fire(w.now, w.now, &term, &unit).await.unwrap(), Fired::Stale);
        assert_eq!(w.store.due_triggers(w.now, 10).await.unwrap().len(), 1, "the other is still due");
        for name in ["a", "b"] {
            assert!(fires(w, &trigger(w, "w", name).await).await.is_empty());
        }
        assert!(w.store.run_counts().await.unwrap().is_empty(), "no run was made");
    }

    async fn what_is_made_ahead_is_nothing_before_the_word(w: &mut World) {
        let version = w.version("{name: w, triggers: [{id: a, every: 10s}, {id: b, every: 10s}], tasks: {t: {run: x}}}").await;
        let at = w.now + 10 * SECOND;
        let due = w.store.due_triggers(at, 10).await.unwrap();
        let term = w.lead().await;
        let unit = [firing(&due[0], new_run(w, &version).await), firing(&due[1], new_run(w, &version).await)];
        let store = w.store.clone();
        let seen = async || (store.run_counts().await.unwrap().len(), store.fire_counts().await.unwrap().len());
        let taken_back = async {
            assert_eq!(seen().await, (0, 0), "no other transaction sees it");
            // A database with one writer makes every other one wait.
            let goes_on = store.fire_policy().writes_alone || store.beat_term(&term).await.unwrap();
            assert!(goes_on, "nor does the leader wait for it");
            false
        };
        assert_eq!(fire_ahead(&w.store, at, &term, &unit, taken_back).await, Fired::Stale);
        assert_eq!(seen().await, (0, 0));
        assert_eq!(w.store.due_triggers(at, 10).await.unwrap().len(), 2, "all are still due");
        let given = async {
            assert_eq!(seen().await, (0, 0));
            true
        };
        let Fired::Done(created) = fire_ahead(&w.store, at, &term, &unit, given).await else { panic!("it did not fire") };
        assert_eq!(seen().await, (1, 1));
        assert_eq!(fire_ahead(&w.store, at, &term, &unit, async { true }).await, Fired::Stale);
        let old = term;
        let due = w.store.due_triggers(at + 10 * SECOND, 10).await.unwrap();
        w.lead().await;
        let unit = [firing(&due[0], new_run(w, &version).await)];
        assert_eq!(fire_ahead(&w.store, at, &old, &unit, async { true }).await, Fired::Deposed);
        w.pass(10 * SECOND);
        for created in created {
            w.run = created.run().unwrap();
            w.play(&[], &[]).await;
        }
    }

    async fn an_old_leader_fires_nothing(w: &mut World) {
        let version = w.version("{name: w, triggers: [{id: a, every: 10s}], tasks: {t: {run: x}}}").await;
        w.pass(10 * SECOND);
        let due = w.store.due_triggers(w.now, 10).await.unwrap();
        let old = w.lead().await;
        let new = w.lead().await;
        let unit = [firing(&due[0], new_run(w, &version).await)];
        assert_eq!(w.store.fire(w.now, w.now, &old, &unit).await.unwrap(), Fired::Deposed);
        w.store.park_trigger(w.now, &old, &due[0], "nonsense").await.unwrap();
        assert!(trigger(w, "w", "a").await.problem.is_none());
        assert!(matches!(w.store.fire(w.now, w.now, &new, &unit).await.unwrap(), Fired::Done(_)));
        w.run = unit_run(&unit[0]);
        w.play(&[], &[]).await;
    }

    async fn a_limit_may_refuse_the_run_but_not_the_fire(w: &mut World) {
        let version = w.version("{name: w, triggers: [{id: a, every: 10s}], tasks: {t: {run: x}}}").await;
        let limit = w.store.concurrency_limit("trigger/a", 1).await.unwrap();
        let term = w.lead().await;
        let mut kept = None;
        for (round, overlap) in [Overlap::Skip, Overlap::Skip, Overlap::Queue, Overlap::Allow].into_iter().enumerate() {
            w.pass(10 * SECOND);
            let due = w.store.due_triggers(w.now, 10).await.unwrap();
            let run = NewRun { limit: Some(limit), overlap: Some(overlap), ..new_run(w, &version).await };
            let id = run.id;
            let unit = [firing(&due[0], run)];
            let Fired::Done(created) = w.store.fire(w.now, w.now, &term, &unit).await.unwrap() else { panic!("stale") };
            let expected = [Created::New(id), Created::Refused, Created::Queued(id), Created::New(id)][round];
            assert_eq!(created, [expected]);
            kept = kept.or(Some(id));
        }
        let row = trigger(w, "w", "a").await;
        assert_eq!(fires(w, &row).await, ["10 fired x1", "20 skipped x1", "30 fired x1", "40 fired x1"]);
        assert_eq!(row.fired, 3, "a skipped fire is no execution");
        w.run = kept.unwrap();
        w.play(&[], &[]).await;
    }

    async fn skipped_fires_leave_room_for_executions(w: &mut World) {
        let version = w.version("{name: w, triggers: [{id: a, every: 10s, max_executions: 1}], tasks: {t: {run: x}}}").await;
        let limit = w.store.concurrency_limit("trigger/a", 1).await.unwrap();
        let blocking = NewRun { limit: Some(limit), overlap: Some(Overlap::Skip), ..new_run(w, &version).await };
        w.create(blocking).await;
        let blocker = w.run;
        let term = w.lead().await;
        w.pass(10 * SECOND);
        let due = w.store.due_triggers(w.now, 10).await.unwrap();
        let refused = NewRun { limit: Some(limit), overlap: Some(Overlap::Skip), ..new_run(w, &version).await };
        // The last that `max_executions` allows, so that nothing comes after it.
        let unit = [Firing { next: None, ..firing(&due[0], refused) }];
        assert_eq!(w.store.fire(w.now, w.now, &term, &unit).await.unwrap(), Fired::Done(vec![Created::Refused]));
        let row = trigger(w, "w", "a").await;
        assert_eq!((row.fired, row.next), (0, unit[0].next_if_refused));
        w.run = blocker;
        w.play(&[], &[]).await;
        w.pass(10 * SECOND);
        let due = w.store.due_triggers(w.now, 10).await.unwrap();
        let run = NewRun { limit: Some(limit), overlap: Some(Overlap::Skip), ..new_run(w, &version).await };
        let unit = [Firing { next: None, ..firing(&due[0], run) }];
        assert!(matches!(w.store.fire(w.now, w.now, &term, &unit).await.unwrap(), Fired::Done(_)));
        let row = trigger(w, "w", "a").await;
        assert_eq!((row.fired, row.next), (1, None));
        w.run = unit_run(&unit[0]);
        w.play(&[], &[]).await;
    }

    async fn what_starts_no_run_is_written_down_too(w: &mut World) {
        let version = w.version("{name: w, triggers: [{id: a, every: 10s, max_executions: 5}], tasks: {t: {run: x}}}").await;
        let begun = w.now;
        w.pass(100 * SECOND);
        let due = w.store.due_triggers(w.now, 10).await.unwrap();
        let term = w.lead().await;
        let missed = Missed { first: begun + 10 * SECOND, last: begun + 90 * SECOND, count: 9, exact: true };
        let mut unit = firing(&due[0], new_run(w, &version).await);
        unit.fires = vec![NewFire::missed(missed, "nobody fired it"), NewFire { nominal: begun + 100 * SECOND, what: FireOf::Failed("no \0 input".into()) }];
        unit.next = None;
        unit.covered = begun + 100 * SECOND;
        assert_eq!(w.store.fire(w.now, w.now, &term, &[unit]).await.unwrap(), Fired::Done(vec![]));
        let row = trigger(w, "w", "a").await;
        assert_eq!(fires(w, &row).await, ["10..90 missed x9", "100 failed x1"]);
        assert_eq!((row.fired, row.next), (0, None), "what started no run is no execution");
        let rows = w.store.fires_of(row.id, begun + 100 * SECOND, 10).await.unwrap();
        assert_eq!((rows.len(), rows[0].reason.as_deref()), (1, Some("nobody fired it")));
    }

    async fn what_the_clock_noted_goes_after_its_runs(w: &mut World) {
        let version = w.version("{name: w, triggers: [{id: a, every: 10s}], tasks: {t: {run: x}}}").await;
        let term = w.lead().await;
        let mut units = Vec::new();
        for _ in 0..3 {
            w.pass(10 * SECOND);
            let due = w.store.due_triggers(w.now, 10).await.unwrap();
            let unit = [firing(&due[0], new_run(w, &version).await)];
            assert!(matches!(w.store.fire(w.now, w.now, &term, &unit).await.unwrap(), Fired::Done(_)));
            w.run = unit_run(&unit[0]);
            w.play(&[], &[]).await;
            units.push(unit);
        }
        let row = trigger(w, "w", "a").await;
        // More than one step forgets.
        execute(&w.db, "INSERT INTO fires (trigger_id, nominal_at, backfill, outcome, count, fired_at) \
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
            SELECT f.trigger_id, f.nominal_at - i, f.backfill, 2, 1, f.fired_at FROM fires f CROSS JOIN n \
            WHERE f.nominal_at = (SELECT min(nominal_at) FROM fires)").await;
        assert_eq!(w.store.forget_fires(row.created_at + 10 * SECOND).await.unwrap(), 0, "what was noted later stays");
        assert_eq!(w.store.forget_fires(i64::MAX).await.unwrap(), 2_500, "what started a run stays as long as the run");
        while w.store.purge_runs(i64::MAX, None).await.unwrap().runs > 0 {}
        assert_eq!(w.store.forget_fires(i64::MAX).await.unwrap(), 2);
        assert_eq!(fires(w, &row).await, ["30 fired x1"], "the newest stays");
        assert_eq!(w.store.forget_fires(i64::MAX).await.unwrap(), 0);
        for unit in &units {
            assert_eq!(w.store.fire(w.now, w.now, &term, unit).await.unwrap(), Fired::Stale, "nothing fires twice");
        }
        w.run = uuid::Uuid::nil();
        // The checker compares with the schedule since its beginning, whose rows are gone.
        execute(&w.db, "DELETE FROM fires").await;
        execute(&w.db, "DELETE FROM triggers").await;
    }

    async fn a_trigger_that_cannot_fire_says_why(w: &mut World) {
        w.version("{name: w, triggers: [{id: a, every: 10s}]}").await;
        w.pass(10 * SECOND);
        let due = w.store.due_triggers(w.now, 10).await.unwrap();
        let term = w.lead().await;
        w.store.park_trigger(w.now, &term, &due[0], "no such zone").await.unwrap();
        assert!(w.store.due_triggers(w.now, 10).await.unwrap().is_empty());
        assert_eq!(trigger(w, "w", "a").await.problem.as_deref(), Some("no such zone"));
        w.version("{name: w, triggers: [{id: a, every: 20s}]}").await;
        let row = trigger(w, "w", "a").await;
        assert!(row.problem.is_none() && row.next.is_some());
    }

    async fn versions_are_read_together(w: &mut World) {
        let one = w.version("{name: v, tasks: {a: {run: x, pool: p}}}").await;
        let other = w.version("{name: w, tasks: {a: {run: x}}}").await;
        let mut read = w.store.versions(&[one.id, other.id, 1_000_000]).await.unwrap();
        read.sort_by_key(|version| version.0.id);
        assert_eq!(format!("{:?}", read[0].0), format!("{one:?}"));
        assert_eq!(format!("{:?}", read[1].0), format!("{other:?}"));
        assert_eq!(read.len(), 2);
        assert!(w.store.versions(&[]).await.unwrap().is_empty());
    }

    async fn who_stalls_ahead_of_a_fire_holds_nobody_up(w: &mut World) {
        // Others wait for its rows and for the term, or for all there is, so the database does not wait for who stalls.
        let version = w.version("{name: w, triggers: [{id: a, every: 10s}], tasks: {t: {run: x}}}").await;
        let at = w.now + 10 * SECOND;
        let due = w.store.due_triggers(at, 10).await.unwrap();
        let term = w.lead().await;
        let unit = [firing(&due[0], new_run(w, &version).await)];
        let (made, is_made) = tokio::sync::oneshot::channel();
        let (store, stalled) = (w.store.clone(), unit.clone());
        let stalls = tokio::spawn(async move {
            let word = async {
                made.send(()).unwrap();
                std::future::pending().await
            };
            fire_ahead(&store, at, &term, &stalled, word).await
        });
        is_made.await.unwrap();
        let new = w.lead().await;
        assert!(matches!(w.store.fire(at, at, &new, &unit).await.unwrap(), Fired::Done(_)));
        stalls.abort();
        w.pass(10 * SECOND);
        w.run = unit_run(&unit[0]);
        w.play(&[], &[]).await;
    }
}

fn unit_run(firing: &Firing) -> mainspring_core::RunId {
    match &firing.fires[0].what {
        FireOf::Run(run) => run.id,
        _ => panic!("it starts no run"),
    }
}
