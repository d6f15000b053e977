//! A batch over many dead letters outlives the server that works it off, and retries nothing twice.

use mainspring_testkit::database::TestDatabase;

use crate::support::{Place, until};

/// So many entries are several transactions.
const RUNS: usize = 240;
const SMALL_PAGES: (&str, &str) = ("MAINSPRING_DEAD_LETTERS_BATCH_SIZE", "4");

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_on_after_its_server_was_killed_on_sqlite() {
    a_batch_goes_on_after_its_server_was_killed(&TestDatabase::empty_sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_on_after_its_server_was_killed_on_postgres() {
    a_batch_goes_on_after_its_server_was_killed(&TestDatabase::empty_postgres().await).await;
}

/// What the statistics count of entries with a status.
fn count(place: &Place, status: &str) -> usize {
    let stats = place.call(&["dlq", "stats"]).expect(0).json();
    stats[format!("{status}_count")].as_u64().unwrap() as usize
}

async fn a_batch_goes_on_after_its_server_was_killed(database: &TestDatabase) {
    let place = Place::on(database.url());
    let flag = place.path("warehouse-is-up");
    place.write(
        "orders.yaml",
        format!("name: orders\ntasks:\n  load: {{run: test -e {}, shell: sh}}\n", flag.display()),
    );
    place.call(&["apply", "orders.yaml"]).expect(0);
    place.write("many.jsonl", "{\"workflow\": \"orders\"}\n".repeat(RUNS));
    place.call(&["submit", "--batch", "many.jsonl"]).expect(0);
    let server = place.server(&[SMALL_PAGES]);
    until("every run has failed", || (count(&place, "pending") == RUNS).then_some(()));

    place.write("warehouse-is-up", "");
    let url = format!("http://{}", server.address);
    let made = place.call(&["tokens", "create", "--role", "operator", "--everywhere"]).expect(0).json();
    let token = made["token"].as_str().unwrap();
    let asked = Place::new().call_with(
        &["dlq", "retry", "--workflow", "orders", "--by", "ann", "--no-wait"],
        &[("MAINSPRING_SERVER", &url), ("MAINSPRING_TOKEN", token)],
    );
    let batch = asked.expect(0).json()["id"].as_str().unwrap().to_owned();
    until("the batch has begun", || (count(&place, "retried") > 0).then_some(()));
    server.kill();
    let left = count(&place, "pending");
    assert!(left > 0, "the batch was over before its server was killed");

    let server = place.server(&[SMALL_PAGES]);
    let done = until("the batch is done", || {
        Some(place.call(&["dlq", "batch", &batch]).expect(0).json()).filter(|shown| shown["status"] == "done")
    });
    assert_eq!((done["done"].as_u64(), done["failed"].as_u64()), (Some(RUNS as u64), Some(0)), "{done}");
    assert_eq!((count(&place, "pending"), count(&place, "retried")), (0, RUNS));
    let healed = "SELECT CAST(id AS text) FROM runs WHERE finished_at IS NOT NULL AND failed = 0";
    let healed = if database.url().starts_with("sqlite") {
        healed.replace("CAST(id AS text)", "hex(id)")
    } else {
        healed.into()
    };
    let started = std::time::Instant::now();
    while database.texts(&healed).await.len() < RUNS {
        assert!(started.elapsed().as_secs() < 120, "not every run is healed");
        tokio::task::yield_now().await;
    }
    let twice = "SELECT action FROM operator_actions GROUP BY run_id, action HAVING count(*) > 1";
    assert!(database.texts(twice).await.is_empty(), "nothing is retried twice");
    assert_eq!(database.texts("SELECT action FROM operator_actions").await, vec!["rerun"; RUNS]);
    server.terminate();
}
