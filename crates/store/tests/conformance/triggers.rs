//! Triggers follow the newest version of their workflow; pausing, calendars and changes settle what they owe.

use mainspring_core::Micros;
use mainspring_core::schedule::{CalendarAction, CalendarSpec};
use mainspring_store::{Error, FireRow, TriggerFilter, TriggerRow};

use crate::conformance;
use crate::world::{SECOND, World};

pub(crate) const DAY: Micros = 86_400 * SECOND;

pub(crate) async fn trigger(w: &World, workflow: &str, name: &str) -> TriggerRow {
    let workflow = w.store.latest_version("default", workflow).await.unwrap().0.workflow_id;
    w.store.trigger_of(workflow, name).await.unwrap()
}

pub(crate) async fn fires(w: &World, row: &TriggerRow) -> Vec<String> {
    let mut rows = w.store.fires_of(row.id, Micros::MAX, 1_000).await.unwrap();
    rows.reverse();
    let shown = |fire: &FireRow| {
        let offset = |at: Micros| (at - row.created_at) / SECOND;
        let until = fire.until_at.map(|until| format!("..{}", offset(until))).unwrap_or_default();
        format!("{}{until} {} x{}", offset(fire.nominal_at), fire.outcome, fire.count)
    };
    rows.iter().map(shown).collect()
}

fn closed(days: &[&str]) -> CalendarSpec {
    CalendarSpec {
        timezone: None,
        days: days.iter().map(|day| (*day).to_owned()).collect(),
        weekdays: Vec::new(),
        windows: Vec::new(),
        action: CalendarAction::Skip,
    }
}

/// The day of an instant, as a calendar writes it.
fn day(at: Micros) -> String {
    mainspring_core::time::rfc3339(at)[..10].to_owned()
}

