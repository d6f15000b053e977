//! Task runs that no worker executes: parked until something happens, children, and lists of items.

use mainspring_core::RunId;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::Failure;
use mainspring_store::{
    Ended, EventRow, Exchange, NewRun, Parked, Parking, Reopen, TaskToken, WaitKind, WaitOutcome, WaitResult,
};

use crate::conformance;
use crate::world::{SECOND, World, operator};

const APPROVAL: &str = "{name: w, tasks: {a: {approval: {}}, b: {needs: a, run: x}}}";
const LIST: &str = "{name: w, tasks: {a: {run: x, foreach: [1, 2, 3], max_parallel: 2}, b: {needs: a, run: x}}}";
const CHILD: &str =
    "{name: parent, tasks: {a: {workflow: {name: child}}, b: {needs: a, run: x}}, finally: {f: {run: x}}}";

impl World {
    async fn decision_token(&mut self, name: &str) -> TaskToken {
        self.take_decisions().await;
        self.deciding.remove(&self.key(name)).unwrap_or_else(|| panic!("{name} is not decided")).token
    }

    async fn park(&mut self, name: &str, parking: &Parking) -> Parked {
        let token = self.decision_token(name).await;
        self.store.park(self.now, token, parking).await.unwrap()
    }

    /// Ends a task run that was taken to be decided.
    async fn conclude(&mut self, name: &str, state: TaskState) {
        let token = self.decision_token(name).await;
        let ended = Ended { from: TaskState::Deciding, ..self.ended(token, state) };
        let exchange = Exchange { ended: vec![ended], ..self.empty_exchange() };
        self.exchange(&exchange).await;
    }

    async fn expand(&mut self, name: &str, values: &[&str], max_parallel: Option<u32>) {
        let token = self.decision_token(name).await;
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let parked = self.store.expand(self.now, token, &values, max_parallel, false).await.unwrap();
        assert_eq!(parked, Parked::Waiting);
    }

    /// Makes a child for the parked task; names then refer to the parent.
    async fn child(&mut self, name: &str) -> RunId {
        self.child_of(name, "{name: child, tasks: {c: {run: x}}}").await
    }

    async fn child_of(&mut self, name: &str, yaml: &str) -> RunId {
        let version = self.version(yaml).await;
        let new: NewRun = self.new_run(&version).await;
        let token = self.decision_token(name).await;
        self.versions.insert(new.id, version.id);
        let parked = self.store.park_for_child(self.now, token, &new, None).await.unwrap();
        assert_eq!(parked, Parked::Waiting);
        new.id
    }

    async fn tell(&mut self, name: &str, kind: WaitKind, succeeded: bool) -> bool {
        let result = WaitResult { kind, succeeded, output: Some("{\"x\": 1}".into()), reason: None };
        let (id, who) = (self.id(), operator());
        self.store.happened(self.now, self.key(name), &result, Some((id, "approve", &who))).await.unwrap()
    }
}

