//! Polls: a key has one run, remembered with it; failures are kept with the trigger.

use mainspring_store::{
    CauseBudget, DeliveryOutcome, DeliveryRow, Error, Finding, NewRun, PollRow, Reaction, Recipient, RunFilter,
    WorkflowFilter,
};

use crate::conformance;
use crate::triggers::{DAY, trigger};
use crate::world::{SECOND, World};

const POLLED: &str =
    "{name: w, triggers: [{id: p, poll: {every: 1m, run: x, key: event.data.id}}], tasks: {a: {run: x}}}";

fn new(key: &str, run: &NewRun) -> Finding {
    Finding::New { key: key.into(), run: Box::new(run.clone()) }
}

impl World {
    /// The end of a check that found this.
    async fn found(&mut self, finding: Finding) -> DeliveryRow {
        let id = trigger(self, "w", "p").await.id;
        let event = self.announce("run.success").await;
        let recipient = Recipient::Trigger { id, max: None };
        let reaction = Reaction::Poll(finding);
        let delivered = self.store.deliver(self.now, &event, recipient, &reaction, CauseBudget::default()).await;
        delivered.unwrap().unwrap()
    }

    async fn poll(&self) -> PollRow {
        trigger(self, "w", "p").await.poll.unwrap()
    }
}

conformance! {
    async fn a_poll_fires_runs_of_its_check(w: &mut World) {
        let version = w.version(POLLED).await;
        let row = trigger(w, "w", "p").await;
        assert_eq!(row.next.map(|next| next.fire_at), Some(w.now + 60 * SECOND));
        let check = w.store.latest_version("default", "w:p").await.unwrap().0;
        let due = w.store.due_triggers(w.now + 60 * SECOND, 10).await.unwrap();
        assert_eq!((due[0].id, due[0].version), (row.id, Some(check.id)));
        let again = w.version(POLLED).await;
        assert_eq!((again.id, trigger(w, "w", "p").await.revision), (version.id, row.revision));
        let listed = w.store.list_workflows(&WorkflowFilter { limit: 10, ..Default::default() }).await.unwrap();
        assert_eq!(listed.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["w"]);
        // Another kind under the same name starts runs of the workflow itself.
        let timed = w.version("{name: w, triggers: [{id: p, every: 1m}], tasks: {a: {run: x}}}").await;
        let due = w.store.due_triggers(w.now + 120 * SECOND, 10).await.unwrap();
        assert_eq!(due[0].version, Some(timed.id));
        w.store.delete_workflow(timed.workflow_id).await.unwrap();
        let gone = w.store.latest_version("default", "w:p").await;
        assert!(matches!(gone, Err(Error::NotFound { .. })), "the check goes with its workflow");
    }

    async fn a_key_has_one_run(w: &mut World) {
        let version = w.version(POLLED).await;
        let (one, two) = (w.new_run(&version).await, w.new_run(&version).await);
        let (first, second) = (w.announce("run.success").await, w.announce("run.success").await);
        let recipient = Recipient::Trigger { id: trigger(w, "w", "p").await.id, max: None };
        let (left, right) = (Reaction::Poll(new("1", &one)), Reaction::Poll(new("1", &two)));
        let (other, now) = (w.store.clone(), w.now);
        // Two ends of checks at once found the same.
        let (left, right) = tokio::join!(
            w.store.deliver(now, &first, recipient, &left, CauseBudget::default()),
            other.deliver(now, &second, recipient, &right, CauseBudget::default())
        );
        let runs: Vec<_> = [left, right].into_iter().filter_map(|delivered| delivered.unwrap().unwrap().run).collect();
        assert_eq!(runs.len(), 1);
        w.made(if runs[0] == one.id { &one } else { &two });
        w.play(&[], &[]).await;

        let third = w.new_run(&version).await;
        assert_eq!(w.found(new("1", &third)).await.outcome, DeliveryOutcome::Ignored);
        assert_eq!(w.found(Finding::KnownKey("1".into())).await.run, None);
        let poll = w.poll().await;
        assert_eq!((poll.checks, poll.started, poll.last_key.as_deref(), poll.last_run), (4, 1, Some("1"), Some(runs[0])));
        assert!(w.store.knows_poll_key(recipient.id(), "1").await.unwrap());

        assert_eq!(w.found(new("2", &third)).await.run, Some(third.id));
        w.made(&third);
        w.play(&[], &[]).await;
        let filter = RunFilter { limit: 10, ..Default::default() };
        assert_eq!(w.store.list_runs(&filter).await.unwrap().len(), 2);

        // Found again it stays known; not found for long it is forgotten.
        w.pass(60 * DAY);
        w.found(Finding::KnownKey("1".into())).await;
        w.pass(60 * DAY);
        let fourth = w.new_run(&version).await;
        w.found(new("3", &fourth)).await;
        w.made(&fourth);
        w.play(&[], &[]).await;
        assert!(w.store.knows_poll_key(recipient.id(), "1").await.unwrap());
        assert!(!w.store.knows_poll_key(recipient.id(), "2").await.unwrap());
    }

    async fn a_run_that_is_refused_leaves_its_key_to_the_next_check(w: &mut World) {
        let limited = POLLED.replace("name: w,", "name: w, concurrency: {limit: 1, overlap: skip},");
        let version = w.version(&limited).await;
        let (one, two) = (w.new_run(&version).await, w.new_run(&version).await);
        assert_eq!(w.found(new("1", &one)).await.run, Some(one.id));
        w.made(&one);
        let refused = w.found(new("2", &two)).await;
        assert_eq!((refused.outcome, refused.run), (DeliveryOutcome::Ignored, None));
        w.play(&[], &[]).await;
        assert_eq!(w.found(new("2", &two)).await.run, Some(two.id));
        w.made(&two);
        w.play(&[], &[]).await;
    }

    async fn a_failing_check_is_kept_with_the_trigger_and_ends_nothing(w: &mut World) {
        let version = w.version(POLLED).await;
        for failures in 1..=2 {
            let failed = w.found(Finding::Failed("no such\0 host".into())).await;
            assert_eq!((failed.outcome, failed.reason.as_deref()), (DeliveryOutcome::Failed, Some("no such host")));
            let poll = w.poll().await;
            assert_eq!((poll.failures, poll.error.as_deref()), (failures, Some("no such host")));
        }
        let row = trigger(w, "w", "p").await;
        assert!(row.is_watched() && row.problem.is_none());
        w.found(Finding::NothingFound("its condition is not met".into())).await;
        assert_eq!((w.poll().await.failures, w.poll().await.error), (0, None));
        let run = w.new_run(&version).await;
        w.found(new("1", &run)).await;
        w.made(&run);
        w.play(&[], &[]).await;
    }
}
