//! `mainspring schedules|calendars|backfill`, and what `apply` refuses about triggers.

use serde_json::json;

use crate::support::{Place, on_both_databases, until};

on_both_databases! { schedules_are_shown_paused_and_made_up_for bad_schedules_are_refused }

fn schedules_are_shown_paused_and_made_up_for(database: &str) {
    let place = Place::on(database);
    place.write("bank.json", r#"{"timezone": "Europe/Paris", "days": ["2026-12-25"], "weekdays": ["sat", "sun"]}"#);
    place.write("w.yaml", "name: w\ntriggers:\n  - {id: nightly, cron: '0 2 * * *', timezone: Europe/Paris, calendar: bank}\ntasks:\n  t: {function: noop}\n");
    place.call(&["apply", "w.yaml"]).expect(2).says(&["calendar `bank`", "mainspring calendars set"]);
    place
        .call(&["calendars", "set", "bank", "bank.json", "-o", "table"])
        .expect(0)
        .says(&["calendar default/bank is set"]);
    assert_eq!(place.call(&["calendars", "show", "bank"]).expect(0).json()["weekdays"], json!(["sat", "sun"]));
    place.call(&["calendars", "list", "-o", "table"]).expect(0).says(&["Europe/Paris", "sat,sun", "skip"]);
    place.call(&["apply", "w.yaml"]).expect(0);
    place.call(&["calendars", "delete", "bank"]).expect(2).says(&["trigger `nightly` of workflow `w`"]);

    let list = place.call(&["schedules", "list"]).expect(0).json();
    assert_eq!((&list["items"][0]["name"], &list["items"][0]["status"]), (&json!("nightly"), &json!("active")));
    place.call(&["schedules", "list", "-o", "table"]).expect(0).says(&["nightly", "0 2 * * * Europe/Paris", "active"]);
    assert_eq!(
        place.call(&["schedules", "next", "w/nightly", "--count", "3"]).expect(0).json()["items"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    place.call(&["schedules", "pause", "w/nightly", "-o", "table"]).expect(0).says(&["w/nightly is paused"]);
    assert_eq!(place.call(&["schedules", "show", "w/nightly"]).expect(0).json()["status"], "paused");
    place.call(&["schedules", "resume", "w/nightly", "-o", "table"]).expect(0).says(&["w/nightly is resumed; next 2"]);
    place.call(&["schedules", "show", "w/daily"]).expect(2).says(&["has no trigger `daily`", "there are nightly"]);

    let elsewhere = place.call(&["schedules", "pause", "w/nightly", "-n", "other"]).expect(2);
    elsewhere.says(&["no workflow `w` in namespace `other`"]);
    // The workflow is enough if it has no other trigger.
    assert_eq!(place.call(&["schedules", "get", "w"]).expect(0).json()["name"], "nightly");
    let two = "name: two\ntriggers: [{id: a, every: 1h}, {id: b, every: 2h}]\ntasks: {t: {function: noop}}\n";
    place.write("two.yaml", two).call(&["apply", "two.yaml"]).expect(0);
    place.call(&["schedules", "get", "two"]).expect(2).says(&["has 2 triggers", "two/a", "two/b"]);
    place.call(&["schedules", "get", "three"]).expect(2).says(&["WORKFLOW/TRIGGER", "mainspring schedules list"]);
    place.call(&["backfill", "get", "019a"]).expect(2).says(&["is not the id of a backfill", "backfill list WORKFLOW"]);

    let _server = place.server(&[]);
    // 6 and 7 June are a weekend.
    let range = ["--from", "2026-06-05T00:00:00Z", "--to", "2026-06-09T00:00:00Z", "--max-parallel", "2"];
    let days = ["--from", "2026-06-05", "--to", "2026-06-09", "--dry-run", "-o", "table"];
    place
        .call(&[&["backfill", "w"][..], &days[..]].concat())
        .expect(0)
        .says(&["would make 2 runs", "nothing was done"]);
    let ahead = ["--from", "2026-06-05", "--to", "2100-01-01"];
    place.call(&[&["backfill", "w"][..], &ahead[..]].concat()).expect(2).says(&["ends in the future"]);
    let made = place.call(&[&["backfill", "w"][..], &range[..]].concat()).expect(0).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let shown = until("the end of the backfill", || {
        let shown = place.call(&["backfill", "show", &id]).expect(0).json();
        (shown["status"] != "active").then_some(shown)
    });
    assert_eq!((&shown["status"], &shown["runs"]), (&json!("done"), &json!(2)));
    place.call(&["backfill", "list", "w", "-o", "table"]).expect(0).says(&[&id, "done"]);
    place.call(&["backfill", "cancel", &id]).expect(2).says(&["done already"]);
    place.call(&["schedules", "show", "w/nightly", "-o", "table"]).expect(0).says(&["fired", "2026-06-05 00:00:00"]);
}

fn bad_schedules_are_refused(database: &str) {
    let place = Place::on(database);
    for (trigger, expected) in [
        ("cron: '0 0 31 2 *'", "never fires"),
        ("cron: '*/0 * * * *'", "is not a cron expression"),
        ("cron: '0 0 * * *', timezone: Mars/Base", "Mars/Base"),
        ("every: 1h, start: 2026-02-01T00:00:00Z, end: 2026-01-01T00:00:00Z", "`end` is not after `start`"),
        ("cron: '0 0 * * *', calendar: nobody", "calendar `nobody`"),
        ("every: 1h, catchup: {policy: all, max: 1000000}", "100000"),
    ] {
        place.write("w.yaml", format!("name: w\ntriggers:\n  - {{{trigger}}}\ntasks:\n  t: {{function: noop}}\n"));
        place.call(&["apply", "w.yaml"]).expect(2).says(&[expected]);
    }
    place.write(
        "often.yaml",
        "name: often\ntriggers:\n  - {id: a, cron: '*/10 * * * * *'}\ntasks:\n  t: {function: noop}\n",
    );
    let minimum = [("MAINSPRING_SCHEDULER_MINIMUM_INTERVAL", "1m")];
    place
        .call_with(&["apply", "often.yaml"], &minimum)
        .expect(2)
        .says(&["fires 10 s apart", "scheduler.minimum_interval"]);
    place.call(&["apply", "often.yaml"]).expect(0);
    place
        .call_with(&["schedules", "list"], &[("SCHEDULER_INTERVAL_MS", "soon")])
        .expect(2)
        .says(&["SCHEDULER_INTERVAL_MS"]);
}
