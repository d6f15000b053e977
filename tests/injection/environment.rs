//! What a task sees of the server's own environment.

use std::collections::BTreeSet;

use crate::place::{Place, ended};

const OWN: &[(&str, &str)] = &[
    ("AWS_SECRET_ACCESS_KEY", "hidden-1"),
    ("MAINSPRING_SECRET_OTHER", "hidden-2"),
    ("DATABASE_URL", "sqlite://hidden-3.db"),
    ("PGPASSWORD", "hidden-4"),
    ("LD_LIBRARY_PATH", "/hidden-5"),
    ("BASH_ENV", "hidden-6"),
    ("SSH_AUTH_SOCK", "hidden-7"),
];

const SEEN: &[&str] = &[
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "PWD", "SHLVL", "_",
    "OWN",
];

/// By no way that a process has to look at its own environment; and a secret that another workflow may read is hidden too.
#[test]
fn a_task_cannot_read_the_servers_environment() {
    let place = Place::new();
    let text = r#"
name: w
secrets: [MINE]
tasks:
  all:
    run: |
      { echo "env<<E-N-D"; env; tr '\0' '\n' < /proc/self/environ; python3 -c 'import os; [print(k + "=" + v) for k, v in os.environ.items()]'; echo E-N-D; } >> "$MAINSPRING_OUTPUT"
      { echo "set<<E-N-D"; set; export -p; compgen -e; echo E-N-D; } >> "$MAINSPRING_OUTPUT"
    env: {OWN: "${{ secrets.MINE }}"}
outputs: {env: "${{ tasks.all.output.env }}", set: "${{ tasks.all.output.set }}"}
"#;
    place.write("w.yaml", text);
    let mut command = place.command(&["run", "w.yaml", "--json"]);
    command.envs(OWN.iter().copied()).env("MAINSPRING_SECRET_MINE", "mine");
    let ended = ended(&mut command);
    assert_eq!(ended.code, 0, "{ended:?}");
    let outputs = ended.json()["outputs"].clone();
    let (env, set) = (outputs["env"].as_str().expect("a text"), outputs["set"].as_str().expect("a text"));
    for (name, value) in OWN {
        for shown in [env, set, &ended.stdout, &ended.stderr] {
            assert!(!shown.contains(value), "the value of {name} is seen:\n{shown}");
        }
    }
    let names: BTreeSet<&str> = env.lines().filter_map(|line| line.split_once('=')).map(|pair| pair.0).collect();
    let unexpected: Vec<&&str> =
        names.iter().filter(|name| !SEEN.contains(name) && !name.starts_with("MAINSPRING_")).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    let own: Vec<&&str> = names.iter().filter(|name| name.starts_with("MAINSPRING_")).collect();
    assert!(
        own.iter()
            .all(|name| !name.contains("SECRET") && !name.contains("TOKEN") || **name == "MAINSPRING_FENCING_TOKEN"),
        "{own:?}"
    );
    assert!(names.contains("OWN") && names.contains("MAINSPRING_RUN_ID"), "{names:?}");
}
