//! Each listener makes of each event what it makes of it, exactly once.

use mainspring_store::{DeliveryOutcome, EventRow, Reaction, Recipient};
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
            w.store.deliver(now, &event, recipient, &one),
            other.deliver(now, &event, recipient, &two)
        );
        let done: Vec<_> = [first.unwrap(), second.unwrap()].into_iter().flatten().collect();
        assert_eq!(done.len(), 1);
        assert_eq!(done[0].outcome, DeliveryOutcome::Started);
        w.run = done[0].run.unwrap();
        assert!(w.store.deliver(now, &event, recipient, &one).await.unwrap().is_none());
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
        let delivery = w.store.deliver(w.now, &event, Recipient::Handler(handler.id), &reaction).await.unwrap().unwrap();
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
            w.store.deliver(w.now, &event, Recipient::Handler(handler.id), &reaction).await.unwrap().unwrap();
        }
        assert_eq!(w.store.pending_dead_letters(run).await.unwrap(), 1);
    }
}
