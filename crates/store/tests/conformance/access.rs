//! Tokens, the audit log, kept answers, secrets and namespaces.

use mainspring_store::{AuditFilter, AuditRow, Claim, Error, KeptAnswer, NewRun, NewToken, Quotas, SealedSecret};
use uuid::Uuid;

use crate::conformance;
use crate::world::World;

fn token(number: u128, expires_at: Option<i64>) -> NewToken {
    let grants = r#"[{"namespace":"*","role":"admin"}]"#.to_owned();
    NewToken {
        id: Uuid::from_u128(number),
        name: "t".into(),
        hash: [7; 32],
        grants,
        created_by: "x".into(),
        expires_at,
    }
}

fn entry(number: u128, namespace: Option<&str>, actor: &str, at: i64) -> AuditRow {
    AuditRow {
        id: Uuid::from_u128(number),
        at,
        actor: actor.into(),
        address: None,
        method: "PUT".into(),
        path: "/x".into(),
        namespace: namespace.map(str::to_owned),
        status: 200,
        request_id: "r".into(),
        detail: None,
    }
}

conformance! {
    async fn tokens_are_kept_touched_and_revoked(world: &mut World) {
        let store = world.store.clone();
        assert!(!store.has_tokens(world.now).await.unwrap());
        store.add_token(world.now, &token(1, Some(world.now + 10))).await.unwrap();
        store.add_token(world.now, &token(2, None)).await.unwrap();
        assert!(store.has_tokens(world.now).await.unwrap());
        let listed: Vec<u128> = store.tokens(None, 10, 0).await.unwrap().iter().map(|row| row.id.as_u128()).collect();
        assert_eq!(listed, [2, 1]);
        assert_eq!(store.tokens(Some(Uuid::from_u128(2)), 10, 0).await.unwrap().len(), 1);
        store.touch_token(world.now, Uuid::from_u128(1)).await.unwrap();
        store.touch_token(world.now + 1_000_000, Uuid::from_u128(1)).await.unwrap();
        let row = store.token(Uuid::from_u128(1)).await.unwrap().unwrap();
        assert_eq!((row.last_used_at, row.hash.len()), (Some(world.now), 32), "written coarsely");
        store.revoke_token(world.now, Uuid::from_u128(2)).await.unwrap();
        store.revoke_token(world.now + 5, Uuid::from_u128(2)).await.unwrap();
        assert_eq!(store.token(Uuid::from_u128(2)).await.unwrap().unwrap().revoked_at, Some(world.now));
        assert!(store.has_tokens(world.now).await.unwrap());
        assert!(!store.has_tokens(world.now + 11).await.unwrap(), "one is revoked, the other has expired");
        assert!(matches!(store.revoke_token(world.now, Uuid::from_u128(9)).await, Err(Error::NotFound { .. })));
    }

    async fn a_request_is_claimed_once_and_answered_from_memory(world: &mut World) {
        let store = world.store.clone();
        let (now, key) = (world.now, ("me", "k"));
        let claim = |number: u128| Uuid::from_u128(number);
        assert_eq!(store.claim_request(now, now - 100, key, &[1; 32], claim(1)).await.unwrap(), Claim::Mine);
        assert_eq!(store.claim_request(now, now - 100, key, &[1; 32], claim(2)).await.unwrap(), Claim::UnderWay);
        assert_eq!(store.claim_request(now, now - 100, key, &[2; 32], claim(3)).await.unwrap(), Claim::Differs);
        assert_eq!(store.claim_request(now, now - 100, ("you", "k"), &[2; 32], claim(4)).await.unwrap(), Claim::Mine);
        // Abandoned: the same request takes it over, and the first holder can keep nothing any more.
        assert_eq!(store.claim_request(now + 200, now + 100, key, &[1; 32], claim(5)).await.unwrap(), Claim::Mine);
        let answer = |status: u16| KeptAnswer { status, content_type: Some("a/b".into()), body: Some(vec![1, 2]) };
        store.keep_answer(key, claim(1), &answer(500)).await.unwrap();
        store.keep_answer(key, claim(5), &answer(201)).await.unwrap();
        store.give_back_request(key, claim(5)).await.unwrap();
        let again = store.claim_request(now + 300, now + 299, key, &[1; 32], claim(6)).await.unwrap();
        assert_eq!(again, Claim::Answered(answer(201)));
        store.give_back_request(("you", "k"), claim(4)).await.unwrap();
        assert_eq!(store.claim_request(now, now - 100, ("you", "k"), &[3; 32], claim(7)).await.unwrap(), Claim::Mine);
        assert_eq!(store.forget_requests(now + 201).await.unwrap(), 2);
    }

    async fn the_audit_log_is_filtered_and_forgotten(world: &mut World) {
        let store = world.store.clone();
        for row in [entry(1, Some("a"), "x", 10), entry(2, Some("b"), "x", 20), entry(3, None, "y", 30)] {
            store.add_audit(&row).await.unwrap();
        }
        let found = async |filter: AuditFilter| -> Vec<u128> {
            let filter = AuditFilter { limit: 10, ..filter };
            store.audit(&filter).await.unwrap().iter().map(|row| row.id.as_u128()).collect()
        };
        assert_eq!(found(AuditFilter::default()).await, [3, 2, 1]);
        assert_eq!(found(AuditFilter { namespaces: Some(vec!["a".into(), "z'".into()]), ..Default::default() }).await, [1]);
        assert!(found(AuditFilter { namespaces: Some(vec![]), ..Default::default() }).await.is_empty());
        assert_eq!(found(AuditFilter { actor: Some("x".into()), ..Default::default() }).await, [2, 1]);
        assert_eq!(found(AuditFilter { since: Some(20), until: Some(30), ..Default::default() }).await, [2]);
        assert_eq!(found(AuditFilter { before: Some(Uuid::from_u128(2)), ..Default::default() }).await, [1]);
        assert_eq!(store.forget_audit(20).await.unwrap(), 1);
    }

    async fn secrets_are_replaced_and_deleted_within_their_namespace(world: &mut World) {
        let store = world.store.clone();
        let sealed = |byte: u8| SealedSecret { name: "K".into(), sealed: vec![byte], key_id: "k".into() };
        assert!(store.put_secret(world.now, "a", &sealed(1), "me").await.unwrap());
        assert!(!store.put_secret(world.now + 1, "a", &sealed(2), "me").await.unwrap());
        store.put_secret(world.now, "b", &sealed(3), "me").await.unwrap();
        assert_eq!(store.sealed_secrets("a").await.unwrap(), [sealed(2)]);
        assert_eq!(store.secrets().await.unwrap().len(), 2);
        store.delete_secret("a", "K").await.unwrap();
        assert!(matches!(store.delete_secret("a", "K").await, Err(Error::NotFound { .. })));
        assert_eq!(store.secret("b", "K").await.unwrap().updated_by, "me");
    }

    async fn the_last_place_of_a_quota_is_taken_once(world: &mut World) {
        let store = world.store.clone();
        let quotas = Quotas { max_open_runs: Some(1), max_workflows: Some(1) };
        store.add_namespace(world.now, "a", None, quotas).await.unwrap();
        let version = world.version("{name: w, namespace: a, tasks: {t: {run: x}}}").await;
        let (one, two) = (world.new_run(&version).await, world.new_run(&version).await);
        let ids = [one.id, two.id];
        let (first, second) = tokio::join!(
            store.create_runs_within(world.now, std::slice::from_ref(&one), "a", 1),
            store.create_runs_within(world.now, std::slice::from_ref(&two), "a", 1)
        );
        let made: Vec<bool> = [first, second].into_iter().map(|made| made.unwrap().is_some()).collect();
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
        let other = mainspring_core::parse("{name: other, namespace: a, tasks: {t: {run: x}}}").unwrap();
        let id = world.id();
        let refused = store.put_version(world.now, id, &other, "", &[]).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)) && refused.to_string().contains("may have 1 workflows"), "{refused}");
        world.run = ids[made.iter().position(|made| *made).unwrap()];
        world.versions.insert(world.run, version.id);
        world.play(&[], &[]).await;
    }

    async fn no_run_is_made_of_a_deleted_workflow(world: &mut World) {
        let version = world.version("{name: w, tasks: {t: {run: x}}}").await;
        world.store.delete_workflow(version.workflow_id).await.unwrap();
        let plain = world.new_run(&version).await;
        let later = NewRun { start_at: Some(world.now + 1), ..world.new_run(&version).await };
        for new in [plain, later] {
            let refused = world.store.create_runs(world.now, std::slice::from_ref(&new)).await.unwrap_err();
            assert!(matches!(refused, Error::NotFound { .. }), "{refused:?}");
            assert!(world.store.run_summary(new.id).await.is_err(), "nothing is left of it");
        }
    }

    async fn namespaces_have_quotas_and_go_with_everything(world: &mut World) {
        let store = world.store.clone();
        let quotas = Quotas { max_open_runs: Some(2), max_workflows: None };
        store.add_namespace(world.now, "a", Some("words"), quotas).await.unwrap();
        assert!(matches!(store.add_namespace(world.now, "a", None, quotas).await, Err(Error::Conflict(_))));
        assert_eq!(store.quotas("a").await.unwrap(), quotas);
        assert_eq!(store.quotas("b").await.unwrap(), Quotas::default());
        assert!(!store.is_used("a").await.unwrap());
        let sealed = SealedSecret { name: "K".into(), sealed: vec![1], key_id: "k".into() };
        store.put_secret(world.now, "a", &sealed, "me").await.unwrap();
        assert!(store.is_used("a").await.unwrap());
        store.delete_namespace(world.now, "a").await.unwrap();
        assert!(store.namespaces().await.unwrap().iter().all(|row| row.name != "a"));
        assert!(!store.is_used("a").await.unwrap());
    }
}
