//! What `mainspring bench` measures, in small.

use mainspring_testkit::database::TestDatabase;
use serde_json::Value;

use crate::support::Place;

/// `--retention` ends with an error unless all old runs are gone and all others are there.
fn a_drain_is_measured_beside_retention(database: &TestDatabase) {
    let place = Place::on(database.url());
    let arguments = ["bench", "--workload", "drain", "--n", "1000", "--retention", "250"];
    let line: Value = place.call(&arguments).expect(0).json();
    assert_eq!((&line["workload"], &line["n"], &line["old"]), (&"drain_retention".into(), &1_000.into(), &250.into()));
    assert!(line["rate"].as_f64().unwrap() > 0.0);
    assert!(line["deleted_rate"].as_f64().unwrap() > 0.0);
    assert!(line["deleted_meanwhile"].as_u64().unwrap() <= 250);
    let runs = place.call(&["runs", "list", "--limit", "100"]).expect(0).json();
    let runs = runs["items"].as_array().unwrap();
    assert_eq!(runs.len(), 10, "{runs:?}");
    assert!(runs.iter().all(|run| run["workflow"] == "bench-100"), "{runs:?}");
}

#[tokio::test]
async fn a_drain_is_measured_beside_retention_on_sqlite() {
    a_drain_is_measured_beside_retention(&TestDatabase::empty_sqlite().await);
}

#[tokio::test]
async fn a_drain_is_measured_beside_retention_on_postgres() {
    a_drain_is_measured_beside_retention(&TestDatabase::empty_postgres().await);
}

#[test]
fn retention_and_a_held_snapshot_are_measured_apart() {
    let arguments = ["bench", "--workload", "drain", "--retention", "10", "--held-snapshot"];
    Place::new().call(&arguments).expect(2).says(&["cannot be used with"]);
}