conformance! {
    async fn an_approval_waits_until_somebody_answers(w: &mut World) {
        w.submit(APPROVAL).await;
        w.expect("running a=deciding b=pending").await;
        assert_eq!(w.park("a", &Parking::new(WaitKind::Approval, None)).await, Parked::Waiting);
        w.expect("running a=waiting b=pending").await;
        assert!(w.take_decisions().await.is_empty(), "nothing has happened yet");
        w.pass(3_600 * SECOND);
        assert_eq!(w.store.promote_due(w.now, 10).await.unwrap(), 0, "it waits for no time");
        assert_eq!(w.store.next_due().await.unwrap(), None);
        assert!(!w.tell("a", WaitKind::Result, true).await, "it does not wait for a result");
        assert!(w.tell("a", WaitKind::Approval, true).await);
        assert!(!w.tell("a", WaitKind::Approval, false).await, "the second answer is refused");
        w.expect("running a=deciding b=pending").await;
        let wait = w.store.wait(w.key("a")).await.unwrap().unwrap();
        assert_eq!((wait.outcome, wait.actor.as_deref()), (Some(WaitOutcome::Well), Some("somebody")));
        w.conclude("a", TaskState::Success).await;
        w.expect("running a=success b=ready").await;
        w.play(&[], &[]).await;
        w.expect("success a=success b=success").await;
    }

    async fn a_timer_becomes_due(w: &mut World) {
        w.submit("{name: w, tasks: {a: {wait: {for: 10s}}}}").await;
        let due = w.now + 10 * SECOND;
        w.park("a", &Parking::new(WaitKind::Timer, Some(due))).await;
        assert_eq!(w.store.next_due().await.unwrap(), Some(due));
        w.pass(9 * SECOND);
        assert_eq!(w.store.promote_due(w.now, 10).await.unwrap(), 0);
        w.pass(SECOND);
        assert_eq!(w.store.promote_due(w.now, 10).await.unwrap(), 1);
        w.expect("running a=deciding").await;
        w.conclude("a", TaskState::Success).await;
        w.expect("success a=success").await;
        assert_eq!(w.store.ended_tasks(w.run, &[0]).await.unwrap()[0].attempt, 1, "waiting is an attempt");
        assert!(w.store.wait(w.key("a")).await.unwrap().unwrap().outcome.is_some(), "what has ended waits no more");
    }

    async fn a_decision_is_made_by_whoever_holds_it(w: &mut World) {
        w.submit(APPROVAL).await;
        let token = w.decision_token("a").await;
        let stranger = TaskToken { session: token.session + 77, ..token };
        let parking = Parking::new(WaitKind::Approval, None);
        assert_eq!(w.store.park(w.now, stranger, &parking).await.unwrap(), Parked::Fenced);
        assert_eq!(w.store.park(w.now, token, &parking).await.unwrap(), Parked::Waiting);
        assert_eq!(w.store.park(w.now, token, &parking).await.unwrap(), Parked::Fenced, "the reply was lost, the unit not");
        w.expect("running a=waiting b=pending").await;
        w.lose_session().await;
        w.expect("running a=waiting b=pending").await;
        w.cancel().await;
        w.expect("cancelled a=cancelled b=cancelled").await;
        assert!(!w.tell("a", WaitKind::Approval, true).await, "the task does not wait any more");
    }

    async fn a_decision_that_is_lost_is_taken_by_another(w: &mut World) {
        w.submit(APPROVAL).await;
        w.decision_token("a").await;
        w.lose_session().await;
        w.expect("running a=deciding b=pending").await;
        assert_eq!(w.park("a", &Parking::new(WaitKind::Approval, None)).await, Parked::Waiting);
    }

    async fn nothing_is_parked_for_a_run_that_stops_or_pauses(w: &mut World) {
        w.submit(APPROVAL).await;
        let token = w.decision_token("a").await;
        w.pause().await;
        let parking = Parking::new(WaitKind::Approval, None);
        assert_eq!(w.store.park(w.now, token, &parking).await.unwrap(), Parked::Held);
        w.resume().await;
        w.expect("running a=deciding b=pending").await;
        let token = w.decision_token("a").await;
        w.cancel().await;
        w.expect("running a=deciding b=cancelled").await;
        assert_eq!(w.store.park(w.now, token, &parking).await.unwrap(), Parked::Stopped);
        w.expect("cancelled a=cancelled b=cancelled").await;
    }

    async fn what_becomes_due_in_a_pause_is_decided_afterwards(w: &mut World) {
        w.submit("{name: w, tasks: {a: {wait: {for: 10s}}}}").await;
        let due = w.now + 10 * SECOND;
        w.park("a", &Parking::new(WaitKind::Timer, Some(due))).await;
        w.pause().await;
        w.pass(20 * SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        w.expect("paused a=held").await;
        w.resume().await;
        w.expect("running a=deciding").await;
    }

    async fn something_that_went_badly_is_tried_again(w: &mut World) {
        w.submit("{name: w, tasks: {a: {workflow: {name: child}, retry: {attempts: 2, delay: 5s}}}}").await;
        w.park("a", &Parking::new(WaitKind::Result, None)).await;
        w.tell("a", WaitKind::Result, false).await;
        let token = w.decision_token("a").await;
        let failure = Failure { kind: "workflow".into(), message: "no".into(), ..Failure::default() };
        let due = w.now + 5 * SECOND;
        assert_eq!(w.store.retry_parked(w.now, token, due, &failure).await.unwrap(), Parked::Waiting);
        w.expect("running a=retrying").await;
        assert!(w.store.wait(w.key("a")).await.unwrap().is_none());
        w.pass(5 * SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        w.expect("running a=deciding").await;
        w.park("a", &Parking::new(WaitKind::Result, None)).await;
        w.tell("a", WaitKind::Result, true).await;
        w.conclude("a", TaskState::Success).await;
        let row = &w.store.ended_tasks(w.run, &[0]).await.unwrap()[0];
        assert_eq!((row.attempt, row.failures), (2, 1));
    }

    async fn a_child_is_made_with_its_parent_waiting(w: &mut World) {
        let parent = w.submit(CHILD).await;
        let child = w.child("a").await;
        w.expect("running a=waiting b=pending").await;
        assert_eq!(w.claim(5).await, ["child.c"]);
        w.run = child;
        w.succeed("c").await;
        w.run = parent;
        w.expect("running a=deciding b=pending").await;
        let wait = w.store.wait(w.key("a")).await.unwrap().unwrap();
        assert_eq!((wait.child, wait.outcome), (Some(child), Some(WaitOutcome::Well)));
        w.conclude("a", TaskState::Success).await;
        w.play(&[], &[]).await;
        w.expect("success a=success b=success f=success").await;
    }

    async fn a_child_that_ends_starts_nothing_in_a_paused_parent(w: &mut World) {
        let parent = w.submit(CHILD).await;
        let child = w.child("a").await;
        w.pause().await;
        assert_eq!(w.claim(5).await, ["child.c"], "a child is a run of its own");
        w.run = child;
        w.succeed("c").await;
        w.run = parent;
        w.expect("paused a=deciding b=pending").await;
        w.conclude("a", TaskState::Success).await;
        w.expect("paused a=success b=held").await;
        assert!(w.claim(5).await.is_empty() && w.take_decisions().await.is_empty());
        w.check_now().await;
        w.resume().await;
        w.expect("running a=success b=ready").await;
        w.play(&[], &[]).await;
        w.expect("success a=success b=success f=success").await;
    }

    async fn a_child_that_fails_is_not_tried_again_in_a_paused_parent(w: &mut World) {
        let parent = w.submit("{name: parent, tasks: {a: {workflow: {name: child}, retry: {attempts: 3}}}}").await;
        let child = w.child("a").await;
        w.pause().await;
        w.claim(5).await;
        w.run = child;
        w.fail("c").await;
        w.run = parent;
        let token = w.decision_token("a").await;
        let failure = Failure { kind: "workflow".into(), message: "it failed".into(), ..Failure::default() };
        let parked = w.store.retry_parked(w.now, token, w.now + SECOND, &failure).await.unwrap();
        assert_eq!(parked, Parked::Held);
        w.expect("paused a=held").await;
        w.pass(10 * SECOND);
        assert_eq!(w.store.promote_due(w.now, 10).await.unwrap(), 0);
        assert!(w.take_decisions().await.is_empty());
        w.resume().await;
        w.expect("running a=deciding").await;
        let token = w.decision_token("a").await;
        assert_eq!(w.store.retry_parked(w.now, token, w.now + SECOND, &failure).await.unwrap(), Parked::Waiting);
        w.expect("running a=retrying").await;
        w.cancel().await;
    }

    async fn the_end_of_a_child_with_finalisers_is_told_too(w: &mut World) {
        let parent = w.submit(CHILD).await;
        let version = w.version("{name: child, tasks: {c: {run: x}}, finally: {d: {run: x}}}").await;
        let new = w.new_run(&version).await;
        let child = new.id;
        w.versions.insert(child, version.id);
        let token = w.decision_token("a").await;
        w.store.park_for_child(w.now, token, &new, None).await.unwrap();
        w.run = child;
        w.play(&["c"], &[]).await;
        w.expect("failed c=failed d=success").await;
        w.run = parent;
        w.expect("running a=deciding b=pending").await;
        assert_eq!(w.store.wait(w.key("a")).await.unwrap().unwrap().outcome, Some(WaitOutcome::Badly));
        w.conclude("a", TaskState::Failed).await;
        w.play(&[], &[]).await;
        w.expect("failed a=failed b=upstream_failed f=success").await;
    }

    async fn cancelling_a_parent_cancels_its_children(w: &mut World) {
        let parent = w.submit(CHILD).await;
        let child = w.child("a").await;
        assert_eq!(w.claim(5).await, ["child.c"]);
        w.cancel().await;
        w.proceed().await;
        w.run = child;
        w.expect("running c=running").await;
        assert!(w.store.run_summary(child).await.unwrap().cancelling);
        w.end("c", TaskState::Cancelled).await;
        w.expect("cancelled c=cancelled").await;
        w.run = parent;
        w.play(&[], &[]).await;
        w.expect("cancelled a=cancelled b=cancelled f=success").await;
    }

    async fn a_queued_child_of_a_cancelled_parent_never_starts(w: &mut World) {
        let yaml = "{name: child, concurrency: {limit: 1}, tasks: {c: {run: x}}}";
        let holder = w.submit(yaml).await;
        assert_eq!(w.claim(5).await, ["c"]);
        let parent = w.submit(CHILD).await;
        let child = w.child_of("a", yaml).await;
        let next = w.submit(yaml).await;
        w.run = parent;
        w.cancel().await;
        // The slot becomes free before a node cancels the child.
        w.run = holder;
        w.end("c", TaskState::Success).await;
        w.run = child;
        w.expect("pending c=held").await;
        w.run = next;
        w.expect("running c=ready").await;
        w.proceed().await;
        w.run = child;
        w.expect("cancelled c=cancelled").await;
        w.play(&[], &[]).await;
    }

    async fn a_child_that_takes_too_long_is_called_off(w: &mut World) {
        let parent = w.submit(CHILD).await;
        let child = w.child("a").await;
        w.store.call_off_child(w.now, w.key("a")).await.unwrap();
        w.proceed().await;
        assert_eq!(w.store.run_summary(child).await.unwrap().state, RunState::Cancelled);
        w.run = parent;
        w.expect("running a=waiting b=pending").await;
        w.cancel().await;
        w.play(&[], &[]).await;
    }

    async fn a_refused_child_leaves_nothing(w: &mut World) {
        let limited = "{name: child, concurrency: {limit: 1, overlap: skip}, tasks: {c: {run: x}}}";
        w.submit(limited).await;
        let parent = w.submit(CHILD).await;
        let version = w.version(limited).await;
        let new = w.new_run(&version).await;
        let token = w.decision_token("a").await;
        assert_eq!(w.store.park_for_child(w.now, token, &new, None).await.unwrap(), Parked::Refused);
        assert_eq!(w.run, parent);
        w.expect("running a=deciding b=pending").await;
    }

    async fn a_list_is_worked_off_a_few_at_a_time(w: &mut World) {
        w.submit(LIST).await;
        w.expand("a", &["1", "2", "3"], Some(2)).await;
        w.expect("running a=waiting a[0]=ready a[1]=ready a[2]=pending b=pending").await;
        assert_eq!(w.claim(5).await, ["a[0]", "a[1]"]);
        assert_eq!(w.store.item_value(w.key("a[1]")).await.unwrap(), Some(serde_json::json!(2)));
        let reply = w.succeed("a[1]").await;
        assert!(reply.decidable || reply.claimed.is_empty());
        w.expect("running a=waiting a[0]=running a[1]=success a[2]=ready b=pending").await;
        assert_eq!(w.claim(5).await, ["a[2]"]);
        w.succeed("a[0]").await;
        w.expect("running a=waiting a[0]=success a[1]=success a[2]=running b=pending").await;
        w.succeed("a[2]").await;
        w.expect("running a=deciding a[0]=success a[1]=success a[2]=success b=pending").await;
        let results = w.store.item_results(w.run, 0).await.unwrap();
        assert_eq!(results.iter().map(|result| result.item).collect::<Vec<_>>(), [0, 1, 2]);
        w.conclude("a", TaskState::Success).await;
        w.play(&[], &[]).await;
    }

    async fn an_item_that_fails_fails_its_task_and_not_the_run_twice(w: &mut World) {
        w.submit(LIST).await;
        w.expand("a", &["1", "2", "3"], None).await;
        w.claim(5).await;
        w.fail("a[1]").await;
        w.succeed("a[0]").await;
        w.succeed("a[2]").await;
        w.expect("running a=deciding a[0]=success a[1]=failed a[2]=success b=pending").await;
        assert_eq!(w.store.item_results(w.run, 0).await.unwrap().iter().filter(|result| result.failed).count(), 1);
        w.conclude("a", TaskState::Failed).await;
        w.expect("failed a=failed a[0]=success a[1]=failed a[2]=success b=upstream_failed").await;
        let letters = w.store.pending_dead_letters(w.run).await.unwrap();
        assert_eq!(letters, 1, "the item's, not the list's");
    }

    async fn a_list_retries_its_failed_items_only(w: &mut World) {
        w.submit(LIST).await;
        w.expand("a", &["1", "2", "3"], Some(2)).await;
        w.claim(5).await;
        w.fail("a[1]").await;
        w.succeed("a[0]").await;
        w.claim(5).await;
        w.fail("a[2]").await;
        w.conclude("a", TaskState::Failed).await;
        w.expect("failed a=failed a[0]=success a[1]=failed a[2]=failed b=upstream_failed").await;
        let workflow = w.workflow(w.run).clone();
        let id = w.id();
        let reopened = w.store.reopen_run(w.now, id, w.run, &workflow, &Reopen::Failed, &operator()).await.unwrap();
        assert_eq!(reopened.generation, 1);
        w.expect("running a=waiting a[0]=success a[1]=ready a[2]=ready b=pending").await;
        w.claim(5).await;
        assert_eq!(w.token("a[1]").attempt, 2, "attempts go on counting");
        w.succeed("a[1]").await;
        w.succeed("a[2]").await;
        w.expect("running a=deciding a[0]=success a[1]=success a[2]=success b=pending").await;
        w.conclude("a", TaskState::Success).await;
        w.play(&[], &[]).await;
        w.expect("success a=success a[0]=success a[1]=success a[2]=success b=success").await;
    }

    async fn a_list_is_cancelled_with_its_run(w: &mut World) {
        w.submit(LIST).await;
        w.expand("a", &["1", "2", "3"], Some(1)).await;
        w.claim(5).await;
        w.cancel().await;
        w.expect("running a=cancelled a[0]=running a[1]=cancelled a[2]=cancelled b=cancelled").await;
        w.end("a[0]", TaskState::Cancelled).await;
        w.expect("cancelled a=cancelled a[0]=cancelled a[1]=cancelled a[2]=cancelled b=cancelled").await;
    }

    async fn items_wait_for_their_pool_and_a_paused_run(w: &mut World) {
        w.store.set_pool(w.now, "default", "p", Some(1)).await.unwrap();
        w.submit("{name: w, tasks: {a: {run: x, foreach: [1, 2, 3], pool: p}}}").await;
        w.expand("a", &["1", "2", "3"], None).await;
        w.expect("running a=waiting a[0]=ready a[1]=gated a[2]=gated").await;
        assert_eq!(w.claim(5).await, ["a[0]"]);
        w.pause().await;
        w.succeed("a[0]").await;
        w.expect("paused a=waiting a[0]=success a[1]=held a[2]=held").await;
        w.resume().await;
        assert_eq!(w.claim(5).await, ["a[1]"]);
        w.succeed("a[1]").await;
        assert_eq!(w.claim(5).await, ["a[2]"]);
        w.pause().await;
        w.succeed("a[2]").await;
        w.expect("paused a=held a[0]=success a[1]=success a[2]=success").await;
        w.resume().await;
        w.conclude("a", TaskState::Success).await;
    }

    async fn a_lost_worker_gives_items_back(w: &mut World) {
        w.submit(LIST).await;
        w.expand("a", &["1", "2"], None).await;
        w.claim(5).await;
        w.lose_session().await;
        w.expect("running a=waiting a[0]=ready a[1]=ready b=pending").await;
        w.claim(5).await;
        assert_eq!(w.token("a[0]").attempt, 2);
    }

    async fn events_are_matched_once_they_are_durable(w: &mut World) {
        w.submit("{name: w, tasks: {a: {wait: {event: e}}}}").await;
        let mut parking = Parking::new(WaitKind::Event, None);
        parking.event = Some(("default".into(), "e".into()));
        parking.key = Some("k".into());
        w.park("a", &parking).await;
        let event = EventRow {
            id: w.id(),
            namespace: "default".into(),
            name: "e".into(),
            key: Some("k".into()),
            data: serde_json::json!({"n": 1}),
            source: "test".into(),
            run: None,
            depth: 0,
            cause: None,
            trace: None,
            created_at: w.now,
        };
        w.store.insert_event(&event).await.unwrap();
        assert_eq!(w.store.unmatched_events(10).await.unwrap(), std::slice::from_ref(&event));
        let waiting = w.store.waits_for_event("default", "e").await.unwrap();
        assert_eq!(waiting.len(), 1);
        assert_eq!(waiting[0].event_key.as_deref(), Some("k"));
        assert!(w.store.waits_for_event("other", "e").await.unwrap().is_empty());
        assert!(w.tell("a", WaitKind::Event, true).await);
        w.store.events_matched(event.id).await.unwrap();
        assert!(w.store.unmatched_events(10).await.unwrap().is_empty());
        assert!(w.store.waits_for_event("default", "e").await.unwrap().is_empty());
        assert_eq!(w.store.events_since("default", "e", w.now - SECOND, None).await.unwrap().len(), 1);
        w.conclude("a", TaskState::Success).await;
        w.expect("success a=success").await;
    }
}
