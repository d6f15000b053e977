//! Remote workers: a session of theirs claims through the exchange what its queues and labels fit, and nothing else.

use std::collections::BTreeMap;

use mainspring_core::state::TaskState;
use mainspring_core::work::OrderAction;
use mainspring_core::workflow::SlotClass;
use mainspring_core::{Scope, TaskView};
use mainspring_store::{Claimed, Ended, Exchange, NewSession, Reply, Want};
use serde_json::json;

use crate::conformance;
use crate::world::World;

const WORKFLOW: &str = "{name: w, inputs: {day: {type: string, default: today}}, tasks: {
    a: {remote: {handler: publish, payload: {day: '${{ inputs.day }}'}}, queue: gpu, labels: {arch: arm64}},
    b: {needs: a, run: x, env: {N: '${{ tasks.a.output.n }}'}},
    c: {run: x, queue: gpu}}}";

/// A worker of its own, somewhere else.
struct Remote {
    session: i64,
    queues: Vec<String>,
    labels: BTreeMap<String, String>,
}

impl Remote {
    async fn open(w: &World, queues: &[&str], labels: &[(&str, &str)]) -> Self {
        let queues: Vec<String> = queues.iter().map(ToString::to_string).collect();
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let session = NewSession {
            node: w.node,
            worker: "far away".into(),
            hostname: "there".into(),
            queues: queues.join(","),
            labels: pairs.join(","),
            slots: 10,
            function_slots: 0,
            remote: true,
            version: String::new(),
        };
        let session = w.store.open_session(w.now, &session).await.unwrap();
        Self { session, queues, labels }
    }

    /// Asks for remote work of every route that suits it.
    async fn claim(&self, w: &mut World) -> Vec<Claimed> {
        let routes = w.store.routes().await.unwrap();
        let suits = routes
            .iter()
            .filter(|route| route.class() == SlotClass::Remote && route.suits(&self.queues, &self.labels))
            .map(|route| Want {
                session: self.session,
                route: route.id,
                slots: 5,
                hand_over_rank: i16::MAX,
                floor: None,
            });
        let want = suits.collect();
        self.exchange(w, Exchange { want, ..Exchange::default() }).await.claimed
    }

    async fn finish(&self, w: &mut World, claim: &Claimed, output: &str) -> Reply {
        let ended = Ended { output: Some(output.into()), ..w.ended(claim.token, TaskState::Success) };
        self.exchange(w, Exchange { ended: vec![ended], ..Exchange::default() }).await
    }

    async fn exchange(&self, w: &mut World, exchange: Exchange) -> Reply {
        w.lane.exchange(&Exchange { now: w.now, sessions: vec![self.session], ..exchange }).await.unwrap()
    }
}

conformance! {
    async fn a_remote_worker_claims_executes_and_hands_in(w: &mut World) {
        w.submit(WORKFLOW).await;
        let far = Remote::open(w, &["gpu"], &[("arch", "arm64"), ("zone", "b")]).await;
        let claims = far.claim(w).await;
        assert_eq!(claims.iter().map(|claim| w.name(claim.token.key)).collect::<Vec<_>>(), ["a"]);
        assert_eq!((claims[0].token.session, claims[0].token.attempt), (far.session, 1));
        let workflow = w.workflow(w.run).clone();
        let mut scope = Scope::default();
        scope.inputs.insert("day".into(), "monday".into());
        let order = workflow.order(claims[0].token.key.index as usize, &scope).unwrap();
        assert_eq!(order.action, OrderAction::Remote { handler: "publish".into(), payload: json!({"day": "monday"}) });
        let reply = far.finish(w, &claims[0], "{\"n\": 7}").await;
        assert!(reply.fenced.is_empty() && reply.dead_sessions.is_empty());
        w.expect("running a=success b=ready c=ready").await;
        // What comes after sees what the remote worker brought.
        let ended = w.store.ended_tasks(w.run, &[0]).await.unwrap().remove(0);
        let view = TaskView { status: ended.state, attempts: ended.attempt, output: ended.output, error: None };
        scope.tasks.insert("a".into(), view);
        assert_eq!(workflow.order(1, &scope).unwrap().env, [("N".to_owned(), "7".to_owned())]);
        w.play(&[], &[]).await;
        w.expect("success a=success b=success c=success").await;
    }

    async fn what_a_lost_remote_worker_held_goes_to_another(w: &mut World) {
        w.submit(WORKFLOW).await;
        let first = Remote::open(w, &[], &[("arch", "arm64")]).await;
        let claim = first.claim(w).await.remove(0);
        let second = Remote::open(w, &["gpu"], &[("arch", "arm64")]).await;
        assert!(second.claim(w).await.is_empty(), "it is taken");
        assert_eq!(w.reap(first.session).await, 1);
        let again = second.claim(w).await.remove(0);
        assert_eq!((again.token.key, again.token.attempt), (claim.token.key, 2));
        let late = first.finish(w, &claim, "{}").await;
        assert_eq!(late.dead_sessions, [first.session]);
        w.expect("running a=running b=pending c=ready").await;
        second.finish(w, &again, "{}").await;
        w.play(&[], &[]).await;
        let ended = w.store.ended_tasks(w.run, &[0]).await.unwrap().remove(0);
        assert_eq!((ended.attempt, ended.lost), (2, 1));
    }

    async fn a_remote_worker_without_the_labels_or_the_queue_gets_nothing(w: &mut World) {
        w.submit(WORKFLOW).await;
        for (queues, labels) in [
            (&["gpu"][..], &[("arch", "x86")][..]),
            (&["gpu"], &[]),
            (&["default"], &[("arch", "arm64")]),
            (&["cpu", "default"], &[("arch", "arm64")]),
        ] {
            let far = Remote::open(w, queues, labels).await;
            assert!(far.claim(w).await.is_empty(), "{queues:?} {labels:?}");
        }
        w.expect("running a=ready b=pending c=ready").await;
        let fits = Remote::open(w, &["cpu", "gpu"], &[("arch", "arm64")]).await;
        let claim = fits.claim(w).await.remove(0);
        fits.finish(w, &claim, "{}").await;
        w.play(&[], &[]).await;
    }
}
