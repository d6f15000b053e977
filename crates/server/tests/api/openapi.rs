//! The description of the API is committed as `openapi.json`, so that a change of it is seen in the difference.
//!
//! `MAINSPRING_UPDATE_OPENAPI=1` writes it anew; look at the difference before it is committed.

use std::path::PathBuf;

use mainspring_store::Flavor;
use serde_json::Value;

use crate::test_api::TestApi;

fn committed() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../openapi.json")
}

#[tokio::test]
async fn the_committed_description_is_the_served_one() {
    let api = TestApi::new(Flavor::Sqlite).await;
    let served: Value = serde_json::from_str(api.service.openapi()).unwrap();
    let served = format!("{}\n", serde_json::to_string_pretty(&served).unwrap());
    if std::env::var_os("MAINSPRING_UPDATE_OPENAPI").is_some() {
        std::fs::write(committed(), &served).unwrap();
    }
    let committed = std::fs::read_to_string(committed()).unwrap_or_default();
    let differs = committed.lines().zip(served.lines()).position(|(one, other)| one != other);
    assert!(
        committed == served,
        "openapi.json is not what is served, from line {} on: run this test with MAINSPRING_UPDATE_OPENAPI=1 and look at \
         the difference",
        differs.map_or(committed.lines().count().min(served.lines().count()), |line| line + 1)
    );
}

/// What made generated clients wrong: open objects that look empty, optional fields with a `null` default.
#[tokio::test]
async fn clients_can_be_generated_from_it() {
    let api = TestApi::new(Flavor::Sqlite).await;
    let document: Value = serde_json::from_str(api.service.openapi()).unwrap();
    let mut wrong = Vec::new();
    look(&document, "", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn look(value: &Value, place: &str, wrong: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if fields.get("default").is_some_and(Value::is_null) {
                wrong.push(format!("{place}: default null"));
            }
            if fields.get("type").is_some_and(|kind| kind == "object")
                && !fields.contains_key("properties")
                && !fields.contains_key("additionalProperties")
            {
                wrong.push(format!("{place}: an open object that looks empty"));
            }
            fields.iter().for_each(|(key, value)| look(value, &format!("{place}/{key}"), wrong));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(nth, value)| look(value, &format!("{place}/{nth}"), wrong));
        }
        _ => {}
    }
}
