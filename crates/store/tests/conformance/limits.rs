//! Pools and concurrency keys: never exceeded, handed on in the same unit, never leaked.

use mainspring_core::state::TaskState;
use mainspring_store::Created;

use crate::conformance;
use crate::world::World;

const POOLED: &str = "{name: w, tasks: {a: {run: x, pool: p}, b: {run: x, pool: p}, c: {run: x, pool: p}}}";

async fn pool(w: &World) -> (Option<i32>, i32) {
    let pools = w.store.pools().await.unwrap();
    (pools[0].slots, pools[0].held)
}

async fn set_pool(w: &mut World, slots: Option<i32>) {
    w.store.set_pool(w.now, "default", "p", slots).await.unwrap();
}

fn limited(rest: &str) -> String {
    format!("{{name: w, concurrency: {{limit: 1{rest}}}, tasks: {{a: {{run: x}}}}}}")
}

conformance! {
    async fn a_pool_lets_in_as_many_as_it_has_slots(w: &mut World) {
        set_pool(w, Some(2)).await;
        w.submit(POOLED).await;
        w.expect("running a=ready b=ready c=gated").await;
        assert_eq!(pool(w).await, (Some(2), 2));
        assert_eq!(w.claim(5).await, ["a", "b"]);
        w.succeed("b").await;
        w.expect("running a=running b=success c=ready").await;
        assert_eq!(pool(w).await, (Some(2), 2));
        w.play(&[], &[]).await;
        assert_eq!(pool(w).await, (Some(2), 0));
    }

    async fn a_pool_that_nobody_sized_is_unlimited(w: &mut World) {
        w.submit(POOLED).await;
        w.expect("running a=ready b=ready c=ready").await;
        assert_eq!(pool(w).await, (None, 3));
    }

    async fn a_pool_may_grow_and_shrink(w: &mut World) {
        set_pool(w, Some(1)).await;
        w.submit(POOLED).await;
        w.expect("running a=ready b=gated c=gated").await;
        set_pool(w, Some(3)).await;
        w.expect("running a=ready b=ready c=ready").await;
        w.claim(3).await;
        set_pool(w, Some(0)).await;
        assert_eq!(pool(w).await, (Some(0), 3), "who is in stays in");
        w.release("a").await;
        w.succeed("b").await;
        w.succeed("c").await;
        w.expect("running a=gated b=success c=success").await;
        set_pool(w, Some(1)).await;
        w.play(&[], &[]).await;
        assert!(w.store.set_pool(w.now, "default", "p", Some(-1)).await.is_err());
    }

    async fn a_slot_goes_to_the_most_urgent_who_waits_longest(w: &mut World) {
        set_pool(w, Some(1)).await;
        w.submit("{name: first, tasks: {a: {run: x, pool: p}}}").await;
        w.claim(1).await;
        let first = w.run;
        w.submit("{name: low, priority: 10, tasks: {a: {run: x, pool: p}}}").await;
        w.submit("{name: second, tasks: {a: {run: x, pool: p}}}").await;
        w.submit("{name: third, tasks: {a: {run: x, pool: p}}}").await;
        w.submit("{name: high, priority: 990, tasks: {a: {run: x, pool: p}}}").await;
        w.run = first;
        let mut order = Vec::new();
        for _ in 0..5 {
            let key = *w.held.keys().next().expect("a run holds the slot");
            w.run = key.run;
            order.push(w.workflow(key.run).name.clone());
            w.succeed("a").await;
            w.claim(5).await;
        }
        assert_eq!(order, ["first", "high", "second", "third", "low"]);
    }

    async fn every_way_to_stop_gives_the_slot_back(w: &mut World) {
        set_pool(w, Some(1)).await;
        w.submit("{name: w, tasks: {a: {run: x, pool: p, retry: {attempts: 3}}}}").await;
        let first = w.run;
        w.submit("{name: other, tasks: {z: {run: x, pool: p}}}").await;
        let other = w.run;
        let steps: [&str; 5] = ["retry", "release", "lose", "pause", "cancel"];
        for step in steps {
            w.run = first;
            if step != "pause" && step != "cancel" {
                w.claim(5).await;
            }
            match step {
                "retry" => _ = w.retry("a").await,
                "release" => _ = w.release("a").await,
                "lose" => _ = w.lose_session().await,
                "pause" => w.pause().await,
                _ => w.cancel().await,
            }
            assert_eq!(pool(w).await.1, 1, "{step}");
            w.run = other;
            if step == "release" || step == "lose" {
                // Who gave it back waited shorter than the other.
                w.expect("running z=ready").await;
            }
            if w.states().await == "running z=ready" {
                w.claim(5).await;
                w.release("z").await;
            }
            w.run = first;
            if step == "retry" {
                w.pass(crate::world::SECOND);
                w.store.promote_due(w.now, 10).await.unwrap();
            }
            // Back to the first, whatever the turn of the two is.
            w.run = other;
            w.pause().await;
            w.run = first;
            if step == "pause" {
                w.resume().await;
            }
            if step != "cancel" {
                w.expect("running a=ready").await;
            }
            w.run = other;
            w.resume().await;
        }
        w.run = first;
        w.expect("cancelled a=cancelled").await;
        w.run = other;
        w.expect("running z=ready").await;
        w.play(&[], &[]).await;
        assert_eq!(pool(w).await.1, 0);
    }

    async fn dependents_that_need_a_pool_go_through_its_gate(w: &mut World) {
        set_pool(w, Some(1)).await;
        w.submit("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x, pool: p}, c: {needs: a, run: x, pool: p}}}").await;
        w.claim(1).await;
        let ended = vec![w.ended(w.token("a"), TaskState::Success)];
        let exchange = mainspring_store::Exchange { ended, want: w.wants(5).await, ..w.empty_exchange() };
        w.exchange(&exchange).await;
        let states = w.states().await;
        assert!(states == "running a=success b=ready c=gated" || states == "running a=success b=running c=gated", "{states}");
        w.play(&[], &[]).await;
    }

    async fn runs_queue_behind_their_concurrency_limit(w: &mut World) {
        let first = w.submit(&limited("")).await;
        let second = w.try_submit(&limited("")).await;
        assert!(matches!(second, Created::Queued(_)));
        let third = w.try_submit(&limited("")).await.run().unwrap();
        w.expect("pending a=held").await;
        w.run = first;
        w.claim(5).await;
        w.succeed("a").await;
        w.proceed().await;
        w.run = second.run().unwrap();
        w.expect("running a=ready").await;
        assert!(w.store.run_summary(w.run).await.unwrap().started_at.is_some());
        w.run = third;
        w.expect("pending a=held").await;
        w.run = second.run().unwrap();
        w.play(&["a"], &[]).await;
        w.run = third;
        w.play(&[], &[]).await;
        w.expect("success a=success").await;
    }

    async fn a_queued_run_without_tasks_ends_when_it_is_let_in(w: &mut World) {
        let first = w.submit(&limited("")).await;
        let empty = w.try_submit("{name: w, concurrency: {limit: 1}}").await.run().unwrap();
        let last = w.try_submit(&limited("")).await.run().unwrap();
        w.run = empty;
        w.expect("pending").await;
        w.run = first;
        w.play(&[], &[]).await;
        w.proceed().await;
        w.run = empty;
        w.expect("success").await;
        w.run = last;
        w.play(&[], &[]).await;
        w.expect("success a=success").await;
    }

    async fn a_queued_run_without_tasks_can_be_cancelled(w: &mut World) {
        let first = w.submit(&limited("")).await;
        w.try_submit("{name: w, concurrency: {limit: 1}}").await;
        w.cancel().await;
        w.expect("cancelled").await;
        w.run = first;
        w.play(&[], &[]).await;
    }

    async fn a_queued_run_can_be_cancelled(w: &mut World) {
        let first = w.submit(&limited("")).await;
        w.try_submit(&limited("")).await;
        let second = w.run;
        let third = w.try_submit(&limited("")).await.run().unwrap();
        w.run = second;
        w.cancel().await;
        w.expect("cancelled a=cancelled").await;
        w.run = third;
        w.expect("pending a=held").await;
        w.run = first;
        w.cancel().await;
        w.proceed().await;
        w.run = third;
        w.expect("running a=ready").await;
        w.play(&[], &[]).await;
    }

    async fn overlap_decides_about_the_newcomer(w: &mut World) {
        w.submit(&limited(", overlap: skip")).await;
        assert_eq!(w.try_submit(&limited(", overlap: skip")).await, Created::Refused);
        let version = w.version(&limited(", overlap: skip")).await;
        let mut keyed = w.new_run(&version).await;
        keyed.idempotency_key = Some("key".into());
        assert_eq!(w.create(keyed).await, Created::Refused);
        assert_eq!(w.store.submitted_run("default", "key").await.unwrap(), None, "a refused request may be repeated");
        assert!(matches!(w.try_submit(&limited(", max_queued: 1")).await, Created::Queued(_)));
        assert_eq!(w.try_submit(&limited(", max_queued: 1")).await, Created::Refused);
        assert!(matches!(w.try_submit(&limited(", overlap: cancel_running")).await, Created::Queued(_)));
        assert!(matches!(w.try_submit(&limited(", overlap: allow")).await, Created::New(_)));
    }

    async fn many_at_once_get_what_they_would_one_by_one(w: &mut World) {
        set_pool(w, Some(1)).await;
        let queue = w.version("{name: q, concurrency: {limit: 2, max_queued: 1}, tasks: {a: {run: x}}}").await;
        let skip = w.version("{name: s, concurrency: {limit: 1, overlap: skip}, tasks: {a: {run: x, pool: p}}}").await;
        let free = w.version("{name: f, tasks: {a: {run: x, pool: p}}}").await;
        let empty = w.version("{name: e, concurrency: {limit: 1}}").await;
        let mut runs = Vec::new();
        for version in [&skip, &queue, &free, &queue, &skip, &queue, &empty, &queue] {
            runs.push(w.new_run(version).await);
            w.versions.insert(runs.last().unwrap().id, version.id);
        }
        let created = w.store.create_runs(w.now, &runs).await.unwrap();
        let words: Vec<&str> = created.iter().zip(&runs).map(|(created, run)| match created {
            Created::New(id) if *id == run.id => "new",
            Created::Queued(id) if *id == run.id => "queued",
            Created::Refused => "refused",
            other => panic!("{other:?}"),
        }).collect();
        assert_eq!(words, ["new", "new", "new", "new", "refused", "queued", "new", "refused"]);
        let held: Vec<(String, i32)> = w.store.limits(1).await.unwrap().into_iter().map(|limit| (limit.key, limit.held)).collect();
        assert_eq!(held, [("default/e".into(), 0), ("default/q".into(), 2), ("default/s".into(), 1)]);
        assert_eq!(pool(w).await, (Some(1), 1));
        for (at, expected) in [(0, "running a=ready"), (2, "running a=gated"), (5, "pending a=held"), (6, "success")] {
            w.run = runs[at].id;
            w.expect(expected).await;
        }
        for at in [0, 1, 2, 3, 5] {
            w.run = runs[at].id;
            w.play(&[], &[]).await;
            w.expect("success a=success").await;
        }
        assert_eq!(pool(w).await, (Some(1), 0));
    }

    async fn limits_are_found_made_and_changed_together(w: &mut World) {
        let named = |wanted: &[(&str, i32)]| wanted.iter().map(|(key, capacity)| ((*key).to_owned(), *capacity)).collect::<Vec<_>>();
        let first = w.store.concurrency_limits(&named(&[("b", 1), ("a", 2)])).await.unwrap();
        assert_ne!(first[0], first[1]);
        let again = w.store.concurrency_limits(&named(&[("c", 3), ("a", 5), ("b", 1)])).await.unwrap();
        assert_eq!(again[1..], [first[1], first[0]], "a limit keeps its id");
        assert_eq!(w.store.concurrency_limit("a", 5).await.unwrap(), first[1]);
        let limits = w.store.limits(1).await.unwrap();
        let capacities: Vec<(&str, Option<i32>)> = limits.iter().map(|limit| (limit.key.as_str(), limit.capacity)).collect();
        assert_eq!(capacities, [("a", Some(5)), ("b", Some(1)), ("c", Some(3))]);
        assert!(w.store.concurrency_limits(&[]).await.unwrap().is_empty());
    }

    async fn a_paused_run_keeps_its_place(w: &mut World) {
        let first = w.submit(&limited("")).await;
        let second = w.try_submit(&limited("")).await.run().unwrap();
        w.run = first;
        w.pause().await;
        w.run = second;
        w.expect("pending a=held").await;
        w.run = first;
        w.resume().await;
        w.play(&[], &[]).await;
        w.run = second;
        w.play(&[], &[]).await;
    }

    async fn a_run_that_is_let_in_finds_its_gates_and_conditions(w: &mut World) {
        set_pool(w, Some(1)).await;
        let yaml = "{name: w, concurrency: {limit: 1}, tasks: {a: {run: x, pool: p}, b: {run: x, pool: p}, c: {run: x, if: 'true'}}}";
        let first = w.submit(yaml).await;
        let second = w.try_submit(yaml).await.run().unwrap();
        w.run = second;
        w.expect("pending a=held b=held c=held").await;
        w.run = first;
        w.play(&[], &[]).await;
        w.proceed().await;
        w.run = second;
        w.expect("running a=ready b=gated c=deciding").await;
        w.play(&[], &[]).await;
    }

    async fn the_sweep_recounts_what_is_held(w: &mut World) {
        set_pool(w, Some(1)).await;
        w.submit(POOLED).await;
        let term = w.lead().await;
        assert_eq!(w.store.reconcile_limits(w.now, &term).await.unwrap(), 0);
        w.expect("running a=ready b=gated c=gated").await;
        w.submit(&limited("").replace("name: w", "name: v")).await;
        assert_eq!(w.store.reconcile_limits(w.now, &term).await.unwrap(), 0);
    }
}
