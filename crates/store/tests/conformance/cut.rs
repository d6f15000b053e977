//! Units that are cut off: their future is dropped at any moment, and nothing of them stays behind.

use std::time::Duration;

use mainspring_store::{Created, EventRow, Operator};
use mainspring_testkit::transactions;
use serde_json::json;

use crate::conformance;
use crate::world::World;

/// A unit takes about a millisecond, with its connection; one that is cut later has ended.
const CUTS: u64 = 60;
const STEP: Duration = Duration::from_micros(40);

conformance! {
    async fn a_unit_cut_off_at_any_moment_leaves_no_transaction_open(world: &mut World) {
        let store = world.store.clone();
        let version = world.version("name: cut\ntasks: {a: {function: noop}}").await;
        let template = world.new_run(&version).await;
        let operator = Operator::new("test", None);
        let mut made = Vec::new();
        for cut in 0..CUTS {
            let after = STEP * u32::try_from(cut).unwrap();
            let mut run = template.clone();
            run.id = world.id();
            run.idempotency_key = Some(format!("k{cut}"));
            let event = EventRow {
                id: world.id(), namespace: "default".into(), name: "e".into(), key: None, data: json!({}),
                source: "test".into(), run: None, depth: 0, cause: None, trace: None, created_at: world.now,
            };
            _ = tokio::time::timeout(after, store.create_runs(world.now, std::slice::from_ref(&run))).await;
            _ = tokio::time::timeout(after, store.insert_event(&event)).await;
            _ = tokio::time::timeout(after, store.cancel_run(world.now, world.id(), run.id, &operator)).await;
            _ = tokio::time::timeout(after, store.set_pool(world.now, "default", "p", Some(3))).await;
            made.push(run);
        }
        let url = world.db.url().to_owned();
        assert_eq!(transactions::check(&url).await.unwrap(), []);
        // What is acknowledged from now on stays, whichever connection it went over.
        for run in &made {
            let again = store.create_runs(world.now, std::slice::from_ref(run)).await.unwrap();
            assert!(matches!(again[0], Created::New(id) | Created::Repeated(id) if id == run.id), "{again:?}");
            store.cancel_run(world.now, world.id(), run.id, &operator).await.unwrap();
        }
        assert_eq!(transactions::check(&url).await.unwrap(), []);
        for run in &made {
            assert!(store.run_summary(run.id).await.unwrap().state.is_terminal());
        }
    }
}
