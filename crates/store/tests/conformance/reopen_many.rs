//! Many runs reopened by one unit: each as it would be alone, and one that is refused disturbs no other.

use mainspring_core::RunId;
use mainspring_store::{Error, Reopen, ReopenRequest};

use crate::conformance;
use crate::world::{World, operator};

/// Reopens these runs in one unit.
async fn reopen(w: &mut World, runs: &[RunId], what: &Reopen) -> Vec<Result<usize, Error>> {
    let workflows: Vec<_> = runs.iter().map(|run| w.workflow(*run).clone()).collect();
    let requests: Vec<ReopenRequest<'_>> = runs
        .iter()
        .zip(&workflows)
        .map(|(run, workflow)| ReopenRequest {
            action: w.id(),
            run: *run,
            workflow,
            what: what.clone(),
            inputs: None,
            letters: Vec::new(),
        })
        .collect();
    let outcomes = w.store.reopen_runs(w.now, &requests, &operator()).await.unwrap();
    w.pass(crate::world::MILLI);
    outcomes.into_iter().map(|outcome| outcome.map(|reopened| reopened.tasks)).collect()
}

conformance! {
    async fn many_runs_are_reopened_at_once(w: &mut World) {
        let yaml = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}, finally: {z: {run: x}}}";
        let mut runs = Vec::new();
        for _ in 0..5 {
            runs.push(w.submit(yaml).await);
            w.play(&["a"], &[]).await;
        }
        let well = w.submit(yaml).await;
        w.play(&[], &[]).await;
        let outcomes = reopen(w, &[runs[0], well, runs[1], runs[2], runs[3], runs[4]], &Reopen::From(vec![0])).await;
        assert!(matches!(&outcomes[1], Err(Error::Conflict(said)) if said.contains("success")), "{outcomes:?}");
        assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Ok(2))).count(), 5, "{outcomes:?}");
        for run in &runs {
            w.run = *run;
            w.expect("running a=ready b=pending").await;
            w.check_now().await;
            assert_eq!(w.store.pending_dead_letters(*run).await.unwrap(), 0);
        }
        for run in &runs {
            w.run = *run;
            w.play(&[], &[]).await;
            w.expect("success a=success b=success z=success").await;
            w.check_now().await;
        }
        let again = reopen(w, &runs, &Reopen::From(vec![0])).await;
        assert!(again.iter().all(|outcome| matches!(outcome, Err(Error::Conflict(_)))), "{again:?}");
    }

    async fn they_share_limits_and_pools(w: &mut World) {
        w.store.set_pool(w.now, "default", "p", Some(1)).await.unwrap();
        let yaml = "{name: w, concurrency: {limit: 2}, tasks: {a: {run: x, pool: p}}}";
        let mut runs = Vec::new();
        for _ in 0..4 {
            runs.push(w.submit(yaml).await);
            w.play(&["a"], &[]).await;
        }
        let outcomes = reopen(w, &runs, &Reopen::Failed).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(1))), "{outcomes:?}");
        let mut states = Vec::new();
        for run in &runs {
            w.run = *run;
            w.check_now().await;
            states.push(w.states().await);
        }
        assert_eq!(states, ["running a=ready", "running a=gated", "pending a=held", "pending a=held"]);
        assert_eq!(w.store.pool("default", "p").await.unwrap().held, 1);
        for run in &runs {
            w.run = *run;
            w.play(&[], &[]).await;
            w.expect("success a=success").await;
        }
        assert_eq!(w.store.pool("default", "p").await.unwrap().held, 0);
    }
}
