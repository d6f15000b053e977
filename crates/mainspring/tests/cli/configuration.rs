//! `mainspring.toml`, the environment and flags.

use crate::support::Place;

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let place = Place::new();
    place.write("mainspring.toml", "databse = \"x\"\n[worker]\nslots = \"many\"\nlease_ttl = \"1s\"\n");
    place.call(&["runs", "list"]).expect(2).says(&[
        "mainspring.toml:1:1: unknown key `databse`: did you mean `database`?",
        "mainspring.toml:3:9: `worker.slots` is `many`, but must be a whole number",
        "mainspring.toml:4:13: `worker.lease_ttl` is `1s`",
    ]);
    place.write("other.toml", "[log\n");
    place.call(&["runs", "list", "--config", "other.toml"]).expect(2).says(&["other.toml:1:"]);
    place.call(&["runs", "list", "--config", "none.toml"]).expect(2).says(&["none.toml cannot be read"]);
}

#[test]
fn variables_nobody_knows_are_errors() {
    let place = Place::new();
    let ended = place.call_with(&["runs", "list"], &[("MAINSPRING_WORKER_LEASE_TLL", "1s")]).expect(2);
    ended.says(&["MAINSPRING_WORKER_LEASE_TLL", "did you mean `MAINSPRING_WORKER_LEASE_TTL`?"]);
    place.call_with(&["runs", "list"], &[("MAINSPRING_WORKER_GRACE", "10")]).expect(2).says(&["a duration such as"]);
}

#[test]
fn later_words_are_stronger() {
    let place = Place::new();
    let database = |ended: crate::support::Ended| {
        let report = ended.json();
        let settings = report["items"].as_array().unwrap().iter().filter(|item| item["check"] == "setting");
        settings
            .map(|item| item["message"].as_str().unwrap().to_owned())
            .find(|text| text.starts_with("database ="))
            .unwrap()
    };
    place.write("mainspring.toml", "database = \"sqlite://file.db\"\n");
    let doctor = ["doctor", "-o", "json"];
    assert!(database(place.call(&doctor)).contains("sqlite://file.db  (from mainspring.toml:1:12"));
    let variables = [("DATABASE_URL", "sqlite://variable.db")];
    assert!(database(place.call_with(&doctor, &variables)).contains("sqlite://variable.db  (from DATABASE_URL"));
    let flags = [&doctor[..], &["--database", "sqlite://flag.db"]].concat();
    assert!(database(place.call_with(&flags, &variables)).contains("sqlite://flag.db  (from --database"));
    place.write("url", "sqlite://secret.db\n");
    let variables = [("DATABASE_URL_FILE", "url")];
    assert!(database(place.call_with(&doctor, &variables)).contains("sqlite://secret.db  (from DATABASE_URL_FILE"));
}

#[test]
fn databases_that_cannot_be_used() {
    let place = Place::new();
    place.write("w.yaml", "name: w\ntasks: {}\n");
    // No server listens on port 1.
    let away = "postgres://me:secret@127.0.0.1:1/x";
    for arguments in [&["runs", "list"][..], &["submit", "w.yaml"], &["migrate", "status"]] {
        let ended = place.call(&[arguments, &["--database", away]].concat()).expect(3);
        ended.says(&["127.0.0.1:1 is not reachable", "help:"]);
        assert!(!ended.stderr.contains("secret"));
    }
    place.call(&["doctor", "--database", away]).expect(1).says(&["error database", "not reachable"]);
    place.call(&["runs", "list", "--database", "mysql://x"]).expect(2).says(&["`mysql`"]);
    place.call(&["runs", "list"]).expect(2).says(&["there is no database file", "mainspring server"]);
    place.write("text.db", "this is not a database, it is a text of some length".repeat(100));
    place.call(&["runs", "list", "--database", "sqlite://text.db"]).expect(2).says(&["not a database"]);
}

/// The patience of a server that starts is half a minute.
#[test]
fn long_a_server_waits_for_its_database_and_gives_up() {
    let ended =
        Place::new().call(&["server", "--listen", "127.0.0.1:0", "--database", "postgres://127.0.0.1:1/x"]).expect(3);
    ended.says(&["the database is away; trying again for 29 s", "127.0.0.1:1 is not reachable"]);
}
