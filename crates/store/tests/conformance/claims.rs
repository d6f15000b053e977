//! Which row is claimed, by whom, in which order.

use mainspring_store::{Exchange, Flavor, Want};

use crate::conformance;
use crate::world::World;

conformance! {
    async fn priority_comes_first_and_then_the_time_of_waiting(w: &mut World) {
        w.submit("{name: old, tasks: {a: {run: x}}}").await;
        w.submit("{name: urgent, priority: 900, tasks: {a: {run: x}, b: {run: x, priority: 100}}}").await;
        w.submit("{name: new, tasks: {a: {run: x}, b: {run: x, priority: 950}}}").await;
        assert_eq!(w.claim_in_order().await, ["b", "urgent.a", "old.a", "a", "urgent.b"]);
    }

    async fn a_run_may_override_the_priority_of_its_workflow(w: &mut World) {
        let version = w.version("{name: w, tasks: {a: {run: x}}}").await;
        w.submit("{name: other, tasks: {a: {run: x}}}").await;
        let mut urgent = w.new_run(&version).await;
        urgent.priority = Some(1_000);
        w.create(urgent).await;
        assert_eq!(w.claim_in_order().await, ["a", "other.a"]);
    }

    async fn a_claim_takes_no_more_than_it_asks_for_and_only_from_its_route(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}, c: {run: x}, f: {function: noop}, q: {run: x, queue: q}}}").await;
        let routes = w.store.routes().await.unwrap();
        let process = routes.iter().find(|route| route.queue == "default" && route.class().word() == "process").unwrap();
        let want = Want { session: w.session, route: process.id, slots: 2, hand_over_rank: 0, floor: None };
        let exchange = Exchange { want: vec![want], ..w.empty_exchange() };
        let names = |w: &World, reply: mainspring_store::Reply| -> Vec<String> {
            let mut names: Vec<String> = reply.claimed.iter().map(|claim| w.name(claim.token.key)).collect();
            names.sort();
            names
        };
        let reply = w.exchange(&exchange).await;
        assert_eq!(names(w, reply), ["a", "b"]);
        let reply = w.exchange(&Exchange { now: w.now, ..exchange.clone() }).await;
        assert_eq!(names(w, reply), ["c"]);
        assert!(w.exchange(&Exchange { now: w.now, ..exchange }).await.claimed.is_empty());
        w.expect("running a=running b=running c=running f=ready q=ready").await;
    }

    async fn a_claim_says_what_it_is(w: &mut World) {
        w.submit("{name: w, priority: 300, tasks: {a: {run: x}}}").await;
        w.claim(1).await;
        let claim = w.held[&w.key("a")];
        assert_eq!((claim.token.session, claim.token.attempt), (w.session, 1));
        assert_eq!((claim.rank, claim.failures, claim.generation), (700, 0, 0));
        assert_eq!(claim.version, w.store.run_summary(w.run).await.unwrap().version);
        let row = &w.store.task_runs(w.run).await.unwrap()[0];
        assert_eq!((row.session, row.attempt), (Some(w.session), 1));
        assert!(row.started_at.is_some());
    }

    async fn a_floor_hides_only_what_lies_before_it(w: &mut World) {
        let mut floors = Vec::new();
        for name in ["one", "two", "three"] {
            w.submit(&format!("{{name: {name}, tasks: {{a: {{run: x}}}}}}")).await;
            floors.push((500, w.now));
        }
        w.submit("{name: urgent, priority: 900, tasks: {a: {run: x}}}").await;
        let route = w.store.routes().await.unwrap()[0].id;
        let want = Want { session: w.session, route, slots: 10, hand_over_rank: 0, floor: Some(floors[1]) };
        let exchange = Exchange { want: vec![want], ..w.empty_exchange() };
        let reply = w.exchange(&exchange).await;
        let mut names: Vec<String> = reply.claimed.iter().map(|claim| w.name(claim.token.key)).collect();
        names.sort();
        assert!(names.contains(&"a".to_owned()) && names.contains(&"three.a".to_owned()), "{names:?}");
        if w.store.flavor() == Flavor::Postgres {
            // Dead rows lie before a floor on PostgreSQL only; SQLite may look at everything.
            assert_eq!(names.len(), 2, "{names:?}");
        }
        w.claim(10).await;
        assert_eq!(w.held.len(), 4, "without a floor everything is found");
    }

    async fn two_sessions_never_claim_the_same_row(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}, c: {run: x}, d: {run: x}}}").await;
        let first = w.session;
        assert_eq!(w.claim(2).await.len(), 2);
        w.session = w.open_session().await;
        assert_eq!(w.claim(10).await.len(), 2);
        assert_eq!(w.held.len(), 4);
        assert_eq!(w.held.values().filter(|claim| claim.token.session == first).count(), 2);
    }

    async fn a_chain_never_visits_the_queue(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, function: noop}}}").await;
        w.claim(1).await;
        for (done, next) in [("a", "b"), ("b", "c")] {
            let ended = vec![w.ended(w.token(done), mainspring_core::state::TaskState::Success)];
            let exchange = Exchange { ended, want: w.wants(1).await, ..w.empty_exchange() };
            let reply = w.exchange(&exchange).await;
            let claimed: Vec<String> = reply.claimed.iter().map(|claim| w.name(claim.token.key)).collect();
            assert_eq!(claimed, [next]);
            assert_eq!(reply.claimed[0].token.attempt, 1);
        }
        let reply = w.succeed("c").await;
        assert_eq!(reply.ended_runs, [(w.run, mainspring_core::state::RunState::Success)]);
    }

    async fn a_dependent_that_ranks_too_low_queues_like_everybody(w: &mut World) {
        w.submit("{name: other, priority: 800, tasks: {a: {run: x}}}").await;
        w.submit("{name: w, tasks: {a: {run: x, priority: 900}, b: {needs: a, run: x}, c: {needs: a, run: x, priority: 900}}}").await;
        w.claim(1).await;
        let ended = vec![w.ended(w.token("a"), mainspring_core::state::TaskState::Success)];
        let mut want = w.wants(2).await;
        want[0].hand_over_rank = 200;
        let exchange = Exchange { ended, want, ..w.empty_exchange() };
        let reply = w.exchange(&exchange).await;
        let mut claimed: Vec<String> = reply.claimed.iter().map(|claim| w.name(claim.token.key)).collect();
        claimed.sort();
        assert_eq!(claimed, ["c", "other.a"]);
        w.expect("running a=success b=ready c=running").await;
    }

    async fn hand_over_takes_no_more_slots_than_are_free(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: a, run: x}, d: {needs: a, run: x}}}").await;
        w.claim(1).await;
        let ended = vec![w.ended(w.token("a"), mainspring_core::state::TaskState::Success)];
        let exchange = Exchange { ended, want: w.wants(2).await, ..w.empty_exchange() };
        assert_eq!(w.exchange(&exchange).await.claimed.len(), 2);
        w.expect("running a=success b=running c=running d=ready").await;
        assert_eq!(w.claim(5).await, ["d"]);
    }
}
