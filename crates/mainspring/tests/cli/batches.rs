//! A batch over many dead letters outlives the server that works it off, and retries nothing twice.

use std::time::Duration;

use mainspring_testkit::database::TestDatabase;
use mainspring_testkit::wait;

use crate::support::Place;

const PATIENCE: Duration = Duration::from_secs(120);
/// Each entry is a transaction of its own, so that the server is killed between two of them.
const RUNS: usize = 80;
const SMALL_PAGES: (&str, &str) = ("MAINSPRING_DEAD_LETTERS_BATCH_SIZE", "1");

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_on_after_its_server_was_killed_on_sqlite() {
    a_batch_goes_on_after_its_server_was_killed(&TestDatabase::empty_sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_on_after_its_server_was_killed_on_postgres() {
    a_batch_goes_on_after_its_server_was_killed(&TestDatabase::empty_postgres().await).await;
}

/// How many entries have a status, by the column of the dashboard.
async fn count(database: &TestDatabase, status: &str) -> usize {
    let counted = database.texts(&format!("SELECT CAST({status} AS text) FROM v_dlq_dashboard")).await;
    counted.first().map_or(0, |count| count.parse().unwrap())
}

async fn until_count(database: &TestDatabase, status: &str, is_wanted: impl Fn(usize) -> bool) {
    let look = async || Ok(is_wanted(count(database, status).await).then_some(()));
    wait::until(&format!("entries are {status}"), PATIENCE, look).await.unwrap();
}

async fn a_batch_goes_on_after_its_server_was_killed(database: &TestDatabase) {
    let place = Place::on(database.url());
    let flag = place.path("warehouse-is-up");
    let load = format!("run: test -e {}, shell: sh", flag.display());
    place.write("orders.yaml", format!("name: orders\ntasks:\n  load: {{{load}}}\n"));
    place.call(&["apply", "orders.yaml"]).expect(0);
    place.write("many.jsonl", "{\"workflow\": \"orders\"}\n".repeat(RUNS));
    place.call(&["submit", "--batch", "many.jsonl"]).expect(0);
    let made = place.call(&["tokens", "create", "--role", "operator", "--everywhere"]).expect(0).json();
    let token = made["token"].as_str().unwrap();
    let server = place.server(&[SMALL_PAGES]);
    until_count(database, "pending", |pending| pending == RUNS).await;

    place.write("warehouse-is-up", "");
    let url = format!("http://{}", server.address);
    let asked = Place::new().call_with(
        &["dlq", "retry", "--workflow", "orders", "--by", "ann", "--no-wait"],
        &[("MAINSPRING_SERVER", &url), ("MAINSPRING_TOKEN", token)],
    );
    let batch = asked.expect(0).json()["id"].as_str().unwrap().to_owned();
    until_count(database, "retried", |retried| retried > 0).await;
    server.kill();
    let left = count(database, "pending").await;
    assert!(left > 0, "the batch was over before its server was killed");

    let server = place.server(&[SMALL_PAGES]);
    until_count(database, "retried", |retried| retried == RUNS).await;
    let look = async || {
        let shown = place.call(&["dlq", "batch", &batch]).expect(0).json();
        Ok((shown["status"] == "done").then_some(shown))
    };
    let done = wait::until("the batch is done", PATIENCE, look).await.unwrap();
    assert_eq!((done["done"].as_u64(), done["failed"].as_u64()), (Some(RUNS as u64), Some(0)), "{done}");
    let healed = "SELECT 'healed' FROM runs WHERE finished_at IS NOT NULL AND failed = 0";
    let look = async || Ok((database.texts(healed).await.len() == RUNS).then_some(()));
    wait::until("every run is healed", PATIENCE, look).await.unwrap();
    let twice = "SELECT action FROM operator_actions GROUP BY run_id, action HAVING count(*) > 1";
    assert!(database.texts(twice).await.is_empty(), "nothing is retried twice");
    assert_eq!(database.texts("SELECT action FROM operator_actions").await, vec!["rerun"; RUNS]);
    server.terminate();
}
