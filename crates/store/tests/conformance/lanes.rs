//! Lanes: an exchange happens once, in order, and one in doubt can be resolved.

use mainspring_core::state::TaskState;
use mainspring_store::{Error, Exchange, Resolution};

use crate::conformance;
use crate::world::{World, execute};

const TWO: &str = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {run: x, if: 'true'}}}";

conformance! {
    async fn an_exchange_that_was_applied_is_not_applied_again(w: &mut World) {
        w.submit(TWO).await;
        let claim = Exchange { want: w.wants(5).await, ..w.empty_exchange() };
        w.exchange(&claim).await;
        // The lane's next exchange was applied, but the lane does not know it.
        execute(&w.db, "UPDATE lanes SET seq = seq + 1").await;
        let error = w.lane.exchange(&claim).await.unwrap_err();
        assert!(matches!(error, Error::InDoubt(_)), "{error}");
        w.expect("running a=running b=pending c=deciding").await;
        assert!(matches!(w.lane.resolve(&[w.session]).await.unwrap(), Resolution::Applied(_)));
        assert!(w.lane.exchange(&w.empty_exchange()).await.is_ok(), "a resolved lane goes on");
    }

    async fn an_exchange_that_never_was_is_resolved_as_not_applied(w: &mut World) {
        w.submit(TWO).await;
        assert!(matches!(w.lane.resolve(&[w.session]).await.unwrap(), Resolution::NotApplied));
        // It can never be applied afterwards: its number is used up.
        assert_eq!(w.claim(5).await, ["a"]);
        assert!(matches!(w.lane.resolve(&[w.session]).await.unwrap(), Resolution::NotApplied));
    }

    async fn a_resolution_whose_answer_was_lost_is_repeated(w: &mut World) {
        w.submit(TWO).await;
        // Its guard was moved in its place, and no answer said so.
        execute(&w.db, "UPDATE lanes SET seq = seq + 1, voided = seq + 1").await;
        assert!(matches!(w.lane.resolve(&[w.session]).await.unwrap(), Resolution::NotApplied));
        assert_eq!(w.claim(5).await, ["a"], "the lane goes on behind it");
    }

    async fn a_lane_that_was_forgotten_is_replaced(w: &mut World) {
        w.submit(TWO).await;
        execute(&w.db, "DELETE FROM lanes").await;
        let claim = Exchange { want: w.wants(5).await, ..w.empty_exchange() };
        let error = w.lane.exchange(&claim).await.unwrap_err();
        assert!(matches!(error, Error::InDoubt(_)), "{error}");
        assert!(matches!(w.lane.resolve(&[w.session]).await.unwrap(), Resolution::NotApplied));
        assert_eq!(w.claim(5).await, ["a"]);
    }

    async fn resolving_tells_what_was_claimed(w: &mut World) {
        w.submit(TWO).await;
        let exchange = Exchange {
            want: w.wants(5).await,
            decide_session: w.session,
            decide: 5,
            look_for_undecided: true,
            ..w.empty_exchange()
        };
        let mut lane = w.store.open_lane(w.node, w.now).await.unwrap();
        let expected = lane.exchange(&exchange).await.unwrap();
        // The reply is lost: a handle that stands before the exchange resolves it.
        let mut doubtful = w.store.open_lane(w.node, w.now).await.unwrap();
        let last = lane_ids(w).await;
        execute(&w.db, &format!("UPDATE lanes SET seq = 1 WHERE id = {}", last[2])).await;
        execute(&w.db, &format!("UPDATE task_runs SET claim = {} WHERE claim IS NOT NULL", (last[2] << 32) | 1)).await;
        let Resolution::Applied(found) = doubtful.resolve(&[w.session]).await.unwrap() else { panic!("it was applied") };
        assert_eq!(found.claimed, expected.claimed);
        assert_eq!(found.to_decide, expected.to_decide);
        w.note(&exchange, &found);
        w.play(&[], &[]).await;
    }

    async fn an_exchange_that_a_dead_session_kept_from_applying_is_resolved_as_not_applied(w: &mut World) {
        w.submit(TWO).await;
        w.claim(5).await;
        let dead = w.open_session().await;
        w.reap(dead).await;
        let ended = w.held.values().map(|claim| w.ended(claim.token, TaskState::Success)).collect();
        let exchange = Exchange { sessions: vec![w.session, dead], ended, ..w.empty_exchange() };
        let mut lane = w.store.open_lane(w.node, w.now).await.unwrap();
        assert_eq!(lane.exchange(&exchange).await.unwrap().dead_sessions, [dead]);
        // Its answer is lost: a handle that stands before the exchange resolves it.
        let mut doubtful = w.store.open_lane(w.node, w.now).await.unwrap();
        let ids = lane_ids(w).await;
        let of = |column: &str| format!("(SELECT o.{column} FROM lanes o WHERE o.id = {})", ids[1]);
        let copied =
            format!("UPDATE lanes SET seq = {}, voided = {} WHERE id = {}", of("seq"), of("voided"), ids[2]);
        execute(&w.db, &copied).await;
        let resolution = doubtful.resolve(&[w.session, dead]).await.unwrap();
        assert!(matches!(resolution, Resolution::NotApplied), "the result of the live session was not taken");
        w.expect("running a=running b=pending c=deciding").await;
        w.play(&[], &[]).await;
    }

    async fn lanes_do_not_disturb_each_other(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}, b: {run: x}}}").await;
        let mut other = w.store.open_lane(w.node, w.now).await.unwrap();
        w.claim(1).await;
        let claim = Exchange { want: w.wants(1).await, ..w.empty_exchange() };
        let reply = other.exchange(&claim).await.unwrap();
        assert_eq!(reply.claimed.len(), 1);
        w.note(&claim, &reply);
        let ended = w.held.values().map(|claim| w.ended(claim.token, TaskState::Success)).collect();
        let reply = other.exchange(&Exchange { ended, ..w.empty_exchange() }).await.unwrap();
        assert_eq!(reply.ended_runs.len(), 1, "a result may come by another lane than its claim");
        w.held.clear();
    }

    async fn lanes_of_nodes_that_are_gone_are_forgotten(w: &mut World) {
        let old = uuid::Uuid::from_u128(9);
        w.store.open_lane(old, w.now).await.unwrap();
        assert_eq!(w.store.forget_lanes(w.now).await.unwrap(), 0, "not yet");
        assert_eq!(w.store.forget_lanes(w.now + 1).await.unwrap(), 1);
        assert!(w.lane.exchange(&w.empty_exchange()).await.is_ok(), "that of a live node stays");
    }
}

async fn lane_ids(w: &World) -> Vec<i64> {
    use sqlx::Connection;
    let sql = "SELECT id FROM lanes ORDER BY id";
    let rows: Vec<(i64,)> = if w.db.url().starts_with("postgres") {
        let mut connection = sqlx::PgConnection::connect(w.db.url()).await.unwrap();
        sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap()
    } else {
        let mut connection = sqlx::SqliteConnection::connect(w.db.url()).await.unwrap();
        sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap()
    };
    rows.into_iter().map(|row| row.0).collect()
}
