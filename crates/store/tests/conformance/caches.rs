//! Results and files that later runs take over.

use mainspring_core::TaskKey;
use mainspring_core::state::TaskState;
use mainspring_core::workflow::CacheKind;
use mainspring_store::{ArtifactPlace, CacheHit, CacheLookup, CacheSource, StoredArtifact};

use crate::conformance;
use crate::world::{SECOND, World};

const ONE: &str = "{name: w, tasks: {a: {run: x}}}";

fn lookup(kind: CacheKind, scope: &'static str) -> CacheLookup<'static> {
    CacheLookup { kind, scope, key: "k", ttl_micros: 10 * SECOND, anew: false }
}

fn by(key: TaskKey) -> CacheSource {
    CacheSource { key, attempt: 1 }
}

fn file(name: &str, place: ArtifactPlace) -> StoredArtifact {
    StoredArtifact { name: name.into(), bytes: 5, sha256: "d1".into(), executable: true, place }
}

/// A run whose task is claimed, and has asked.
async fn ask(w: &mut World, wanted: &CacheLookup<'_>) -> (TaskKey, Option<CacheHit>) {
    w.submit(ONE).await;
    w.claim(1).await;
    let key = w.key("a");
    let hit = w.store.use_cache(w.now, by(key), wanted).await.unwrap();
    (key, hit)
}

conformance! {
    async fn a_result_is_found_once_its_attempt_has_succeeded(w: &mut World) {
        let wanted = lookup(CacheKind::Result, "s/w/a");
        let (first, hit) = ask(w, &wanted).await;
        assert_eq!(hit, None);
        let (second, hit) = ask(w, &wanted).await;
        assert_eq!(hit, None, "it is still being computed");
        w.fail("a").await;
        w.run = first.run;
        w.succeed("a").await;
        let (third, hit) = ask(w, &wanted).await;
        let hit = hit.expect("it was computed");
        assert_eq!(hit.source, by(first));
        let uses = w.store.cache_uses(third.run).await.unwrap();
        assert_eq!((uses[0].task_run, uses[0].key.as_str(), uses[0].source), (third, "k", Some(by(first))));
        assert_eq!(w.store.cache_uses(second.run).await.unwrap()[0].source, None);
        // Asked again, it is written down once.
        assert!(w.store.use_cache(w.now, by(third), &wanted).await.unwrap().is_some());
        assert_eq!(w.store.cache_uses(third.run).await.unwrap().len(), 1);
        for other in [
            lookup(CacheKind::Result, "s/w/b"),
            lookup(CacheKind::Files, "s/w/a"),
            CacheLookup { key: "other", ..wanted },
            CacheLookup { anew: true, ..wanted },
            CacheLookup { ttl_micros: 0, ..wanted },
        ] {
            let asks = CacheSource { key: third, attempt: 7 };
            assert_eq!(w.store.use_cache(w.now, asks, &other).await.unwrap(), None, "{other:?}");
        }
        w.succeed("a").await;
        w.pass(10 * SECOND);
        let (_, hit) = ask(w, &wanted).await;
        assert_eq!(hit, None, "its time is up");
        w.succeed("a").await;
    }

    async fn a_result_outlives_its_run_and_not_its_time(w: &mut World) {
        let wanted = lookup(CacheKind::Result, "s/w/a");
        let (first, _) = ask(w, &wanted).await;
        let token = w.held[&first].token;
        let mut exchange = w.empty_exchange();
        let mut ended = w.ended(token, TaskState::Success);
        ended.output = Some(r#"{"rows":3}"#.into());
        exchange.ended.push(ended);
        w.exchange(&exchange).await;
        assert_eq!(w.store.purge_runs(i64::MAX, None).await.unwrap().runs, 1);
        let (second, hit) = ask(w, &wanted).await;
        assert_eq!(hit, Some(CacheHit { source: by(first), output: Some(r#"{"rows":3}"#.into()) }));
        w.succeed("a").await;
        assert_eq!(w.store.forget_expired_caches(w.now).await.unwrap(), 0);
        assert!(w.store.forget_expired_caches(w.now + 20 * SECOND).await.unwrap() > 0);
        let again = CacheLookup { ttl_micros: i64::MAX, ..wanted };
        assert_eq!(w.store.use_cache(w.now, by(second), &again).await.unwrap(), None, "it is forgotten");
    }

    async fn files_are_found_when_all_of_them_are_there(w: &mut World) {
        let wanted = lookup(CacheKind::Files, "s");
        let (first, _) = ask(w, &wanted).await;
        let small = file("dist/a", ArtifactPlace::Database(b"hello".to_vec()));
        assert!(w.store.keep_cached_file(w.now, first, 1, 2, &small).await.unwrap());
        let large = file("dist/b", ArtifactPlace::Object("o1".into()));
        assert!(!w.store.keep_cached_file(w.now, first, 1, 2, &large).await.unwrap(), "it was not announced");
        assert!(!w.store.keep_cached_file(w.now, first, 2, 2, &small).await.unwrap(), "no such attempt has asked");
        w.succeed("a").await;
        let (_, hit) = ask(w, &wanted).await;
        assert_eq!(hit, None, "one of two is missing");
        w.succeed("a").await;
        w.store.announce_object("o1", i64::MAX).await.unwrap();
        assert!(w.store.keep_cached_file(w.now, first, 1, 2, &large).await.unwrap());
        let (third, hit) = ask(w, &wanted).await;
        assert_eq!(hit.map(|hit| hit.source), Some(by(first)));
        assert_eq!(w.store.files_given_to(by(third)).await.unwrap(), Some(by(first)));
        assert_eq!(w.store.files_given_to(by(first)).await.unwrap(), None);
        let names = |rows: Vec<mainspring_store::ArtifactRow>| rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
        assert_eq!(names(w.store.cached_files(first, 1).await.unwrap()), ["dist/a", "dist/b"]);
        assert_eq!(w.store.cached_file(first, 1, "dist/b").await.unwrap(), Some(large));
        assert_eq!(w.store.cached_bytes(first, 1, "").await.unwrap(), 5, "objects do not count");
        assert!(w.store.artifacts(first.run).await.unwrap().is_empty(), "they are no artifacts");
        w.succeed("a").await;
        assert_eq!(w.store.purge_runs(i64::MAX, None).await.unwrap().runs, 3);
        assert_eq!(w.store.cached_file(first, 1, "dist/a").await.unwrap(), Some(small), "they outlive their run");
        while w.store.forget_expired_caches(i64::MAX).await.unwrap() > 0 {}
        assert!(w.store.cached_files(first, 1).await.unwrap().is_empty());
        assert_eq!(w.store.unused_objects(w.now, 10).await.unwrap(), ["o1"]);
    }
}
