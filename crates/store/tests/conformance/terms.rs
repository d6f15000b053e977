//! Leadership: one holder per epoch, and nothing of an old term happens.

use uuid::Uuid;

use crate::conformance;
use crate::world::{SECOND, World};

conformance! {
    async fn the_first_takes_it_and_keeps_it_by_beating(w: &mut World) {
        assert_eq!(w.store.term("leader").await.unwrap(), None);
        let (one, other) = (Uuid::from_u128(11), Uuid::from_u128(12));
        let term = w.store.take_term("leader", one, w.id(), None).await.unwrap().unwrap();
        assert_eq!((term.epoch, term.node, term.beat), (1, one, 0));
        assert_eq!(w.store.take_term("leader", other, w.id(), None).await.unwrap(), None, "another node was first");
        let seen = w.store.term("leader").await.unwrap().unwrap();
        assert!(w.store.beat_term(&term).await.unwrap());
        assert_eq!(w.store.take_term("leader", other, w.id(), Some(&seen)).await.unwrap(), None, "it beat meanwhile");
    }

    async fn a_term_that_stood_still_is_taken_once(w: &mut World) {
        let first = w.lead().await;
        let seen = w.store.term("leader").await.unwrap().unwrap();
        let second = w.store.take_term("leader", Uuid::from_u128(12), w.id(), Some(&seen)).await.unwrap().unwrap();
        assert_eq!(second.epoch, 2);
        assert_eq!(w.store.take_term("leader", Uuid::from_u128(13), w.id(), Some(&seen)).await.unwrap(), None);
        assert!(!w.store.beat_term(&first).await.unwrap(), "the old holder learns it");
        assert!(w.store.beat_term(&second).await.unwrap());
    }

    async fn a_term_can_be_given_up(w: &mut World) {
        let first = w.lead().await;
        w.store.release_term(&first).await.unwrap();
        let seen = w.store.term("leader").await.unwrap().unwrap();
        assert!(seen.released);
        let second = w.store.take_term("leader", w.node, w.id(), Some(&seen)).await.unwrap().unwrap();
        assert!(!second.released);
        w.store.release_term(&first).await.unwrap();
        assert!(!w.store.term("leader").await.unwrap().unwrap().released, "a node gives up its own term only");
    }

    async fn duties_are_led_apart(w: &mut World) {
        let leader = w.lead().await;
        let other = w.store.take_term("other", w.node, w.id(), None).await.unwrap().unwrap();
        assert_eq!((leader.epoch, other.epoch), (1, 1));
    }

    async fn an_old_leaders_unit_does_nothing(w: &mut World) {
        w.submit("{name: w, timeout: 10s, tasks: {a: {run: x}}}").await;
        w.claim(1).await;
        let old = w.lead().await;
        let new = w.lead().await;
        assert_eq!((old.epoch, new.epoch), (1, 2));
        w.pass(11 * SECOND);
        assert_eq!(w.store.reap_session(w.now, w.session, 0, &old).await.unwrap(), 0);
        assert_eq!(w.store.expire_runs(w.now, &old).await.unwrap(), 0);
        w.expect("running a=running").await;
        assert_eq!(w.store.live_sessions().await.unwrap().len(), 1);
        assert_eq!(w.store.expire_runs(w.now, &new).await.unwrap(), 1);
        assert_eq!(w.store.reap_session(w.now, w.session, 0, &new).await.unwrap(), 1);
        w.expect("failed a=cancelled").await;
    }
}
