//! `mainspring migrate`, `doctor`, `pools`, `backup`, `restore` and `migrate-store`.

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
    place.call(&["migrate", "down", &steps.to_string()]).expect(0);
    assert_eq!(missing(&place), (steps, steps));
    // Without any step the database is empty, and a server would prepare it.
    place.call(&["runs", "list"]).expect(2).says(&["mainspring migrate up"]);
    place.call(&["doctor"]).expect(0).says(&["the database is empty; a server prepares it by itself"]);
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
    let set = ["pools", "set", "mail", "--slots", "5", "--rate", "100", "--per", "1m"];
    let says = "pool default/mail has 5 slots, and starts 100 task runs per 1m at most";
    place.call(&[&set[..], &["-o", "table"]].concat()).expect(0).says(&[says]);
    let list = place.call(&["pools", "list"]).expect(0).json();
    let mail =
        json!({"name": "mail", "namespace": "default", "slots": 5, "held": 0, "rate": 100, "per": "1m", "used": 0});
    assert_eq!(list["items"][0], mail);
    place.call(&["pools", "list", "-o", "table"]).expect(0).says(&["RATE", "100 per 1m"]);
    for (wrong, says) in [
        (&["--rate", "100"][..], "--per <DURATION>"),
        (&["--per", "1m"], "--rate <N>"),
        (&["--rate", "0", "--per", "1m"], "--rate is `0`"),
        (&["--rate", "many", "--per", "1m"], "write a whole number from 1 to 1,000,000"),
        (&["--rate", "1", "--per", "10ms"], "write a duration from 1s to 1d"),
    ] {
        place.call(&[&set[..5], wrong].concat()).expect(2).says(&[says]);
    }
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

/// A folder whose database has one run.
fn with_a_run() -> Place {
    let place = Place::new();
    place.write("w.yaml", "name: w\ntriggers: [{cron: \"0 3 1 1 *\"}]\ntasks: {t: {run: echo hello}}\n");
    place.call(&["run", "w.yaml", "--keep"]).expect(0);
    // `run` leaves triggers alone: this makes the schedule.
    place.call(&["apply", "w.yaml"]).expect(0);
    place.call_reading(&["secrets", "set", "API_KEY"], "hidden").expect(0);
    place
}

/// What moves and copies keep besides runs, and that nothing in it contradicts itself.
async fn is_whole(place: &Place, url: &str) {
    for (noun, count) in [("runs", 1), ("schedules", 1), ("secrets", 1)] {
        let listed = place.call(&[noun, "list", "--database", url]).expect(0).json();
        assert_eq!(listed["items"].as_array().unwrap().len(), count, "{noun}: {listed:#}");
    }
    let violations = mainspring_testkit::invariants::check_at_rest(url).await.unwrap();
    assert!(violations.is_empty(), "{violations:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_copied_and_put_back() {
    use std::os::unix::fs::PermissionsExt;

    let place = with_a_run();
    place.call(&["backup", "copy.db"]).expect(0);
    let mode = std::fs::metadata(place.path("copy.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "others can read the copy");
    place.call(&["backup", "copy.db"]).expect(2).says(&["copy.db exists already"]);

    place.call(&["pools", "set", "later", "--slots", "2"]).expect(0);
    place.call(&["restore", "copy.db"]).expect(2).says(&["exists already", "--replace"]);
    place.call(&["restore", "nothing.db", "--replace"]).expect(2).says(&["there is no file nothing.db"]);
    place.call(&["restore", "copy.db", "--replace"]).expect(0).says(&["is kept as"]);
    assert!(place.path(".mainspring/mainspring.db.replaced").exists());
    assert_eq!(place.call(&["pools", "list"]).expect(0).json()["items"], json!([]), "as it was when it was copied");
    is_whole(&place, &format!("sqlite://{}", place.path(".mainspring/mainspring.db").display())).await;
}

#[test]
fn what_was_replaced_earlier_is_kept() {
    let place = with_a_run();
    place.call(&["backup", "copy.db"]).expect(0);
    let size = |name: &str| std::fs::metadata(place.path(name)).map(|file| file.len()).ok();
    place.call(&["restore", "copy.db", "--replace"]).expect(0);
    let first = size(".mainspring/mainspring.db.replaced");
    place.write("more.yaml", format!("name: more\ntasks: {{t: {{run: \"# {}\"}}}}\n", "x".repeat(500_000)));
    place.call(&["apply", "more.yaml"]).expect(0);
    place.call(&["restore", "copy.db", "--replace"]).expect(0).says(&["mainspring.db.replaced.2"]);
    assert_eq!(size(".mainspring/mainspring.db.replaced"), first);
    assert!(size(".mainspring/mainspring.db.replaced.2").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_newer_program_is_refused_with_both_versions() {
    let place = with_a_run();
    place.call(&["backup", "copy.db"]).expect(0);
    let status = place.call(&["migrate", "status"]).expect(0).json();
    let known = status["items"].as_array().unwrap().iter().filter_map(|step| step["version"].as_i64()).max().unwrap();
    let url = format!("sqlite://{}", place.path("copy.db").display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let sql = "INSERT INTO schema_migrations (version, name, applied_at) VALUES (9999, 'future', 1)";
    sqlx::query(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    place.call(&["restore", "copy.db", "--replace"]).expect(2).says(&["9999", &known.to_string()]);
    assert!(!place.path(".mainspring/mainspring.db.replaced").exists(), "nothing was touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_moves_from_sqlite_to_postgres() {
    let database = mainspring_testkit::database::TestDatabase::empty_postgres().await;
    let place = with_a_run();
    let move_it = ["migrate-store", "--from", "sqlite://.mainspring/mainspring.db", "--to", database.url()];
    let moved = place.call(&move_it).expect(0).json();
    let rows = |table: &str| {
        let items = moved["items"].as_array().unwrap();
        items.iter().find(|item| item["table"] == table).map(|item| item["rows"].clone())
    };
    assert_eq!((rows("workflows"), rows("versions")), (Some(json!(1)), Some(json!(2))), "{moved:#}");
    let listed = place.call(&["runs", "list", "--database", database.url()]).expect(0).json();
    let run = listed["items"][0]["id"].as_str().unwrap();
    assert_eq!(listed["items"][0]["status"], "success");
    place.call(&["runs", "logs", run, "--database", database.url()]).expect(0).says(&["hello"]);
    place.call(&move_it).expect(2).says(&["holds workflows already"]);
    is_whole(&place, database.url()).await;
}
