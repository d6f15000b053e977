//! Workflows, their versions, and making runs of them.

use mainspring_store::Created;

use crate::conformance;
use crate::world::World;

conformance! {
    async fn the_same_content_is_the_same_version(w: &mut World) {
        let one = w.version("{name: w, tasks: {a: {run: x}}}").await;
        let again = w.version("{name: w, tasks: {a: {run: x}}}").await;
        let other = w.version("{name: w, tasks: {a: {run: y}}}").await;
        assert_eq!((one.id, one.number), (again.id, again.number));
        assert_eq!((other.number, other.workflow_id), (2, one.workflow_id));
        assert_eq!(w.store.latest_version("default", "w").await.unwrap().0.number, 2);
        // Going back to what was before makes the old version the newest again.
        w.version("{name: w, tasks: {a: {run: x}}}").await;
        assert_eq!(w.store.latest_version("default", "w").await.unwrap().0.number, 1);
        let elsewhere = w.version("{name: w, namespace: other, tasks: {a: {run: x}}}").await;
        assert_eq!(elsewhere.number, 1);
        assert_ne!(elsewhere.workflow_id, one.workflow_id);
    }

    async fn a_version_reads_back_as_it_was_stored(w: &mut World) {
        let yaml = "{name: w, timeout: 10s, priority: 7, concurrency: {limit: 2, overlap: skip},
            tasks: {a: {run: x, pool: p}, b: {needs: a, function: noop, trigger_rule: all_done, labels: {gpu: 'yes'}}},
            finally: {c: {run: x}}}";
        let stored = w.version(yaml).await;
        let (reference, workflow) = w.store.version(stored.id).await.unwrap();
        assert_eq!(workflow, mainspring_core::parse(yaml).unwrap());
        assert_eq!(format!("{reference:?}"), format!("{stored:?}"));
        assert!(w.store.version(stored.id + 1).await.unwrap_err().to_string().contains("was not found"));
        assert!(w.store.latest_version("default", "none").await.unwrap_err().to_string().contains("workflow `none`"));
    }

    async fn routes_are_shared_by_what_may_run_on_the_same_workers(w: &mut World) {
        w.version("{name: v, tasks: {a: {run: x}, b: {run: y}, c: {function: noop}, d: {run: x, queue: q, labels: {b: '2', a: '1'}}}}").await;
        w.version("{name: w, tasks: {a: {run: z, queue: q, labels: {a: '1', b: '2'}}}}").await;
        w.version("{name: w, namespace: other, tasks: {a: {run: z}}}").await;
        let routes = w.store.routes().await.unwrap();
        let mut shown: Vec<String> =
            routes.iter().map(|route| format!("{}/{} {} {}", route.namespace, route.queue, route.labels, route.class())).collect();
        shown.sort();
        let expected = ["default/default  function", "default/default  process", "default/q a=1,b=2 process", "other/default  process"];
        assert_eq!(shown, expected);
    }

    async fn runs_are_made_in_bulk(w: &mut World) {
        let one = w.version("{name: one, tasks: {a: {run: x}}}").await;
        let chain = w.version("{name: chain, tasks: {a: {run: x}, b: {needs: a, run: x}}}").await;
        let mut runs = Vec::new();
        for at in 0..300 {
            runs.push(w.new_run(if at % 2 == 0 { &one } else { &chain }).await);
        }
        let created = w.store.create_runs(w.now, &runs).await.unwrap();
        let expected: Vec<Created> = runs.iter().map(|run| Created::New(run.id)).collect();
        assert_eq!(created, expected);
        let claim = mainspring_store::Exchange { want: w.wants(1_000).await, ..w.empty_exchange() };
        let reply = w.lane.exchange(&claim).await.unwrap();
        assert_eq!(reply.claimed.len(), 300);
        let ended = reply.claimed.iter().map(|claim| w.ended(claim.token, mainspring_core::state::TaskState::Success)).collect();
        let reply = w.lane.exchange(&mainspring_store::Exchange { ended, ..w.empty_exchange() }).await.unwrap();
        assert_eq!(reply.ended_runs.len(), 150);
    }

    async fn all_runs_of_a_call_are_made_or_none(w: &mut World) {
        let version = w.version("{name: w, tasks: {a: {run: x}}}").await;
        let first = w.new_run(&version).await;
        w.create(first.clone()).await;
        let fresh = w.new_run(&version).await;
        assert!(w.store.create_runs(w.now, &[fresh.clone(), first]).await.is_err(), "an id is used once");
        assert!(w.store.run(fresh.id).await.is_err());
    }

    async fn an_idempotency_key_makes_one_run(w: &mut World) {
        let version = w.version("{name: w, tasks: {a: {run: x}}}").await;
        let mut first = w.new_run(&version).await;
        first.idempotency_key = Some("key".into());
        let mut second = w.new_run(&version).await;
        second.idempotency_key = Some("key".into());
        assert_eq!(w.create(first.clone()).await, Created::New(first.id));
        assert_eq!(w.create(second.clone()).await, Created::Repeated(first.id));
        assert_eq!(w.store.submitted_run("default", "key").await.unwrap(), Some(first.id));
        assert!(w.store.run(second.id).await.is_err());
        let elsewhere = w.version("{name: w, namespace: other, tasks: {a: {run: x}}}").await;
        let mut third = w.new_run(&elsewhere).await;
        third.idempotency_key = Some("key".into());
        assert_eq!(w.create(third.clone()).await, Created::New(third.id));
    }

    async fn what_a_run_was_given_is_kept(w: &mut World) {
        let version = w.version("{name: w, tasks: {a: {run: x}}}").await;
        let mut new = w.new_run(&version).await;
        new.inputs = Some(r#"{"day":"today","n":1}"#.into());
        new.correlation_id = Some("order-7".into());
        new.trigger = Some(r#"{"kind":"manual"}"#.into());
        new.priority = Some(900);
        let id = new.id;
        w.create(new).await;
        let run = w.store.run(id).await.unwrap();
        assert_eq!(run.inputs, Some(serde_json::json!({"day": "today", "n": 1})));
        assert_eq!(run.correlation_id.as_deref(), Some("order-7"));
        assert_eq!(run.trigger, Some(serde_json::json!({"kind": "manual"})));
        assert_eq!(run.summary.priority, 900);
    }

    async fn a_workflow_without_tasks_is_a_success(w: &mut World) {
        w.submit("{name: w}").await;
        w.expect("success").await;
        let finished = w.store.run_summary(w.run).await.unwrap();
        assert!(finished.started_at.is_some() && finished.finished_at.is_some());
    }

    async fn a_workflow_with_only_finalisers_runs_them(w: &mut World) {
        w.submit("{name: w, on_failure: {page: {run: x}}, finally: {clean: {run: x}}}").await;
        w.expect("running page=skipped clean=ready").await;
        w.play(&[], &[]).await;
        w.expect("success page=skipped clean=success").await;
    }
}
