//! Making up for the past on request.

use mainspring_core::Micros;
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_engine::{BackfillRequest, NewEvent};
use mainspring_store::{BackfillRow, RunFilter, TriggerRow};
use serde_json::json;

use crate::on_both;
use crate::scene::{DAY, HOUR, Scene};

fn request(trigger: &TriggerRow, from: Micros, to: Micros, max_parallel: u32) -> BackfillRequest {
    let created_by = "somebody".to_owned();
    let (max_parallel, trigger) = (Some(max_parallel), trigger.clone());
    BackfillRequest { trigger, from, to, max_parallel, priority: None, created_by, allow_future: false }
}

async fn open(scene: &Scene, backfill: &BackfillRow) -> usize {
    scene.db.store().open_backfill_runs(backfill.id).await.unwrap().len()
}

async fn is(scene: &Scene, backfill: &BackfillRow, status: &str) -> bool {
    scene.db.store().backfill(backfill.id).await.unwrap().status == status
}

on_both! {
    async fn every_instant_of_the_range_is_made_once(scene: &Scene) {
        let row = scene.apply("{name: w, triggers: [{every: 1h}], tasks: {t: {function: noop}}}").await;
        let (from, to) = (row.created_at - 30 * HOUR, row.created_at);
        let backfill = scene.client().start_backfill(&request(&row, from, to, 4)).await.unwrap();
        assert_eq!(backfill.priority, 250, "what is past stands behind what is now");
        scene.wait_for("it is done", async || is(scene, &backfill, "done").await).await;
        let fires = scene.fires(&row).await;
        let nominals: Vec<Micros> = fires.iter().map(|fire| fire.nominal_at).collect();
        let expected: Vec<Micros> = (0..30).map(|hour| from + hour * HOUR).collect();
        assert_eq!(nominals, expected);
        for fire in &fires {
            assert_eq!(fire.backfill, Some(backfill.id));
            let run = scene.ends_as(fire.run_id.unwrap(), RunState::Success).await;
            assert_eq!(run.summary.priority, 250);
            assert_eq!(run.trigger.unwrap()["scheduled_for"], json!(rfc3339(fire.nominal_at)));
        }
        assert_eq!(scene.db.store().backfill(backfill.id).await.unwrap().runs, 30);
        // Another backfill of the same range is another wish.
        let again = scene.client().start_backfill(&request(&row, from, from + 2 * HOUR, 1)).await.unwrap();
        scene.wait_for("it is done", async || is(scene, &again, "done").await).await;
        assert_eq!(scene.fires(&row).await.len(), 32);
        assert_eq!(scene.db.store().backfills(row.workflow_id, i64::MAX, 10).await.unwrap().len(), 2);
        assert_eq!(scene.trigger(&row).await.fired, 0, "it does not count for the schedule");
    }

    async fn a_range_that_ends_in_the_future_must_be_asked_for(scene: &Scene) {
        let row = scene.apply("{name: w, triggers: [{every: 1h}], tasks: {t: {function: noop}}}").await;
        let wanted = request(&row, row.created_at - HOUR, scene.wall() + 10 * HOUR, 1);
        let refused = scene.client().start_backfill(&wanted).await.unwrap_err();
        assert!(refused.to_string().contains("ends in the future"), "{refused}");
        assert!(scene.db.store().backfills(row.workflow_id, i64::MAX, 10).await.unwrap().is_empty());
        let asked_for = BackfillRequest { allow_future: true, ..wanted };
        let backfill = scene.client().start_backfill(&asked_for).await.unwrap();
        scene.wait_for("it is done", async || is(scene, &backfill, "done").await).await;
    }

    async fn no_more_runs_are_open_than_were_asked_for(scene: &Scene) {
        let row = scene.apply("{name: w, triggers: [{cron: '0 * * * *'}], tasks: {t: {wait: {event: go, key: '${{ run.id }}'}}}}").await;
        let day = row.created_at / DAY * DAY - 7 * DAY;
        let backfill = scene.client().start_backfill(&request(&row, day, day + 6 * HOUR, 2)).await.unwrap();
        for _ in 0..3 {
            scene.wait_for("two are open", async || open(scene, &backfill).await == 2).await;
            for run in scene.db.store().open_backfill_runs(backfill.id).await.unwrap() {
                let event = NewEvent { namespace: "default".into(), name: "go".into(), key: Some(run.to_string()), data: json!({}), source: "test".into() };
                scene.client().emit(event).await.unwrap();
                scene.ends_as(run, RunState::Success).await;
                assert!(open(scene, &backfill).await <= 2);
            }
        }
        scene.wait_for("it is done", async || is(scene, &backfill, "done").await).await;
        assert_eq!(scene.fires(&row).await.len(), 6);
    }

    async fn one_that_is_called_off_makes_no_more(scene: &Scene) {
        let row = scene.apply("{name: w, triggers: [{cron: '0 * * * *'}], tasks: {t: {wait: {event: go}}}}").await;
        let day = row.created_at / DAY * DAY - 7 * DAY;
        let backfill = scene.client().start_backfill(&request(&row, day, day + DAY, 1)).await.unwrap();
        scene.wait_for("one is open", async || open(scene, &backfill).await == 1).await;
        assert!(scene.db.store().cancel_backfill(scene.wall(), backfill.id).await.unwrap());
        assert!(!scene.db.store().cancel_backfill(scene.wall(), backfill.id).await.unwrap(), "it has ended already");
        let event = NewEvent { namespace: "default".into(), name: "go".into(), key: None, data: json!({}), source: "test".into() };
        scene.client().emit(event).await.unwrap();
        let run = scene.fires(&row).await[0].run_id.unwrap();
        scene.ends_as(run, RunState::Success).await;
        let runs = scene.db.store().list_runs(&RunFilter { limit: 10, ..RunFilter::default() }).await.unwrap();
        assert_eq!(runs.len(), 1);
        assert!(is(scene, &backfill, "cancelled").await);
    }

    async fn what_cannot_be_made_up_for_is_refused(scene: &Scene) {
        let row = scene.apply("{name: w, triggers: [{cron: '0 0 29 2 *'}, {id: e, event: x}], tasks: {t: {function: noop}}}").await;
        let event = scene.db.store().trigger_of(row.workflow_id, "e").await.unwrap();
        let second = scene.apply("{name: s, triggers: [{every: 1s}], tasks: {t: {function: noop}}}").await;
        let now = row.created_at;
        for (request, expected) in [
            (request(&row, now, now, 1), "ends before it begins"),
            (request(&row, now - HOUR, now, 0), "max_parallel is 0"),
            (request(&row, now - HOUR, now, 1), "does not fire within the range"),
            (request(&event, now - HOUR, now, 1), "is of the kind event"),
            (request(&second, now - 400 * DAY, now, 1), "more than 1000000 fires"),
        ] {
            let refused = scene.client().start_backfill(&request).await.unwrap_err();
            assert!(refused.to_string().contains(expected), "{refused}");
        }
    }
}
