//! Sessions of remote workers: the guard of their exchanges, the node that carries them, and what they share.

use mainspring_core::state::TaskState;
use mainspring_store::{Exchange, ExchangeGuard, NewRemoteSession, Want, WorkerGuard};
use uuid::Uuid;

use crate::conformance;
use crate::world::World;

async fn register(w: &World) -> i64 {
    let session = NewRemoteSession {
        node: w.node,
        worker: "far".into(),
        hostname: "there".into(),
        queues: String::new(),
        labels: String::new(),
        namespaces: None,
        slots: [4, 4, 4],
        handlers: String::new(),
        version: "1".into(),
        token_hash: vec![7; 32],
    };
    w.store.open_remote_session(w.now, &session).await.unwrap()
}

fn guard(w: &World, session: i64, seq: i64, backlog: i32) -> WorkerGuard {
    WorkerGuard { session, seq, node: w.node, backlog }
}

/// Claims up to `slots` rows for a session.
async fn claim(w: &mut World, session: i64, slots: i32) -> Vec<mainspring_store::Claimed> {
    let routes = w.store.routes().await.unwrap();
    let want =
        routes.iter().map(|route| Want { session, route: route.id, slots, hand_over_rank: i16::MAX, floor: None });
    let exchange = Exchange { now: w.now, sessions: vec![session], want: want.collect(), ..Exchange::default() };
    w.lane.exchange(&exchange).await.unwrap().claimed
}

conformance! {
    async fn the_guard_lets_the_next_exchange_pass_and_the_last_one_again_at_any_node(w: &mut World) {
        let session = register(w).await;
        let pass = async |w: &World, guard: WorkerGuard| w.store.guard_worker_exchange(w.now, guard).await.unwrap();
        let (stays, moves) = (ExchangeGuard::Passed { moved: false }, ExchangeGuard::Passed { moved: true });
        assert_eq!(pass(w, guard(w, session, 1, 0)).await, stays);
        assert_eq!(pass(w, guard(w, session, 1, 0)).await, stays);
        let elsewhere = Uuid::from_u128(9);
        assert_eq!(pass(w, WorkerGuard { node: elsewhere, ..guard(w, session, 2, 0) }).await, moves);
        assert_eq!(pass(w, guard(w, session, 2, 0)).await, moves, "back again: the other node may have told it more");
        assert_eq!(pass(w, WorkerGuard { node: elsewhere, ..guard(w, session, 2, 0) }).await, moves);
        assert_eq!(pass(w, guard(w, session, 1, 0)).await, ExchangeGuard::OutOfOrder { last: 2 });
        assert_eq!(pass(w, guard(w, session, 4, 0)).await, ExchangeGuard::OutOfOrder { last: 2 });
        let row = w.store.live_sessions().await.unwrap().into_iter().find(|row| row.id == session).unwrap();
        assert_eq!((row.node, row.beat), (elsewhere, 5), "it came: that is a beat, and it moved");
        w.store.end_session(w.now, session).await.unwrap();
        assert_eq!(pass(w, guard(w, session, 3, 0)).await, ExchangeGuard::Dead);
    }

    async fn renewal_beats_the_remote_sessions_that_were_heard_and_no_others(w: &mut World) {
        let (heard, silent) = (register(w).await, register(w).await);
        let mut renewed = w.store.renew(w.now, w.node, &[heard]).await.unwrap();
        renewed.sort_unstable();
        assert_eq!(renewed, [(w.session, false, false), (heard, false, true)]);
        w.store.drain_session(heard).await.unwrap();
        let renewed = w.store.renew(w.now, w.node, &[heard, silent]).await.unwrap();
        assert!(renewed.contains(&(heard, true, true)) && renewed.contains(&(silent, false, true)), "{renewed:?}");
        assert!(w.store.renew(w.now, Uuid::from_u128(9), &[heard]).await.unwrap().is_empty(), "another node does not carry it");
    }

    async fn what_a_session_holds_and_what_was_applied_can_be_asked(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}}}").await;
        let session = register(w).await;
        let claims = claim(w, session, 5).await;
        assert_eq!(claims.len(), 2);
        let held = w.store.claims_of(session).await.unwrap();
        assert_eq!(held.len(), 2);
        assert!(held.iter().all(|claim| claims.iter().any(|other| other.token == claim.token)));
        let token = claims[0].token;
        assert!(!w.store.was_applied(token).await.unwrap());
        let ended = w.ended(token, TaskState::Success);
        let exchange = Exchange { now: w.now, sessions: vec![session], ended: vec![ended], ..Exchange::default() };
        assert!(w.lane.exchange(&exchange).await.unwrap().fenced.is_empty());
        assert!(w.store.was_applied(token).await.unwrap());
        let mut forged = token;
        forged.session = w.session;
        assert!(!w.store.was_applied(forged).await.unwrap());
        assert_eq!(w.store.claims_of(session).await.unwrap().len(), 1);
    }

    async fn several_sessions_claim_from_one_route_in_one_exchange(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}, c: {run: x}}}").await;
        let (small, big) = (register(w).await, register(w).await);
        let route = w.store.routes().await.unwrap()[0].id;
        let want = |session, slots| Want { session, route, slots, hand_over_rank: i16::MAX, floor: None };
        let exchange = Exchange {
            now: w.now,
            sessions: vec![small, big],
            want: vec![want(small, 1), want(big, 100)],
            ..Exchange::default()
        };
        let claimed = w.lane.exchange(&exchange).await.unwrap().claimed;
        let of = |session: i64| claimed.iter().filter(|claim| claim.token.session == session).count();
        assert_eq!((of(small), of(big)), (1, 2));
    }

    async fn an_idle_session_asks_the_one_with_the_largest_backlog_once(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}, c: {run: x}}}").await;
        let (victim, thief) = (register(w).await, register(w).await);
        let routes: Vec<i32> = w.store.routes().await.unwrap().iter().map(|route| route.id).collect();
        assert_eq!(w.store.ask_to_share(w.now, thief, &routes).await.unwrap(), None, "none holds anything");
        claim(w, victim, 5).await;
        w.store.guard_worker_exchange(w.now, guard(w, victim, 1, 3)).await.unwrap();
        assert_eq!(w.store.ask_to_share(w.now, thief, &[-1]).await.unwrap(), None, "nothing that it serves");
        assert_eq!(w.store.ask_to_share(w.now, victim, &routes).await.unwrap(), None, "not of itself");
        assert_eq!(w.store.ask_to_share(w.now, thief, &routes).await.unwrap(), Some(victim));
        assert_eq!(w.store.ask_to_share(w.now, thief, &routes).await.unwrap(), None, "it is asked already");
        assert!(w.store.take_share_requests(&[thief]).await.unwrap().is_empty());
        assert_eq!(w.store.take_share_requests(&[victim]).await.unwrap(), [(victim, 2)]);
        assert!(w.store.take_share_requests(&[victim]).await.unwrap().is_empty(), "once");
    }
}
