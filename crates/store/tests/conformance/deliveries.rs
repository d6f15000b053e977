//! Each listener makes of each event what it makes of it, exactly once.

use mainspring_store::{CauseBudget, DeliveryOutcome, EventRow, Reaction, Recipient, SYSTEM};
use serde_json::json;

use crate::conformance;
use crate::world::World;

const PLAIN: &str = "{name: w, tasks: {a: {run: x}}}";

impl World {
    pub(crate) async fn announce(&mut self, name: &str) -> EventRow {
        let event = EventRow {
            id: self.id(),
            namespace: "default".into(),
            name: name.into(),
            key: None,
            data: json!({}),
            source: "test".into(),
            run: None,
            depth: 0,
            cause: None,
            trace: None,
            created_at: self.now,
        };
        self.store.insert_event(&event).await.unwrap();
        event
    }

    async fn runs_made(&self) -> usize {
        let filter = mainspring_store::RunFilter { limit: 100, ..Default::default() };
        self.store.list_runs(&filter).await.unwrap().len()
    }
}

conformance! {
    async fn handlers_hear_in_the_order_of_their_priority(w: &mut World) {
        let mut wanted = Vec::new();
        for (name, namespace, priority) in
            [("order.imported", Some("default"), 1), ("order.*", None, 9), ("*", Some("default"), 5), ("order", None, 7), ("order.imported", Some("sales"), 8)]
        {
            let mut handler = w.handler(name, namespace);
            handler.priority = priority;
            w.store.insert_handler(&handler).await.unwrap();
            if priority < 7 || priority == 9 {
                wanted.push((priority, handler.id));
            }
        }
        let mut off = w.handler("order.imported", None);
        off.enabled = false;
        w.store.insert_handler(&off).await.unwrap();
        wanted.sort_by_key(|handler| -handler.0);
        let event = w.announce("order.imported").await;
        let heard = w.store.listeners(&event).await.unwrap();
        let heard: Vec<_> = heard.handlers.iter().map(|handler| (handler.priority, handler.id)).collect();
        assert_eq!(heard, wanted);
    }

    async fn what_was_delivered_is_not_delivered_again(w: &mut World) {
        let handler = w.handler("e", None);
        w.store.insert_handler(&handler).await.unwrap();
        let version = w.version(PLAIN).await;
        let event = w.announce("e").await;
        let recipient = Recipient::Handler(handler.id);
        let (one, two) = (w.new_run(&version).await, w.new_run(&version).await);
        for run in [&one, &two] {
            w.versions.insert(run.id, version.id);
        }
        w.run = one.id;
        let (one, two) = (Reaction::Start(Box::new(one)), Reaction::Start(Box::new(two)));
        // Two at once, and one who comes again after a crash.
        let other = w.store.clone();
        let now = w.now;
        let (first, second) = tokio::join!(
            w.store.deliver(now, &event, recipient, &one, CauseBudget::default()),
            other.deliver(now, &event, recipient, &two, CauseBudget::default())
        );
        let done: Vec<_> = [first.unwrap(), second.unwrap()].into_iter().flatten().collect();
        assert_eq!(done.len(), 1);
        assert_eq!(done[0].outcome, DeliveryOutcome::Started);
        w.run = done[0].run.unwrap();
        assert!(w.store.deliver(now, &event, recipient, &one, CauseBudget::default()).await.unwrap().is_none());
        assert_eq!(w.runs_made().await, 1);
        assert_eq!(w.store.deliveries(event.id).await.unwrap(), done);
        let counted = w.store.handler(handler.id).await.unwrap();
        assert_eq!((counted.trigger_count, counted.success_count, counted.failure_count), (1, 1, 0));
        assert_eq!(counted.last_triggered, Some(now));
        w.play(&[], &[]).await;
    }

    async fn a_failed_delivery_is_counted_and_says_why(w: &mut World) {
        let handler = w.handler("e", None);
        w.store.insert_handler(&handler).await.unwrap();
        let event = w.announce("e").await;
        let reaction = Reaction::Fail { reason: "no such workflow".into(), circle: None };
        let delivery = w.store.deliver(w.now, &event, Recipient::Handler(handler.id), &reaction, CauseBudget::default()).await.unwrap().unwrap();
        assert_eq!((delivery.outcome, delivery.reason.as_deref()), (DeliveryOutcome::Failed, Some("no such workflow")));
        let counted = w.store.handler(handler.id).await.unwrap();
        assert_eq!((counted.trigger_count, counted.success_count, counted.failure_count), (1, 0, 1));
        w.store.event_handled(event.id).await.unwrap();
        assert!(w.store.unhandled_events(10).await.unwrap().is_empty());
    }

    async fn a_circle_makes_one_dead_letter(w: &mut World) {
        let run = w.submit(PLAIN).await;
        w.play(&[], &[]).await;
        for _ in 0..2 {
            let handler = w.handler("e", None);
            w.store.insert_handler(&handler).await.unwrap();
            let event = w.announce("e").await;
            let reaction = Reaction::Fail { reason: "a circle".into(), circle: Some(run) };
            w.store.deliver(w.now, &event, Recipient::Handler(handler.id), &reaction, CauseBudget::default()).await.unwrap().unwrap();
        }
        assert_eq!(w.store.pending_dead_letters(run).await.unwrap(), 1);
    }

    async fn a_star_does_not_stand_for_what_the_system_does(w: &mut World) {
        let mut handlers = Vec::new();
        for name in ["*", "scheduler:*", "scheduler:job.created"] {
            let handler = w.handler(name, None);
            w.store.insert_handler(&handler).await.unwrap();
            handlers.push(handler.id);
        }
        let mut event = w.announce("scheduler:job.created").await;
        let heard = async |event: &EventRow| {
            let heard = w.store.listeners(event).await.unwrap().handlers;
            handlers.iter().filter(|id| heard.iter().any(|one| one.id == **id)).count()
        };
        assert_eq!(heard(&event).await, 3);
        event.source = SYSTEM.into();
        assert_eq!(heard(&event).await, 2, "only those that name it");
    }

    async fn what_one_cause_starts_is_bounded(w: &mut World) {
        let version = w.version(PLAIN).await;
        let budget = CauseBudget { most: 2, window: 3_600_000_000 };
        let root = w.announce("e").await;
        let mut outcomes = Vec::new();
        for nth in 0..5 {
            // Some follow from the first event, whatever announced them.
            let mut event = root.clone();
            (event.id, event.cause) = (w.id(), Some(root.id));
            w.store.insert_event(&event).await.unwrap();
            let handler = w.handler("e", None);
            w.store.insert_handler(&handler).await.unwrap();
            let run = w.new_run(&version).await;
            w.versions.insert(run.id, version.id);
            if nth == 4 {
                w.pass(budget.window);
            }
            let reaction = Reaction::Start(Box::new(run));
            let delivery = w.store.deliver(w.now, &event, Recipient::Handler(handler.id), &reaction, budget).await.unwrap().unwrap();
            if let Some(run) = delivery.run {
                w.run = run;
                w.play(&[], &[]).await;
            }
            outcomes.push(delivery.outcome);
        }
        use DeliveryOutcome::{Failed, Started};
        assert_eq!(outcomes, [Started, Started, Failed, Failed, Started], "a new window has a new budget");
        let other = w.announce("e").await;
        assert_eq!(other.root(), other.id, "another cause has its own");
    }

    async fn an_event_keeps_the_span_it_was_announced_in(w: &mut World) {
        let mut event = w.announce("untraced").await;
        assert_eq!(w.store.event(event.id).await.unwrap().as_ref(), Some(&event));
        event.id = w.id();
        event.trace = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00".parse().unwrap());
        w.store.insert_event(&event).await.unwrap();
        assert_eq!(w.store.event(event.id).await.unwrap().as_ref(), Some(&event));
        assert!(w.store.unhandled_events(10).await.unwrap().contains(&event));
    }

    async fn a_flood_of_events_in_one_namespace_does_not_hold_up_another(w: &mut World) {
        for _ in 0..20 {
            w.announce("noise").await;
        }
        let mut quiet = w.announce("quiet").await;
        (quiet.id, quiet.namespace) = (w.id(), "quiet".into());
        w.store.insert_event(&quiet).await.unwrap();
        for waiting in [w.store.unhandled_events(4).await.unwrap(), w.store.unmatched_events(4).await.unwrap()] {
            assert_eq!(waiting.len(), 4);
            assert!(waiting[..2].iter().any(|event| event.id == quiet.id), "{waiting:?}");
        }
    }
}