conformance! {
    async fn triggers_come_with_the_version(w: &mut World) {
        w.version("{name: w, triggers: [{id: a, every: 10s}, {id: e, event: order.*}, {id: f, workflow: other, on: success}, {manual: true}]}").await;
        let row = trigger(w, "w", "a").await;
        assert_eq!((row.revision, row.present, row.paused, row.fired), (1, true, false, 0));
        assert_eq!((row.anchor_at, row.covered_at), (w.now, w.now));
        assert_eq!(row.next.map(|next| next.fire_at), Some(w.now + 10 * SECOND));
        assert_eq!(w.store.next_fire().await.unwrap(), Some((w.now + 10 * SECOND, w.now)));
        let all = w.store.triggers(&TriggerFilter::default(), 10).await.unwrap();
        assert_eq!(all.len(), 3, "what only a person starts is not waited for");
        let filter = TriggerFilter { kind: Some("event".into()), workflow: Some("w".into()), ..TriggerFilter::default() };
        let events = w.store.triggers(&filter, 10).await.unwrap();
        assert_eq!(events.iter().map(|row| row.trigger.id.as_str()).collect::<Vec<_>>(), ["e"]);
        assert!(events[0].next.is_none());
        let none = TriggerFilter { namespace: Some("none".into()), ..TriggerFilter::default() };
        assert!(w.store.triggers(&none, 10).await.unwrap().is_empty());
        let page = TriggerFilter { after: Some(all[0].id), ..TriggerFilter::default() };
        assert_eq!(w.store.triggers(&page, 1).await.unwrap()[0].id, all[1].id);
    }

    async fn the_same_trigger_again_is_not_touched(w: &mut World) {
        w.version("{name: w, triggers: [{id: a, every: 10s}]}").await;
        let before = trigger(w, "w", "a").await;
        w.pass(25 * SECOND);
        w.version("{name: w, description: new, triggers: [{id: a, every: 10s}]}").await;
        let after = trigger(w, "w", "a").await;
        assert_eq!((after.id, after.revision, after.next), (before.id, before.revision, before.next));
    }

    async fn what_is_not_about_time_changes_in_place(w: &mut World) {
        w.version("{name: w, triggers: [{id: a, every: 10s}]}").await;
        let before = trigger(w, "w", "a").await;
        w.pass(25 * SECOND);
        w.version("{name: w, inputs: {x: {type: string}}, triggers: [{id: a, every: 10s, inputs: {x: y}}]}").await;
        let after = trigger(w, "w", "a").await;
        assert_eq!((after.revision, after.next, after.covered_at), (2, before.next, before.covered_at));
        assert!(fires(w, &after).await.is_empty());
    }

    async fn another_schedule_counts_from_now(w: &mut World) {
        w.version("{name: w, triggers: [{id: a, every: 10s}]}").await;
        w.store.pause_trigger(w.now, trigger(w, "w", "a").await.id).await.unwrap();
        w.pass(35 * SECOND);
        w.version("{name: w, triggers: [{id: a, every: 1h}]}").await;
        let row = trigger(w, "w", "a").await;
        assert_eq!(row.next.map(|next| next.nominal), Some(w.now + 3_600 * SECOND));
        assert!(row.paused, "a pause outlives a new version");
        assert_eq!(fires(w, &row).await, ["10..30 missed x3"]);
    }

    async fn one_that_is_left_out_does_not_fire(w: &mut World) {
        w.version("{name: w, triggers: [{id: a, every: 10s}]}").await;
        let before = trigger(w, "w", "a").await;
        w.version("{name: w}").await;
        let gone = trigger(w, "w", "a").await;
        assert!(!gone.present);
        assert_eq!(w.store.next_fire().await.unwrap(), None);
        assert!(w.store.due_triggers(w.now + DAY, 10).await.unwrap().is_empty());
        w.pass(100 * SECOND);
        w.version("{name: w, triggers: [{id: a, every: 10s}]}").await;
        let back = trigger(w, "w", "a").await;
        assert_eq!(back.id, before.id);
        assert!(back.present && back.next.unwrap().nominal > w.now, "what fell into its absence is not owed");
        assert!(fires(w, &back).await.is_empty());
    }

    async fn an_inactive_workflow_does_not_fire(w: &mut World) {
        let version = w.version("{name: w, triggers: [{id: a, every: 10s}]}").await;
        w.store.set_workflow_active(w.now, version.workflow_id, false, None).await.unwrap();
        assert!(w.store.due_triggers(w.now + DAY, 10).await.unwrap().is_empty());
        w.version("{name: w, triggers: [{id: a, every: 10s}, {id: b, every: 5s}]}").await;
        assert!(w.store.due_triggers(w.now + DAY, 10).await.unwrap().is_empty(), "nor does what comes meanwhile");
        w.store.set_workflow_active(w.now, version.workflow_id, true, None).await.unwrap();
        assert_eq!(w.store.due_triggers(w.now + DAY, 10).await.unwrap().len(), 2);
        let unknown = w.store.set_workflow_active(w.now, w.id(), true, None).await.unwrap_err();
        assert!(unknown.to_string().contains("was not found"), "{unknown}");
    }

    async fn activation_applies_the_policy(w: &mut World) {
        let version = w.version("{name: w, triggers: [{id: none, every: 10s, catchup: none}, {id: unsaid, every: 10s}, {id: latest, every: 10s, catchup: latest}, {id: all, every: 10s, catchup: all}]}").await;
        w.store.set_workflow_active(w.now, version.workflow_id, false, None).await.unwrap();
        w.pass(45 * SECOND);
        w.store.set_workflow_active(w.now, version.workflow_id, true, None).await.unwrap();
        let expected = [("none", "10..40 missed x4", 50), ("unsaid", "10..40 missed x4", 50), ("latest", "10..30 missed x3", 40), ("all", "", 10)];
        for (name, missed, next) in expected {
            let row = trigger(w, "w", name).await;
            assert!(row.active, "{name}");
            assert_eq!(fires(w, &row).await.join(","), missed, "{name}");
            assert_eq!((row.next.unwrap().nominal - row.created_at) / SECOND, next, "{name}");
        }
    }

    async fn the_end_of_a_pause_applies_the_policy(w: &mut World) {
        w.version("{name: w, triggers: [{id: none, every: 10s, catchup: none}, {id: latest, every: 10s, catchup: latest}, {id: unsaid, every: 10s}, {id: all, every: 10s, catchup: all}]}").await;
        let ids = [("none", "10..40 missed x4", 50), ("unsaid", "10..40 missed x4", 50), ("latest", "10..30 missed x3", 40), ("all", "", 10)];
        for (name, _, _) in ids {
            let row = w.store.pause_trigger(w.now, trigger(w, "w", name).await.id).await.unwrap();
            assert!(row.paused);
        }
        w.pass(45 * SECOND);
        assert!(w.store.due_triggers(w.now, 10).await.unwrap().is_empty());
        for (name, missed, next) in ids {
            let row = w.store.resume_trigger(w.now, trigger(w, "w", name).await.id).await.unwrap();
            assert_eq!(fires(w, &row).await.join(","), missed, "{name}");
            assert_eq!((row.next.unwrap().nominal - row.created_at) / SECOND, next, "{name}");
            let again = w.store.resume_trigger(w.now, row.id).await.unwrap();
            assert_eq!(again.revision, row.revision, "who is not paused is not resumed");
        }
    }

    async fn a_single_instant_in_the_past_is_due_at_once(w: &mut World) {
        let past = mainspring_core::time::rfc3339(w.now - DAY);
        w.version(&format!("{{name: w, triggers: [{{id: a, at: '{past}'}}]}}")).await;
        let due = w.store.due_triggers(w.now, 10).await.unwrap();
        assert_eq!((due.len(), due[0].next_fire_at), (1, w.now - DAY));
    }

    async fn a_calendar_must_exist(w: &mut World) {
        let yaml = "{name: w, triggers: [{id: a, cron: '0 0 * * *', calendar: bank}]}";
        let workflow = mainspring_core::parse(yaml).unwrap();
        let refused = w.store.put_version(w.now, w.id(), &workflow, yaml, &[]).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused:?}");
        assert!(refused.to_string().contains("calendar `bank`"), "{refused}");
        assert!(refused.to_string().contains("mainspring calendars set"), "{refused}");
        assert!(w.store.latest_version("default", "w").await.is_err(), "nothing was stored");
        w.store.put_calendar(w.now, "default", "bank", &closed(&[])).await.unwrap();
        w.version(yaml).await;
    }

    async fn a_change_of_a_calendar_moves_the_next_fire(w: &mut World) {
        w.store.put_calendar(w.now, "default", "bank", &closed(&[])).await.unwrap();
        w.version("{name: w, triggers: [{id: a, cron: '0 0 * * *', calendar: bank}]}").await;
        let before = trigger(w, "w", "a").await;
        let first = before.next.unwrap().nominal;
        assert_eq!(w.store.put_calendar(w.now, "default", "bank", &closed(&[&day(first)])).await.unwrap(), 1);
        let after = trigger(w, "w", "a").await;
        assert_eq!(after.next.unwrap().nominal, first + DAY);
        assert!(after.revision > before.revision);
        assert_eq!(w.store.put_calendar(w.now, "other", "bank", &closed(&[])).await.unwrap(), 0);
        let refused = w.store.delete_calendar("default", "bank").await.unwrap_err();
        assert!(refused.to_string().contains("trigger `a` of workflow `w`"), "{refused}");
        w.version("{name: w}").await;
        w.store.delete_calendar("default", "bank").await.unwrap();
        assert!(w.store.delete_calendar("default", "bank").await.unwrap_err().to_string().contains("was not found"));
        let names: Vec<String> = w.store.calendars("other", "", 10).await.unwrap().into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["bank"]);
        let bad = CalendarSpec { days: vec!["yesterday".into()], ..closed(&[]) };
        assert!(matches!(w.store.put_calendar(w.now, "default", "x", &bad).await, Err(Error::Invalid(_))));
    }
}
