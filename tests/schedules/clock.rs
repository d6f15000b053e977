//! What the clock fires, and what it makes of time that has passed without it.

use mainspring_core::schedule::{CalendarAction, CalendarSpec};
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_store::{Operator, TriggerFilter};
use serde_json::json;

use crate::on_both;
use crate::scene::{DAY, HOUR, MINUTE, SECOND, Scene, stranger};

const NOOP: &str = "tasks: {t: {function: noop}}";
/// Stands still until it is released.
const WAITS: &str = "tasks: {t: {wait: {event: go}}}";

on_both! {
    async fn a_fire_knows_what_it_is_for(scene: &Scene) {
        let row = scene
            .apply("{name: w, inputs: {at: {type: string, default: '${{ run.scheduled_for }}'}, who: {type: string}},
                triggers: [{id: hourly, every: 1h, inputs: {who: '${{ workflow.name }} ${{ run.scheduled_for }}'}}],
                tasks: {t: {run: 'echo \"at=$AT\" >> $MAINSPRING_OUTPUT', env: {AT: '${{ run.scheduled_for }}'}}}}")
            .await;
        scene.pass(HOUR + MINUTE);
        scene.expect_fires(&row, "fired").await;
        let nominal = row.created_at + HOUR;
        let fire = &scene.fires(&row).await[0];
        assert_eq!(fire.nominal_at, nominal);
        let run = scene.ends_as(fire.run_id.unwrap(), RunState::Success).await;
        assert_eq!(run.inputs, Some(json!({"at": rfc3339(nominal), "who": format!("w {}", rfc3339(nominal))})));
        let trigger = run.trigger.unwrap();
        assert_eq!((&trigger["kind"], &trigger["id"], &trigger["trigger"]), (&json!("every"), &json!("hourly"), &json!(row.id)));
        let tasks = scene.db.store().ended_tasks(run.summary.id, &[]).await.unwrap();
        assert_eq!(tasks[0].output, Some(json!({"at": rfc3339(nominal)})), "a task sees the same time");
        let after = scene.trigger(&row).await;
        assert_eq!((after.fired, after.next.map(|next| next.nominal)), (1, Some(nominal + HOUR)));
    }

    async fn missed_fires_are_up_to_the_policy(scene: &Scene) {
        let latest = scene.apply(&format!("{{name: latest, triggers: [{{every: 1h}}], {NOOP}}}")).await;
        let none = scene.apply(&format!("{{name: none, triggers: [{{every: 1h, catchup: none}}], {NOOP}}}")).await;
        let all = scene.apply(&format!("{{name: all, triggers: [{{every: 1h, catchup: all}}], {NOOP}}}")).await;
        let some = scene.apply(&format!("{{name: some, triggers: [{{every: 1h, catchup: {{policy: all, max: 3}}}}], {NOOP}}}")).await;
        scene.pass(5 * HOUR + 30 * MINUTE);
        scene.expect_fires(&latest, "missedx4 fired").await;
        scene.expect_fires(&none, "missedx5").await;
        scene.expect_fires(&all, "fired fired fired fired fired").await;
        scene.expect_fires(&some, "missedx2 fired fired fired").await;
        scene.pass(HOUR);
        scene.expect_fires(&none, "missedx5 missed").await;
        scene.expect_fires(&latest, "missedx4 fired fired").await;
    }

    async fn a_large_catch_up_is_made_in_parts(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 10s, catchup: {{policy: all, max: 2500}}}}], {NOOP}}}")).await;
        scene.pass(30_000 * SECOND + 5 * SECOND);
        scene.wait_for("it has caught up", async || scene.trigger(&row).await.fired == 2_500).await;
        let fires = scene.db.store().fires_of(row.id, i64::MAX, 10_000).await.unwrap();
        assert_eq!(fires.len(), 2_501, "one row tells of the 500 that were missed");
        assert_eq!((fires[2_500].outcome, fires[2_500].count), ("missed", 500));
    }

    async fn a_single_instant_fires_once(scene: &Scene) {
        let (past, soon) = (rfc3339(scene.wall() - DAY), rfc3339(scene.wall() + HOUR));
        let late = scene.apply(&format!("{{name: late, triggers: [{{id: a, at: '{past}'}}], {NOOP}}}")).await;
        let never = scene.apply(&format!("{{name: never, triggers: [{{id: a, at: '{past}', catchup: none}}], {NOOP}}}")).await;
        let due = scene.apply(&format!("{{name: due, triggers: [{{id: a, at: '{soon}'}}], {NOOP}}}")).await;
        scene.expect_fires(&late, "fired").await;
        scene.expect_fires(&never, "missed").await;
        scene.expect_fires(&due, "").await;
        scene.pass(HOUR);
        scene.expect_fires(&due, "fired").await;
        assert!(scene.trigger(&due).await.next.is_none(), "it is done");
        // Another time is another fire; one that there was is not made again.
        let later = rfc3339(scene.wall() + HOUR);
        scene.apply(&format!("{{name: due, triggers: [{{id: a, at: '{later}'}}], {NOOP}}}")).await;
        scene.pass(HOUR);
        scene.expect_fires(&due, "fired fired").await;
        scene.apply(&format!("{{name: due, triggers: [{{id: a, at: '{soon}'}}], {NOOP}}}")).await;
        scene.expect_fires(&due, "fired fired").await;
    }

    async fn what_is_prepared_waits_for_its_time(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1h}}], {NOOP}}}")).await;
        let due = row.next.unwrap().fire_at;
        scene.go_before(&row).await;
        scene.wait_for("it fires", async || {
            let fires = scene.fires(&row).await;
            assert!(fires.is_empty() || scene.wall() >= due, "too early: {fires:?}");
            !fires.is_empty()
        }).await;
        scene.expect_fires(&row, "fired").await;
        scene.ends_as(scene.fires(&row).await[0].run_id.unwrap(), RunState::Success).await;
    }

    async fn fires_are_made_ahead(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1s}}], {NOOP}}}")).await;
        scene.wait_for("one is made before its time", async || scene.made_ahead() > 0).await;
        let fired = scene.trigger(&row).await.fired;
        scene.wait_for("it fires", async || scene.trigger(&row).await.fired > fired).await;
    }

    async fn slots_are_taken_ahead_where_nobody_could_give_one_back(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1s, overlap: skip}}], {WAITS}}}")).await;
        scene.wait_for("three are due", async || scene.fires(&row).await.len() >= 3).await;
        if scene.db.store().fire_policy().writes_alone {
            scene.wait_for("one is made before its time", async || scene.made_ahead() > 0).await;
        } else {
            assert_eq!(scene.made_ahead(), 0, "its limit would be locked");
        }
        let fires = scene.fires(&row).await;
        assert_eq!((fires[0].outcome, fires[1].outcome, fires[2].outcome), ("fired", "skipped", "skipped"));
    }

    async fn a_clock_set_back_takes_back_what_is_prepared(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1h}}], {NOOP}}}")).await;
        scene.go_before(&row).await;
        let was_due = scene.wall() >= row.next.unwrap().fire_at;
        scene.pass(-HOUR);
        scene.turns(5).await;
        let early = scene.fires(&row).await;
        assert!(was_due || early.is_empty(), "{early:?}");
        scene.pass(HOUR);
        scene.expect_fires(&row, "fired").await;
    }

    async fn a_clock_set_forward_fires_each_instant_once(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1h, catchup: all}}], {NOOP}}}")).await;
        scene.go_before(&row).await;
        scene.pass(2 * HOUR + MINUTE);
        scene.expect_fires(&row, "fired fired fired").await;
    }

    async fn a_pause_just_before_a_fire_holds(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1h, catchup: all}}], {NOOP}}}")).await;
        scene.go_before(&row).await;
        scene.db.store().pause_trigger(scene.wall(), row.id).await.unwrap();
        let fired = scene.fires(&row).await.len();
        scene.pass(HOUR);
        scene.turns(5).await;
        assert_eq!(scene.fires(&row).await.len(), fired, "nothing fires after it");
    }

    async fn what_is_prepared_is_not_undone_by_changes_elsewhere(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1h}}], {NOOP}}}")).await;
        let made = scene.made_ahead();
        scene.go_before(&row).await;
        for other in 0..5 {
            scene.apply(&format!("{{name: other-{other}, triggers: [{{every: 1d}}], {NOOP}}}")).await;
        }
        scene.expect_fires(&row, "fired").await;
        assert!(scene.made_ahead() - made <= 1, "it was made {} times", scene.made_ahead() - made);
    }

    async fn what_comes_before_what_is_prepared_fires_too(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1h}}], {NOOP}}}")).await;
        scene.go_before(&row).await;
        let soon = rfc3339(row.next.unwrap().fire_at - 20_000);
        let first = scene.apply(&format!("{{name: first, triggers: [{{at: '{soon}', catchup: all}}], {NOOP}}}")).await;
        scene.expect_fires(&first, "fired").await;
        scene.expect_fires(&row, "fired").await;
    }

    async fn it_ends_when_it_was_told_to(scene: &Scene) {
        let end = rfc3339(scene.wall() + 3 * HOUR);
        let ends = scene.apply(&format!("{{name: ends, triggers: [{{every: 1h, end: '{end}', catchup: all}}], {NOOP}}}")).await;
        let twice = scene.apply(&format!("{{name: twice, triggers: [{{every: 1h, max_executions: 2, catchup: all}}], {NOOP}}}")).await;
        scene.pass(DAY);
        scene.expect_fires(&ends, "fired fired").await;
        scene.wait_for("the last two are made up for", async || scene.trigger(&twice).await.next.is_none()).await;
        assert_eq!(scene.trigger(&twice).await.fired, 2);
        assert!(scene.trigger(&ends).await.next.is_none());
    }

    async fn a_trigger_has_its_own_overlap(scene: &Scene) {
        let skip = scene.apply(&format!("{{name: skip, triggers: [{{every: 1h, overlap: skip}}], {WAITS}}}")).await;
        let queue = scene.apply(&format!("{{name: queue, triggers: [{{every: 1h, overlap: queue}}], {WAITS}}}")).await;
        let allow = scene.apply(&format!("{{name: allow, concurrency: {{limit: 1, overlap: skip}}, triggers: [{{every: 1h, overlap: allow}}], {WAITS}}}")).await;
        let cancel = scene.apply(&format!("{{name: cancel, triggers: [{{every: 1h, overlap: cancel_running}}], {WAITS}}}")).await;
        scene.pass(HOUR + SECOND);
        for row in [&skip, &queue, &allow, &cancel] {
            scene.expect_fires(row, "fired").await;
        }
        scene.pass(HOUR);
        scene.expect_fires(&skip, "fired skipped").await;
        for row in [&queue, &allow, &cancel] {
            scene.expect_fires(row, "fired fired").await;
        }
        let runs = scene.fires(&queue).await;
        assert_eq!(scene.run(runs[1].run_id.unwrap()).await.summary.state, RunState::Pending);
        let runs = scene.fires(&allow).await;
        assert_eq!(scene.run(runs[1].run_id.unwrap()).await.summary.state, RunState::Running);
        let runs = scene.fires(&cancel).await;
        scene.ends_as(runs[0].run_id.unwrap(), RunState::Cancelled).await;
        let second = runs[1].run_id.unwrap();
        scene.wait_for("the newer one takes its place", async || scene.run(second).await.summary.state == RunState::Running).await;
    }

    async fn inputs_that_do_not_fit_fail_the_fire_only(scene: &Scene) {
        let row = scene
            .apply(&format!("{{name: w, inputs: {{n: {{type: integer}}}}, triggers: [{{every: 1h, inputs: {{n: '${{{{ run.scheduled_for }}}}'}}}}], {NOOP}}}"))
            .await;
        scene.pass(HOUR + SECOND);
        scene.expect_fires(&row, "failed").await;
        let reason = scene.fires(&row).await[0].reason.clone().unwrap();
        assert!(reason.contains("input `n`"), "{reason}");
        scene.pass(HOUR);
        scene.expect_fires(&row, "failed failed").await;
    }

    async fn pausing_and_resuming(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1h}}], {NOOP}}}")).await;
        scene.client().pause_trigger(row.id).await.unwrap();
        scene.pass(3 * HOUR + MINUTE);
        scene.expect_fires(&row, "").await;
        assert!(scene.trigger(&row).await.paused);
        scene.client().resume_trigger(row.id).await.unwrap();
        scene.expect_fires(&row, "missedx3").await;
        let workflow = scene.trigger(&row).await.workflow_id;
        scene.client().set_workflow_active(workflow, false, None).await.unwrap();
        scene.pass(HOUR);
        scene.expect_fires(&row, "missedx3").await;
        scene.client().set_workflow_active(workflow, true, None).await.unwrap();
        scene.expect_fires(&row, "missedx3 missed").await;
    }

    async fn closed_days_are_left_out(scene: &Scene) {
        let tomorrow = rfc3339(scene.wall() + DAY)[..10].to_owned();
        let calendar = CalendarSpec { timezone: None, days: vec![tomorrow], weekdays: vec![], windows: vec![], action: CalendarAction::Skip };
        let open = CalendarSpec { days: vec![], ..calendar.clone() };
        scene.client().put_calendar("default", "bank", &open).await.unwrap();
        let row = scene.apply(&format!("{{name: w, triggers: [{{cron: '30 12 * * *', calendar: bank, catchup: all}}], {NOOP}}}")).await;
        assert_eq!(scene.client().put_calendar("default", "bank", &calendar).await.unwrap(), 1);
        let today = i64::from(row.next.unwrap().nominal / DAY == scene.wall() / DAY);
        // To the end of the day after tomorrow.
        scene.pass((scene.wall() / DAY + 3) * DAY - scene.wall());
        let expected = if today == 1 { "fired blacked_out fired" } else { "blacked_out fired" };
        scene.expect_fires(&row, expected).await;
    }

    async fn a_clock_that_is_set_back_is_waited_for(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1h}}], {NOOP}}}")).await;
        scene.pass(HOUR + MINUTE);
        scene.expect_fires(&row, "fired").await;
        scene.wait_for("it is not behind", async || scene.node.handle().timekeeping().behind.is_none()).await;
        scene.pass(-HOUR);
        scene.wait_for("it says that it is behind", async || scene.node.handle().timekeeping().behind.is_some()).await;
        // What is made now is not affected by where others are.
        let other = scene.apply(&format!("{{name: other, triggers: [{{every: 10m}}], {NOOP}}}")).await;
        scene.pass(11 * MINUTE);
        scene.expect_fires(&other, "fired").await;
        scene.expect_fires(&row, "fired").await;
        scene.pass(49 * MINUTE + SECOND);
        scene.wait_for("it has caught up", async || scene.node.handle().timekeeping().behind.is_none()).await;
        scene.expect_fires(&row, "fired").await;
        scene.pass(HOUR);
        scene.expect_fires(&row, "fired fired").await;
        scene.pass(DAY);
        scene.expect_fires(&row, "fired fired missedx23 fired").await;
        scene.pass(-DAY);
        scene.wait_for("it says so again", async || scene.node.handle().timekeeping().behind.is_some()).await;
        scene.pass(DAY + HOUR);
        scene.expect_fires(&row, "fired fired missedx23 fired fired").await;
    }

    async fn what_another_process_applies_is_fired(scene: &Scene) {
        let other = stranger(scene).await;
        let yaml = format!("{{name: w, triggers: [{{id: soon, every: 1s}}], {NOOP}}}");
        other.put_workflow(mainspring_core::parse(&yaml).unwrap(), &yaml).await.unwrap();
        let found = scene.db.store().triggers(&TriggerFilter::default(), 10).await.unwrap();
        scene.wait_for("it fires", async || scene.trigger(&found[0]).await.fired > 0).await;
        other.pause_trigger(found[0].id).await.unwrap();
        other.store().close().await;
    }

    async fn an_event_lets_waiting_runs_go(scene: &Scene) {
        let row = scene.apply(&format!("{{name: w, triggers: [{{every: 1h, overlap: queue}}], {WAITS}}}")).await;
        scene.pass(HOUR + SECOND);
        scene.expect_fires(&row, "fired").await;
        let run = scene.fires(&row).await[0].run_id.unwrap();
        scene.client().cancel(run, &Operator::new("somebody", None)).await.unwrap();
        scene.ends_as(run, RunState::Cancelled).await;
        scene.pass(HOUR);
        scene.expect_fires(&row, "fired fired").await;
        let next = scene.fires(&row).await[1].run_id.unwrap();
        assert_eq!(scene.run(next).await.summary.state, RunState::Running, "the limit was given back");
    }
}
