//! Tokens, secrets, namespaces and the audit log, on the database and over HTTP.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::{Place, on_both_databases};

on_both_databases! {
    a_first_start_leaves_a_token_that_opens_the_api
    secrets_reach_tasks_and_nothing_else
    secrets_come_from_a_folder
}

/// Two installations in one folder: the second leaves the token of the first alone.
#[test]
fn a_second_database_in_the_folder_keeps_the_first_token() {
    let place = Place::new();
    let start = |database: &str, file: &dyn Fn() -> Option<std::path::PathBuf>| {
        let server = place.server(&[("DATABASE_URL", &format!("sqlite://data/{database}.db"))]);
        let file = crate::support::until("the first token is kept", file);
        server.terminate();
        std::fs::read_to_string(file).unwrap()
    };
    let named = |wanted: &dyn Fn(&str) -> bool| {
        let files = std::fs::read_dir(place.path("data")).ok()?;
        files.flatten().map(|file| file.path()).find(|path| wanted(path.file_name().unwrap().to_str().unwrap()))
    };
    let first = start("one", &|| named(&|name| name == "admin.token"));
    let second = start("two", &|| named(&|name| name.starts_with("admin-") && name.ends_with(".token")));
    assert_ne!(first, second);
    assert_eq!(std::fs::read_to_string(place.path("data/admin.token")).unwrap(), first);
}

/// The database holds tokens and everything that tasks printed.
#[test]
fn nobody_but_its_owner_reads_the_database() {
    let place = Place::new();
    place.write("w.yaml", "name: w\ntasks: {t: {run: 'true'}}\n");
    place.call(&["submit", "w.yaml"]).expect(0);
    let mode = |name: &str| std::fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    let file = ".mainspring/mainspring.db";
    assert_eq!((mode(".mainspring"), mode(file)), (0o700, 0o600));
    // One that an earlier version left open is shut, and that is said.
    std::fs::set_permissions(place.path(file), std::fs::Permissions::from_mode(0o644)).unwrap();
    place.call(&["runs", "list"]).expect(0).says(&["other users could read the database"]);
    assert_eq!(mode(file), 0o600);
}

fn a_first_start_leaves_a_token_that_opens_the_api(database: &str) {
    let place = Place::on(database);
    let server = place.server(&[]);
    let url = format!("http://{}", server.address);
    let folder = if database.starts_with("sqlite") {
        std::path::Path::new(database.trim_start_matches("sqlite://")).parent().unwrap().to_owned()
    } else {
        place.path(".mainspring")
    };
    let file = folder.join("admin.token");
    // It is written right after the line that the test has read.
    let token = loop {
        match std::fs::read_to_string(&file) {
            Ok(token) => break token.trim().to_owned(),
            Err(_) => std::thread::yield_now(),
        }
    };
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(token.starts_with("ms_"));

    // The command line on this machine finds it, and makes another.
    let over_http = |arguments: &[&str]| place.call(&[arguments, &["--server", &url]].concat());
    let made = over_http(&["token", "create", "--role", "operator", "--name", "ci", "-n", "here", "-o", "json"])
        .expect(0)
        .json();
    assert_eq!(made.as_object().unwrap().keys().collect::<Vec<_>>(), ["id", "token"]);
    let (id, narrow) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let with = |arguments: &[&str], token: &str| {
        place.call_with(arguments, &[("MAINSPRING_SERVER", url.as_str()), ("MAINSPRING_TOKEN", token)])
    };
    with(&["namespaces", "list"], narrow).expect(0);
    with(&["token", "list"], narrow).expect(2).says(&["does not permit", "it needs the role admin"]);
    with(&["token", "list"], "ms_wrong").expect(2).says(&["the server does not accept the token of MAINSPRING_TOKEN"]);
    over_http(&["token", "revoke", id]).expect(0);
    with(&["namespaces", "list"], narrow).expect(2);

    over_http(&["namespaces", "create", "small", "--max-open-runs", "3"]).expect(0);
    let shown = over_http(&["namespaces", "set", "small", "--max-workflows", "unlimited"]).expect(0).json();
    assert_eq!((&shown["max_open_runs"], &shown["max_workflows"]), (&json!(3), &json!(null)));
    over_http(&["namespaces", "delete", "small"]).expect(0);
    let log = over_http(&["audit", "--limit", "500"]).expect(0);
    log.says(&["/api/v1/namespaces/small", "/api/v1/auth/tokens"]);

    // The same on the database itself, as the user who runs the command; both at once is a contradiction.
    let local = place.call(&["audit", "--database", database]).expect(0).json();
    assert!(!local["items"].as_array().unwrap().is_empty());
    place.call(&["audit", "--database", database, "--server", &url]).expect(2).says(&["exclude each other"]);
    place.call(&["audit", "--server", "ftp://x"]).expect(2).says(&["is not the address of a server"]);

    let profiles = format!("default = \"a\"\n[a]\nserver = \"{url}\"\ntoken = \"{token}\"\n");
    place.write("profiles.toml", profiles);
    let path = place.path("profiles.toml").display().to_string();
    std::fs::set_permissions(place.path("profiles.toml"), std::fs::Permissions::from_mode(0o644)).unwrap();
    place
        .call_with(&["token", "list"], &[("MAINSPRING_PROFILES", &path)])
        .expect(2)
        .says(&["others may read it", "chmod 600"]);
    std::fs::set_permissions(place.path("profiles.toml"), std::fs::Permissions::from_mode(0o600)).unwrap();
    place.call_with(&["token", "list"], &[("MAINSPRING_PROFILES", &path)]).expect(0);
    place.call_with(&["token", "list", "--profile", "b"], &[("MAINSPRING_PROFILES", &path)]).expect(2);
    server.kill();
    over_http(&["token", "list"]).expect(3).says(&["is not reachable"]);
}

