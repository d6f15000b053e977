//! Ends of followed runs leave a row once per generation; those of other runs leave none.

use mainspring_core::state::RunState;
use mainspring_store::{HandlerAction, HandlerRow, NewRun, Reopen};
use serde_json::json;
use uuid::Uuid;

use crate::conformance;
use crate::world::{SECOND, World, operator};

const PLAIN: &str = "{name: w, tasks: {a: {run: x}}}";
const STAGES: &str = "{name: w, tasks: {a: {run: x}}, finally: {f: {run: x}}}";

impl World {
    pub(crate) fn handler(&self, event: &str, namespace: Option<&str>) -> HandlerRow {
        HandlerRow {
            id: self.id(),
            namespace: namespace.map(str::to_owned),
            event_name: event.into(),
            handler_name: "h".into(),
            handler_type: "function".into(),
            enabled: true,
            priority: 0,
            action: HandlerAction::TriggerWorkflow,
            config: json!({}),
            trigger_count: 0,
            success_count: 0,
            failure_count: 0,
            last_triggered: None,
            created_by: "somebody".into(),
            created_at: self.now,
            updated_at: self.now,
        }
    }

    async fn follow(&mut self, event: &str) -> HandlerRow {
        let handler = self.handler(event, Some("default"));
        self.store.insert_handler(&handler).await.unwrap();
        handler
    }

    /// Counts what has ended; the names of the events that were written down for it.
    async fn conclude_ends(&mut self) -> Vec<String> {
        let before = self.store.unhandled_events(1_000).await.unwrap();
        let ids = std::sync::Mutex::new((0..200).map(|_| self.id()).collect::<Vec<Uuid>>());
        let new_id = || ids.lock().unwrap().pop().unwrap();
        self.store.conclude_run_ends(self.now, 100, &new_id).await.unwrap();
        let after = self.store.unhandled_events(1_000).await.unwrap();
        after.iter().filter(|event| !before.contains(event)).map(|event| event.name.clone()).collect()
    }
}

conformance! {
    async fn a_run_that_nobody_follows_leaves_no_word(w: &mut World) {
        w.submit(PLAIN).await;
        w.play(&[], &[]).await;
        assert!(w.conclude_ends().await.is_empty());
    }

    async fn a_followed_run_tells_its_end_once(w: &mut World) {
        w.follow("run.*").await;
        for (yaml, failing, told) in [
            (PLAIN, &[][..], "run.success"),
            (STAGES, &[][..], "run.success"),
            (PLAIN, &["a"][..], "run.failed"),
            (STAGES, &["a"][..], "run.failed"),
            ("{name: none, tasks: {}}", &[][..], "run.success"),
        ] {
            w.submit(yaml).await;
            if !w.run_state().await.is_terminal() {
                w.play(failing, &[]).await;
            }
            assert_eq!(w.conclude_ends().await, [told], "{yaml}");
            assert!(w.conclude_ends().await.is_empty(), "told once");
        }
        w.submit(PLAIN).await;
        w.cancel().await;
        assert_eq!(w.conclude_ends().await, ["run.cancelled"]);
    }

    async fn several_ends_in_one_exchange_are_all_told(w: &mut World) {
        w.follow("run.success").await;
        let version = w.version(PLAIN).await;
        let mut new = Vec::new();
        for _ in 0..20 {
            new.push(w.new_run(&version).await);
        }
        w.versions.extend(new.iter().map(|run| (run.id, version.id)));
        w.store.create_runs(w.now, &new).await.unwrap();
        w.claim(100).await;
        let tokens: Vec<_> = w.held.values().map(|claim| claim.token).collect();
        let ended = tokens.iter().map(|token| w.ended(*token, mainspring_core::state::TaskState::Success)).collect();
        let exchange = mainspring_store::Exchange { ended, ..w.empty_exchange() };
        assert!(w.exchange(&exchange).await.followed);
        assert_eq!(w.conclude_ends().await.len(), 20);
    }

    async fn each_generation_ends_once(w: &mut World) {
        w.follow("run.failed").await;
        let run = w.submit(PLAIN).await;
        w.play(&["a"], &[]).await;
        let workflow = mainspring_core::parse(PLAIN).unwrap();
        for _ in 0..2 {
            let id = w.id();
            w.store.reopen_run(w.now, id, run, &workflow, &Reopen::Failed, &operator()).await.unwrap();
            w.play(&["a"], &[]).await;
        }
        assert_eq!(w.run_state().await, RunState::Failed);
        assert_eq!(w.conclude_ends().await, ["run.failed"; 3], "none is lost though the relay did not look meanwhile");
        assert!(w.conclude_ends().await.is_empty());
    }

    async fn following_begins_for_runs_that_are_under_way(w: &mut World) {
        w.submit(PLAIN).await;
        w.claim(1).await;
        let handler = w.follow("run.success").await;
        w.succeed("a").await;
        assert_eq!(w.conclude_ends().await, ["run.success"]);
        // And ceases with the last who listens.
        w.store.update_handler(w.now, &HandlerRow { enabled: false, ..handler.clone() }).await.unwrap();
        w.submit(PLAIN).await;
        w.play(&[], &[]).await;
        assert!(w.conclude_ends().await.is_empty());
        w.store.update_handler(w.now, &HandlerRow { enabled: true, event_name: "order.*".into(), ..handler.clone() }).await.unwrap();
        w.submit(PLAIN).await;
        w.play(&[], &[]).await;
        assert!(w.conclude_ends().await.is_empty(), "it listens to something else");
        w.store.delete_handler(handler.id).await.unwrap();
        assert!(w.store.handler(handler.id).await.is_err());
    }

    async fn following_begins_for_runs_that_start_later(w: &mut World) {
        let version = w.version(PLAIN).await;
        let new = w.new_run(&version).await;
        w.create(NewRun { start_at: Some(w.now + SECOND), ..new }).await;
        w.follow("run.success").await;
        w.pass(SECOND);
        assert_eq!(w.store.begin_due_runs(w.now, w.now, 10).await.unwrap(), 1);
        w.proceed().await;
        w.play(&[], &[]).await;
        assert_eq!(w.conclude_ends().await, ["run.success"]);
    }

    async fn a_purge_waits_until_an_end_was_counted(w: &mut World) {
        w.follow("run.success").await;
        w.submit(PLAIN).await;
        w.play(&[], &[]).await;
        let later = w.now + 1_000_000;
        assert_eq!(w.store.purge_runs(later, None).await.unwrap().runs, 0);
        w.conclude_ends().await;
        assert_eq!(w.store.purge_runs(later, None).await.unwrap().runs, 1);
    }
}
