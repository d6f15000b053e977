//! Files that attempts leave, and the objects that some of them are.

use mainspring_store::{ArtifactPlace, StoredArtifact};

use crate::conformance;
use crate::world::World;

fn artifact(name: &str, place: ArtifactPlace) -> StoredArtifact {
    StoredArtifact { name: name.into(), bytes: 5, sha256: "d1".into(), executable: true, place }
}

fn object(name: &str) -> ArtifactPlace {
    ArtifactPlace::Object(name.into())
}

conformance! {
    async fn files_are_kept_in_the_database_or_as_objects(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        let (key, now) = (w.key("a"), w.now);
        let small = artifact("dist/small", ArtifactPlace::Database(b"hello".to_vec()));
        assert!(w.store.keep_artifact(now, key, 1, &small).await.unwrap());
        let large = artifact("dist/large", object("o1"));
        assert!(!w.store.keep_artifact(now, key, 1, &large).await.unwrap(), "an object that was not announced is not taken");
        w.store.announce_object("o1", now + 10).await.unwrap();
        assert!(w.store.keep_artifact(now, key, 1, &large).await.unwrap());
        assert_eq!(w.store.artifact(key, 1, "dist/small").await.unwrap(), Some(small));
        assert_eq!(w.store.artifact(key, 1, "dist/large").await.unwrap(), Some(large));
        assert_eq!(w.store.artifact(key, 2, "dist/large").await.unwrap(), None);
        assert_eq!(w.store.artifact_bytes(key, 1, "").await.unwrap(), 5, "objects do not count");
        assert_eq!(w.store.artifact_bytes(key, 1, "dist/small").await.unwrap(), 0);
        let listed = w.store.artifacts(w.run).await.unwrap();
        assert_eq!(listed.iter().map(|row| (row.name.as_str(), row.bytes, row.executable)).collect::<Vec<_>>(),
            [("dist/large", 5, true), ("dist/small", 5, true)]);
        assert!(w.store.unused_objects(i64::MAX, 10).await.unwrap().is_empty());
    }

    async fn what_no_artifact_names_is_unused(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        let (key, now) = (w.key("a"), w.now);
        w.store.announce_object("broken-off", now + 10).await.unwrap();
        assert!(w.store.unused_objects(now + 9, 10).await.unwrap().is_empty(), "it may still be on its way");
        assert_eq!(w.store.unused_objects(now + 10, 10).await.unwrap(), ["broken-off"]);
        w.store.forget_object("broken-off").await.unwrap();
        for name in ["first", "second"] {
            w.store.announce_object(name, i64::MAX).await.unwrap();
            assert!(w.store.keep_artifact(now, key, 1, &artifact("x", object(name))).await.unwrap());
        }
        assert_eq!(w.store.unused_objects(now, 10).await.unwrap(), ["first"], "it was replaced");
        w.store.forget_object("first").await.unwrap();
        w.play(&[], &[]).await;
        assert_eq!(w.store.purge_runs(i64::MAX, None).await.unwrap().runs, 1);
        assert_eq!(w.store.unused_objects(now, 10).await.unwrap(), ["second"], "its run is forgotten");
        assert!(w.store.artifacts(key.run).await.unwrap().is_empty());
    }

    async fn the_files_of_the_attempt_that_ended_a_task_are_handed_on(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x, retry: {attempts: 2, delay: 1ms}}, b: {needs: a, run: x}}}").await;
        let (key, now) = (w.key("a"), w.now);
        for attempt in [1, 2] {
            let content = ArtifactPlace::Database(vec![attempt as u8]);
            w.store.keep_artifact(now, key, attempt, &artifact("x", content)).await.unwrap();
        }
        assert!(w.store.artifacts_of_task(w.run, 0).await.unwrap().is_empty(), "it has not ended");
        assert!(!w.store.task_succeeded(w.run, 0).await.unwrap());
        w.play(&[], &[]).await;
        let handed_on = w.store.artifacts_of_task(w.run, 0).await.unwrap();
        assert_eq!(handed_on.iter().map(|row| row.attempt).collect::<Vec<_>>(), [1]);
        assert!(w.store.task_succeeded(w.run, 0).await.unwrap());
    }
}