fn secrets_reach_tasks_and_nothing_else(database: &str) {
    let place = Place::on(database);
    place.write("key", format!("{}\n", "0a".repeat(32))).write(
        "w.yaml",
        "name: w\nsecrets: [API_KEY]\ntasks:\n  t: {run: 'test \"$K\" = \"a value\" && echo \"it is $K\"', env: {K: '${{ secrets.API_KEY }}'}}\n",
    );
    let key = [("MAINSPRING_SECRETS_KEY_FILE", "key")];
    let mut set = place.command(&["secrets", "set", "API_KEY"]);
    set.envs(key).stdin(std::process::Stdio::from(
        std::fs::File::open(place.write("value", "a value\n").path("value")).unwrap(),
    ));
    let output = set.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("a value"));
    let listed = place.call_with(&["secrets", "list"], &key).expect(0);
    listed.says(&["API_KEY"]);
    assert!(!listed.stdout.contains("a value"));
    let _server = place.server(&key);
    let run = place.submit("w.yaml", &[]);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success", "{shown:#}");
    let logs = place.call(&["runs", "logs", &run]).expect(0);
    assert!(!logs.stdout.contains("a value"), "{}", logs.stdout);
    assert!(!shown.to_string().contains("a value"));
    place.call_with(&["secrets", "set", "API_KEY"], &key).expect(2).says(&["no value for API_KEY"]);
    place.call_with(&["secrets", "delete", "API_KEY"], &key).expect(0);
    place.call_with(&["secrets", "delete", "API_KEY"], &key).expect(2).says(&["was not found"]);
}

/// One file per secret, as orchestrators mount them; a secret of the namespace stands before it.
fn secrets_come_from_a_folder(database: &str) {
    let place = Place::on(database);
    std::fs::create_dir(place.path("secrets")).unwrap();
    std::fs::create_dir(place.path("secrets/FOLDER")).unwrap();
    place.write("secrets/API_KEY", "of the folder\n").write("secrets/TWO_LINES", "one\ntwo\n\n");
    place
        .write("secrets/.hidden", "x")
        .write("secrets/BINARY", b"\xff\xfe")
        .write("key", format!("{}\n", "0a".repeat(32)));
    // What is mounted is a link to a link.
    std::os::unix::fs::symlink("API_KEY", place.path("secrets/LINKED")).unwrap();
    place.write(
        "w.yaml",
        "name: w\nsecrets: [API_KEY, TWO_LINES, LINKED]\ntasks:\n  t:\n    env: {A: '${{ secrets.API_KEY }}', B: '${{ secrets.TWO_LINES }}', C: '${{ secrets.LINKED }}'}\n    \
         run: |\n      test \"${#B}\" = 8\n      test \"$A\" = \"$C\"\n      \
         echo \"length ${#A} $A\"\n",
    );
    let variables = [("MAINSPRING_SECRETS_DIRECTORY", "secrets"), ("MAINSPRING_SECRETS_KEY_FILE", "key")];
    let server = place.server(&variables);
    let run = place.submit("w.yaml", &[]);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success", "{shown:#}");
    let logs = place.call(&["runs", "logs", &run]).expect(0);
    // Its last line break does not count, and what is printed is masked.
    logs.says(&["length 13 "]);
    assert!(!logs.stdout.contains("of the folder"), "{}", logs.stdout);
    server.kill();

    // The namespace's own is the one that counts.
    place.write("one.yaml", "name: one\nsecrets: [API_KEY]\ntasks: {t: {run: 'echo \"length ${#A}\"', env: {A: '${{ secrets.API_KEY }}'}}}\n");
    let mut set = place.command(&["secrets", "set", "API_KEY"]);
    set.envs(variables)
        .stdin(std::process::Stdio::from(std::fs::File::open(place.write("value", "short\n").path("value")).unwrap()));
    assert!(set.status().unwrap().success());
    let server = place.server(&variables);
    let run = place.submit("one.yaml", &[]);
    assert_eq!(place.ended(&run)["status"], "success");
    place.call(&["runs", "logs", &run]).expect(0).says(&["length 5"]);
    server.kill();

    // A name that is no file there is said to be missing, and a folder that is not there stops nothing.
    place.write(
        "none.yaml",
        "name: none\nsecrets: [FOLDER]\ntasks: {t: {run: 'true', env: {A: '${{ secrets.FOLDER }}'}}}\n",
    );
    let _server = place.server(&[("MAINSPRING_SECRETS_DIRECTORY", "nowhere"), ("MAINSPRING_SECRETS_KEY_FILE", "key")]);
    let run = place.submit("none.yaml", &[]);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "failed", "{shown:#}");
    assert!(shown.to_string().contains("FOLDER"), "{shown:#}");
}
