//! Members of the cluster and named locks.

use mainspring_store::NewMember;
use uuid::Uuid;

use crate::conformance;
use crate::world::{SECOND, World};

fn member(node: u128) -> NewMember {
    NewMember {
        node: Uuid::from_u128(node),
        name: format!("node-{node}"),
        address: None,
        roles: "api,worker".into(),
        version: "1".into(),
        started_at: 5,
    }
}

conformance! {
    async fn members_beat_and_leave(w: &mut World) {
        w.store.beat_member(w.now, &member(1)).await.unwrap();
        w.store.beat_member(w.now, &member(2)).await.unwrap();
        w.store.beat_member(w.now + SECOND, &member(1)).await.unwrap();
        let seen = w.store.members().await.unwrap();
        let beats: Vec<(String, i64, i64)> = seen.into_iter().map(|row| (row.name, row.beat, row.beat_at)).collect();
        assert_eq!(beats, [("node-1".into(), 2, w.now + SECOND), ("node-2".into(), 1, w.now)]);
        assert_eq!(w.store.forget_members(w.now + 1).await.unwrap(), 1, "one was silent");
        w.store.remove_member(Uuid::from_u128(1)).await.unwrap();
        assert!(w.store.members().await.unwrap().is_empty());
    }

    async fn a_lock_is_taken_once_and_its_value_rises(w: &mut World) {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!(w.store.lock_row("x").await.unwrap(), None);
        let first = w.store.take_lock("x", one, "one", 1_000, None).await.unwrap().unwrap();
        assert_eq!(w.store.take_lock("x", other, "other", 1_000, None).await.unwrap(), None, "another was first");
        let seen = w.store.lock_row("x").await.unwrap().unwrap();
        assert_eq!((seen.fence, seen.holder, seen.released), (1, one, false));
        assert!(w.store.beat_lock("x", first.fence, one).await.unwrap());
        assert_eq!(w.store.take_lock("x", other, "other", 1_000, Some(&seen)).await.unwrap(), None, "it beat meanwhile");
        let silent = w.store.lock_row("x").await.unwrap();
        let second = w.store.take_lock("x", other, "other", 2_000, silent.as_ref()).await.unwrap().unwrap();
        assert_eq!((second.fence, second.ttl_ms, second.beat), (2, 2_000, 0));
        assert!(!w.store.beat_lock("x", first.fence, one).await.unwrap(), "the first holder learns that it lost it");
        w.store.release_lock("x", first.fence, one).await.unwrap();
        assert!(!w.store.lock_row("x").await.unwrap().unwrap().released, "what another holds cannot be released");
        w.store.release_lock("x", second.fence, other).await.unwrap();
        let released = w.store.lock_row("x").await.unwrap().unwrap();
        assert!(released.released);
        let third = w.store.take_lock("x", one, "one", 1_000, Some(&released)).await.unwrap().unwrap();
        assert_eq!((third.fence, third.released), (3, false));
    }
}
