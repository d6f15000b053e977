//! Values that reach the database: bound, never part of a statement.

use std::sync::Arc;

use mainspring_engine::{AnswerError, Client, NewEvent, Submission, SubmitError, SystemClock};
use mainspring_store::{Flavor, Operator, RunFilter};
use mainspring_testkit::TestDatabase;
use serde_json::{Map, Value, json};

use crate::place::Place;
use crate::values;

const TEXT: &str = "
name: w
inputs: {v: {type: string}}
concurrency: {key: '${{ inputs.v }}', limit: 1, overlap: queue, max_queued: 10}
tasks: {t: {wait: {event: never}, pool: p}}
";

/// Everything that a caller may name is found again by that very name, and by no other.
async fn check(flavor: Flavor) {
    let place = Place::new();
    let values = values::all(&place);
    let database = TestDatabase::new(flavor).await;
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let spec =
        client.put_workflow(mainspring_core::parse(TEXT).expect("a workflow"), TEXT).await.expect("it is stored");
    for value in &values {
        let submission = || Submission {
            inputs: Map::from_iter([("v".to_owned(), Value::from(value.as_str()))]),
            correlation_id: Some(value.clone()),
            idempotency_key: Some(value.clone()),
            trigger: Some(json!({"by": value})),
            ..Submission::default()
        };
        let first = client.submit(&spec, submission()).await.unwrap_or_else(|error| panic!("{value:?}: {error}"));
        let again = client.submit(&spec, submission()).await.expect("the same again");
        assert_eq!(first.run(), again.run(), "{value:?}");
        let run = first.run().expect("it is made");
        let row = client.store().run(run).await.expect("it can be read");
        assert_eq!(row.correlation_id.as_ref(), Some(value));
        assert_eq!(row.inputs, Some(json!({"v": value})));
        let filter = RunFilter { correlation_id: Some(value.clone()), limit: 10, ..RunFilter::default() };
        let found: Vec<_> = client.store().list_runs(&filter).await.expect("a list").iter().map(|run| run.id).collect();
        assert_eq!(found, [run], "{value:?}");
        for filter in [
            RunFilter { workflow: Some(value.clone()), limit: 10, ..RunFilter::default() },
            RunFilter { namespace: Some(value.clone()), limit: 10, ..RunFilter::default() },
        ] {
            assert!(client.store().list_runs(&filter).await.expect("a list").is_empty(), "{value:?}");
        }
        emit(&client, value).await;
        let operator = Operator::new(value.clone(), Some(value.clone()));
        client.cancel(run, &operator).await.expect("it is cancelled");
        client.store().set_pool(client.now(), "default", value, Some(1)).await.expect("the pool is set");
        assert!(client.latest(value, value).await.is_err());
    }
    let runs: i64 = client.store().run_counts().await.expect("counts").iter().map(|count| count.runs).sum();
    assert_eq!(runs, values.len() as i64);
    let pools = client.store().pools().await.expect("pools");
    assert!(values.iter().all(|value| pools.iter().any(|pool| pool.name == *value)), "{pools:?}");
}

async fn emit(client: &Client, value: &str) {
    let event = NewEvent {
        namespace: value.to_owned(),
        name: value.to_owned(),
        key: Some(value.to_owned()),
        data: json!({"v": value}),
        source: value.to_owned(),
    };
    if value.chars().count() > 255 {
        let refused = client.emit(event).await.unwrap_err().to_string();
        assert!(refused.contains("1 to 255 characters"), "{refused}");
        return;
    }
    client.emit(event).await.unwrap_or_else(|error| panic!("{value:?}: {error}"));
    let found = client.store().events_since(value, value, 0, None).await.expect("events");
    assert_eq!(found.len(), 1, "{value:?}");
    assert_eq!((found[0].key.as_deref(), &found[0].data), (Some(value), &json!({"v": value})));
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_injection_on_sqlite() {
    check(Flavor::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_injection_on_postgres() {
    check(Flavor::Postgres).await;
}

/// Through the real program: what is submitted under a hostile id is found under it, and nothing else is.
async fn check_program(flavor: Flavor) {
    let place = Place::new();
    let database = TestDatabase::new(flavor).await;
    place.write("w.yaml", "{name: w, inputs: {v: {type: string}}, tasks: {t: {function: noop}}}");
    let values = values::sql(&place);
    for value in &values {
        let input = format!("v={value}");
        let made = place.call(&[
            "--database",
            database.url(),
            "-o",
            "json",
            "submit",
            "w.yaml",
            "-i",
            &input,
            "--correlation-id",
            value,
        ]);
        assert_eq!(made.code, 0, "{value:?}: {made:?}");
        let listed =
            place.call(&["--database", database.url(), "-o", "json", "runs", "list", "--correlation-id", value]);
        let items = listed.json()["items"].clone();
        assert_eq!(items.as_array().map(Vec::len), Some(1), "{value:?}: {items}");
        assert_eq!(items[0]["id"], made.json()["id"], "{value:?}");
        let by_name = place.call(&["--database", database.url(), "-o", "json", "runs", "list", "--workflow", value]);
        assert_ne!(by_name.code, 3, "{by_name:?}");
        let event = ["--database", database.url(), "events", "emit", "n", "--key", value, "--data", "{}"];
        assert_eq!(place.call(&event).code, 0, "{value:?}");
    }
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let runs: i64 = client.store().run_counts().await.expect("counts").iter().map(|count| count.runs).sum();
    assert_eq!(runs, values.len() as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_injection_through_the_program_on_sqlite() {
    check_program(Flavor::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_injection_through_the_program_on_postgres() {
    check_program(Flavor::Postgres).await;
}

/// PostgreSQL cannot store NUL: what carries one is refused with an answer, not with a broken transaction.
#[tokio::test(flavor = "multi_thread")]
async fn sql_injection_through_nul() {
    for flavor in [Flavor::Sqlite, Flavor::Postgres] {
        let database = TestDatabase::new(flavor).await;
        let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
        let text = "{name: w, inputs: {v: {type: string}}, tasks: {t: {function: noop}}}";
        let spec = client.put_workflow(mainspring_core::parse(text).expect("a workflow"), text).await.expect("stored");
        let nul = || Some("a\0b".to_owned());
        let inputs = |v: &str| Map::from_iter([("v".to_owned(), Value::from(v))]);
        for submission in [
            Submission { inputs: inputs("a\0b"), ..Submission::default() },
            Submission { inputs: inputs("x"), correlation_id: nul(), ..Submission::default() },
            Submission { inputs: inputs("x"), idempotency_key: nul(), ..Submission::default() },
        ] {
            let error = client.submit(&spec, submission).await.expect_err("it is refused");
            assert!(!matches!(error, SubmitError::Store(_)), "{flavor:?}: {error}");
        }
        for (name, key) in [("a\0b", None), ("a", nul())] {
            let event = NewEvent {
                namespace: "default".into(),
                name: name.into(),
                key,
                data: json!({"v": "a\0b"}),
                source: "test".into(),
            };
            let error = client.emit(event).await.expect_err("it is refused");
            assert!(matches!(error, AnswerError::Nul(_)), "{flavor:?}: {error}");
        }
        assert!(client.store().run_counts().await.expect("counts").is_empty());
    }
}
