//! `/schedules`, `/calendars` and backfills.

use mainspring_server::{Grant, Role};
use serde_json::json;

use crate::on_both;

const DAILY: &str = "{name: w, triggers: [{id: daily, cron: '0 2 * * *', timezone: Europe/Paris, jitter: 1m}, {id: e, event: x}], tasks: {t: {function: noop}}}";

async fn apply(api: &crate::test_api::TestApi, yaml: &str) -> String {
    let workflow = mainspring_core::parse(yaml).unwrap_or_else(|errors| panic!("{errors}"));
    let name = workflow.triggers[0].id.clone();
    let spec = api.client.put_workflow(workflow, yaml).await.unwrap();
    api.client.store().trigger_of(spec.version.workflow_id, &name).await.unwrap().id.to_string()
}

on_both! {
    async fn kinds_are_a_closed_set(api: &TestApi) {
        api.store("{name: w, triggers: [{cron: '0 3 * * *'}, {webhook: w}], tasks: {a: {run: 'true'}}}").await;
        for (kind, count) in [("cron", 1), ("webhook", 1), ("event", 0)] {
            let listed = api.get(&format!("/api/v1/schedules?kind={kind}")).role(Role::Viewer).send().await.expect(200).body();
            assert_eq!(listed["items"].as_array().unwrap().len(), count, "{kind}: {listed}");
        }
        let refused = api.get("/api/v1/schedules?kind=webhok").role(Role::Viewer).send().await.expect(400);
        assert!(refused.text.contains("did you mean `webhook`?"), "{}", refused.text);
    }

    async fn schedules_are_listed_shown_and_looked_ahead(api: &TestApi) {
        let id = apply(api, DAILY).await;
        let list = api.get("/api/v1/schedules?workflow=w&kind=cron").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        let shown = api.get(&format!("/api/v1/schedules/{id}")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(shown, list["items"][0]);
        assert_eq!(shown["name"], "daily");
        assert_eq!(shown["status"], "active");
        assert_eq!(shown["schedule"], "0 2 * * *");
        assert_eq!(shown["timezone"], "Europe/Paris");
        assert_eq!(shown["description"], "at 02:00 every day");
        let next = api.get(&format!("/api/v1/schedules/{id}/next?n=3")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(next["items"].as_array().unwrap().len(), 3);
        assert_eq!(next["items"][0]["scheduled_for"], shown["next_run"]);
        assert_eq!(next["items"][0]["fire_at"], shown["next_fire_at"], "with the same jitter for every caller");
        let fires = api.get(&format!("/api/v1/schedules/{id}/fires")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(fires, json!({"items": [], "next": null}));
        for wrong in ["/next?n=0", "/next?n=1001", "/next?n=x"] {
            api.get(&format!("/api/v1/schedules/{id}{wrong}")).role(Role::Viewer).send().await.expect(400);
        }
        api.get("/api/v1/schedules/x").role(Role::Viewer).send().await.expect(400);
        api.get("/api/v1/schedules/00000000-0000-0000-0000-000000000000").role(Role::Viewer).send().await.expect(404);
        let all = api.get("/api/v1/schedules?limit=1").role(Role::Viewer).send().await.expect(200).body();
        let cursor = all["next"].as_str().unwrap();
        let rest = api.get(&format!("/api/v1/schedules?limit=1&cursor={cursor}")).role(Role::Viewer).send().await.expect(200).body();
        assert_ne!(all["items"][0]["id"], rest["items"][0]["id"]);
        assert_eq!(rest["next"], json!(null));
    }

    async fn schedules_are_paused_and_resumed(api: &TestApi) {
        let id = apply(api, DAILY).await;
        let paused = api.post(&format!("/api/v1/schedules/{id}/pause")).role(Role::Operator).send().await.expect(200).body();
        assert_eq!(paused["status"], "paused");
        assert_eq!((&paused["next_run"], &paused["next_fire_at"]), (&json!(null), &json!(null)));
        let listed = api.get("/api/v1/schedules?kind=cron").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(listed["items"][0], paused);
        let resumed = api.post(&format!("/api/v1/schedules/{id}/resume")).role(Role::Operator).send().await.expect(200).body();
        assert_eq!(resumed["status"], "active");
        assert!(resumed["next_run"].is_string(), "{resumed}");
        let switch = |active: bool| api.patch("/api/v1/workflows/w").role(Role::Author).json(json!({"is_active": active}));
        switch(false).send().await.expect(200);
        let inactive = api.get(&format!("/api/v1/schedules/{id}")).role(Role::Viewer).send().await.expect(200).body();
        assert_eq!((&inactive["status"], &inactive["next_run"]), (&json!("inactive"), &json!(null)));
        let workflow = api.get("/api/v1/workflows?include=next").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(workflow["items"][0]["glance"]["next_fire_at"], json!(null), "{workflow}");
        switch(true).send().await.expect(200);
        let patch = |body| api.call(axum::http::Method::PATCH, &format!("/api/v1/schedules/{id}")).role(Role::Operator).json(body);
        assert_eq!(patch(json!({"paused": true})).send().await.expect(200).body()["status"], "paused");
        patch(json!({"pause": true})).send().await.expect(422);
        let guest = api.make_token("guest", &[Grant::within("other", Role::Admin)]).await;
        api.get(&format!("/api/v1/schedules/{id}")).bearer(&guest).send().await.expect(403);
        api.post(&format!("/api/v1/schedules/{id}/pause")).bearer(&guest).send().await.expect(403);
        let seen = api.get("/api/v1/schedules").bearer(&guest).send().await.expect(200).body();
        assert_eq!(seen["items"], json!([]));
    }

    async fn calendars_are_made_named_and_removed(api: &TestApi) {
        let calendar = json!({"timezone": "Europe/Paris", "days": ["2026-12-25"], "weekdays": ["sun"], "windows": [{"from": "2026-12-24T12:00:00.000000Z", "to": "2026-12-24T18:00:00.000000Z"}], "action": "move"});
        let made = api.put("/api/v1/calendars/bank").role(Role::Operator).json(calendar.clone()).send().await.expect(200).body();
        for field in ["timezone", "days", "weekdays", "windows", "action"] {
            assert_eq!(made[field], calendar[field], "{field}");
        }
        assert_eq!(api.get("/api/v1/calendars/bank").role(Role::Viewer).send().await.expect(200).body(), made);
        assert_eq!(api.get("/api/v1/calendars").role(Role::Viewer).send().await.expect(200).body()["items"], json!([made]));
        for (wrong, words) in [
            (json!({"days": ["soon"]}), "days[0]"),
            (json!({"weekdays": ["someday"]}), "weekdays[0]"),
            (json!({"timezone": "Mars/Base"}), "Mars/Base"),
            (json!({"action": "dance"}), "skip or move"),
            (json!({"windows": [{"from": "now", "to": "then"}]}), "must be a time"),
            (json!({"windows": [{"from": "2026-12-24T12:00:00Z", "to": "2026-12-24T12:00:00Z"}]}), "windows[0]"),
            (json!({"holidays": []}), "unknown field"),
        ] {
            let refused = api.put("/api/v1/calendars/x").role(Role::Operator).json(wrong).send().await.expect(422);
            assert!(refused.text.contains(words), "{}", refused.text);
        }
        apply(api, "{name: w, triggers: [{id: a, cron: '0 2 * * *', calendar: bank}]}").await;
        let refused = api.delete("/api/v1/calendars/bank").role(Role::Author).send().await.expect(409);
        assert!(refused.text.contains("trigger `a` of workflow `w`"), "{}", refused.text);
        api.put("/api/v1/calendars/free").role(Role::Operator).json(json!({})).send().await.expect(200);
        api.delete("/api/v1/calendars/free").role(Role::Author).send().await.expect(204);
        api.delete("/api/v1/calendars/free").role(Role::Author).send().await.expect(404);
    }

    async fn backfills_are_started_shown_and_called_off(api: &TestApi) {
        apply(api, DAILY).await;
        let range = json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-11T00:00:00Z", "max_parallel": 2});
        let made = api.post("/api/v1/workflows/w/backfill").role(Role::Operator).json(range).send().await.expect(201).body();
        assert_eq!((&made["status"], &made["trigger"], &made["max_parallel"], &made["priority"]), (&json!("active"), &json!("daily"), &json!(2), &json!(250)));
        let id = made["id"].as_str().unwrap();
        assert_eq!(api.get(&format!("/api/v1/backfills/{id}")).role(Role::Viewer).send().await.expect(200).body(), made);
        let list = api.get("/workflows/w/backfills").role(Role::Viewer).send().await.expect(200).body();
        assert_eq!(list["items"], json!([made]));
        let called_off = api.post(&format!("/api/v1/backfills/{id}/cancel")).role(Role::Operator).send().await.expect(200).body();
        assert_eq!(called_off["status"], "cancelled");
        api.post(&format!("/api/v1/backfills/{id}/cancel")).role(Role::Operator).send().await.expect(409);
        for (wrong, words) in [
            (json!({"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}), "ends before it begins"),
            (json!({"from": "2026-01-01T03:00:00Z", "to": "2026-01-01T04:00:00Z"}), "does not fire"),
            (json!({"from": "yesterday", "to": "2026-01-01T04:00:00Z"}), "must be a time"),
            (json!({"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T04:00:00Z", "max_parallel": 0}), "max_parallel"),
            (json!({"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T04:00:00Z", "priority": 2000}), "from 0 to 1000"),
            (json!({"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T04:00:00Z", "trigger": "e"}), "of the kind event"),
        ] {
            let refused = api.post("/api/v1/workflows/w/backfill").role(Role::Operator).json(wrong).send().await.expect(422);
            assert!(refused.text.contains(words), "{}", refused.text);
        }
        api.post("/api/v1/workflows/none/backfill").role(Role::Operator).json(json!({"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"})).send().await.expect(404);
    }
}
