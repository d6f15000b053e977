//! `mainspring migrate`, `doctor` and `pools`.

use serde_json::json;
use sqlx::Connection;

use crate::support::{Place, on_both_databases};

on_both_databases! { the_schema_goes_up_and_down pools_are_set_and_listed a_newer_schema_is_refused }

fn the_schema_goes_up_and_down(database: &str) {
    let place = Place::on(database);
    place.call(&["runs", "list"]).expect(2).says(&["mainspring migrate up"]);
    place.call(&["migrate", "up", "--dry-run"]).expect(0).says(&["CREATE TABLE"]);
    let missing = |place: &Place| {
        let status = place.call(&["migrate", "status"]).expect(0).json();
        let steps = status["items"].as_array().unwrap().clone();
        (steps.len(), steps.iter().filter(|step| step["applied_at"].is_null()).count())
    };
    let (steps, count) = missing(&place);
    assert_eq!(count, steps);
    place.call(&["migrate", "up"]).expect(0);
    assert_eq!(missing(&place), (steps, 0));
    place.call(&["runs", "list"]).expect(0);
    place.call(&["migrate", "down", "1"]).expect(0);
    assert_eq!(missing(&place), (steps, 1));
    place.call(&["doctor"]).expect(1).says(&["wrong schema", "migrate up"]);
    place.call(&["migrate", "up"]).expect(0);
    place.call(&["doctor"]).expect(0).says(&["ok    schema", "ok    watchdog", "ok    shell"]);
}

fn pools_are_set_and_listed(database: &str) {
    let place = Place::on(database);
    place.call(&["pools", "set", "warehouse", "--slots", "2"]).expect(0);
    place.call(&["pools", "set", "other", "--slots", "unlimited", "-n", "sales"]).expect(0);
    let list = place.call(&["pools", "list"]).expect(0).json();
    assert_eq!(
        list["items"],
        json!([
            {"name": "warehouse", "namespace": "default", "slots": 2, "held": 0},
            {"name": "other", "namespace": "sales", "slots": null, "held": 0},
        ])
    );
    place.call(&["pools", "list", "-n", "sales", "-o", "table"]).expect(0).says(&["other  unlimited  0"]);
}

fn a_newer_schema_is_refused(database: &str) {
    let place = Place::on(database);
    place.call(&["migrate", "up"]).expect(0);
    let sql = "INSERT INTO schema_migrations (version, name, applied_at) VALUES (9999, 'future', 1)";
    tokio::task::block_in_place(|| {
        tokio::runtime::Handle::current().block_on(async {
            if database.starts_with("sqlite") {
                let mut connection = sqlx::SqliteConnection::connect(database).await.unwrap();
                sqlx::query(sql).execute(&mut connection).await.unwrap();
            } else {
                let mut connection = sqlx::PgConnection::connect(database).await.unwrap();
                sqlx::query(sql).execute(&mut connection).await.unwrap();
            }
        });
    });
    place.write("w.yaml", "name: w\ntasks: {}\n");
    for arguments in [
        &["runs", "list"][..],
        &["submit", "w.yaml"],
        &["server", "--listen", "127.0.0.1:0"],
        &["migrate", "up"],
        &["migrate", "down", "1"],
        &["migrate", "status"],
    ] {
        place.call(arguments).expect(2).says(&["9999", "newer"]);
    }
    place.call(&["doctor"]).expect(1).says(&["9999"]);
}
