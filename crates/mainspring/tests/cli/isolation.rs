//! What tasks of a server can see of it.

use crate::support::{Place, task};

const LANDLOCK: &str = "tasks of a server see neither its database file";

/// Starts a server whose tasks are kept apart, and runs a workflow of these scripts on it.
fn run(place: &Place, scripts: &[(&str, String)]) -> serde_json::Value {
    let server = place.server(&[("MAINSPRING_WORKER_ISOLATION", "auto")]);
    // It is written right after the line that the server printed.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !place.path(".mainspring/admin.token").exists() {
        assert!(std::time::Instant::now() < deadline, "there is no token");
        std::thread::yield_now();
    }
    let mut yaml = "name: look\ntasks:\n".to_owned();
    for (name, script) in scripts {
        let script = script.replace("SERVER", &server.pid().to_string());
        yaml.push_str(&format!("  {name}:\n    run: |\n      {script}\n"));
    }
    place.write("look.yaml", yaml);
    let url = format!("http://{}", server.address);
    let started = place.call(&["submit", "look.yaml", "--wait", "--server", &url]);
    assert!([0, 1].contains(&started.code), "{started:?}");
    let shown = place.call(&["runs", "show", "@last", "--server", &url, "-o", "json"]).expect(0).json();
    server.terminate();
    shown
}

fn is_available() -> bool {
    let doctor = Place::new().call_with(&["doctor"], &[("MAINSPRING_WORKER_ISOLATION", "auto")]);
    doctor.stdout.contains(LANDLOCK)
}

/// On a system without Landlock there is nothing to show but that it is said.
#[test]
fn tasks_do_not_see_what_belongs_to_the_server() {
    let place = Place::new();
    if !is_available() {
        place.call_with(&["doctor"], &[("MAINSPRING_WORKER_ISOLATION", "auto")]).says(&["no Landlock"]);
        return;
    }
    let data = place.path(".mainspring").display().to_string();
    let mut forbidden = vec![
        ("token", format!("cat {data}/admin.token")),
        ("key", format!("cat {data}/secrets.key")),
        ("database", format!("head -c 16 {data}/mainspring.db")),
        ("link", format!("ln -s {data} way && cat way/secrets.key")),
        ("signal", "kill -0 SERVER".to_owned()),
        ("others", format!("cat {data}/tasks/*/*/mine")),
        ("preload", format!("LD_PRELOAD=/nowhere.so cat {data}/secrets.key")),
    ];
    // Root may look at the memory of every process, whatever Landlock says.
    if !nix::unistd::geteuid().is_root() {
        forbidden.push(("environment", "cat /proc/SERVER/environ".to_owned()));
    }
    let allowed = [
        (
            "works",
            "echo mine > mine && cat mine && echo n=1 >> \"$MAINSPRING_OUTPUT\" && mktemp && ls / && sh -c true"
                .to_owned(),
        ),
        ("plain", "ls -l".to_owned()),
    ];
    let shown = run(&place, &[forbidden.as_slice(), allowed.as_slice()].concat());
    for (name, script) in &forbidden {
        assert_eq!(task(&shown, name)["status"], "failed", "{script}: {shown:#}");
    }
    for (name, script) in &allowed {
        assert_eq!(task(&shown, name)["status"], "success", "{script}: {shown:#}");
    }
}

#[test]
fn doctor_says_what_is_isolated_and_what_is_not() {
    let place = Place::new();
    place.call(&["doctor"]).says(&["isolation", "worker.isolation is off", "network, CPU and memory are shared"]);
    place.call_with(&["doctor"], &[("MAINSPRING_WORKER_USER", "no-such-account")]).says(&["has no such account"]);
    place.call_with(&["doctor"], &[("MAINSPRING_WORKER_ISOLATION", "maybe")]).says(&["must be auto or off"]);
}
