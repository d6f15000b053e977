//! `mainspring worker` beside real servers: what it executes, and what becomes of its work when processes die.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mainspring_testkit::database::TestDatabase;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Place, Server, hear, on_both_databases, task};

/// A server that executes nothing itself.
pub(crate) const FRONT: &[(&str, &str)] = &[("MAINSPRING_SERVER_ROLES", "api,scheduler")];

/// A `mainspring worker` that ends with the test.
pub(crate) struct Worker {
    child: Child,
    probes: String,
    log: PathBuf,
}

impl Worker {
    pub(crate) fn start(place: &Place, name: &str, servers: &str, token: &str, more: &[&str]) -> Self {
        let log = place.path(&format!("{name}.log"));
        let stderr = std::fs::File::create(&log).unwrap();
        let arguments = [&["worker", "--server", servers, "--id", name, "--slots", "2"], more].concat();
        let mut command = place.command(&arguments);
        command.env("MAINSPRING_TOKEN", token).env("METRICS_PORT", "0").env_remove("DATABASE_URL");
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let probes =
            line.trim().rsplit_once("http://0.0.0.0:").map(|(_, rest)| rest.trim_end_matches("/healthz").to_owned());
        let probes =
            probes.unwrap_or_else(|| panic!("`{line}`: {}", std::fs::read_to_string(&log).unwrap_or_default()));
        Self { child, probes, log }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn healthz(&self) -> String {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.probes)).unwrap();
        write!(stream, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        (status.code(), std::fs::read_to_string(&self.log).unwrap_or_default())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn token(place: &Place) -> String {
    make_token(place, "worker")
}

pub(crate) fn make_token(place: &Place, role: &str) -> String {
    let made = place.call(&["tokens", "create", "--role", role, "--everywhere", "-o", "json"]).expect(0).json();
    made["token"].as_str().unwrap().to_owned()
}

fn get(server: &Server, token: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let host = &server.address;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub(crate) fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

fn a_worker_executes_steps_exit_codes_printed_output_and_files_of_variables(database: &str) {
    let place = Place::on(database);
    let server = place.server(FRONT);
    let _worker = Worker::start(&place, "far-two", &url(&server), &token(&place), &[]);
    place.write("more.env", "COLOUR=\"dark blue\"\n");
    place.write(
        "second.yaml",
        "name: second\nenv_file: more.env\ntasks:\n  steps:\n    steps:\n      - echo \"$COLOUR\" > colour\n      - {name: bad, run: exit 4, continue_on_error: true}\n      - {name: last, run: 'echo \"colour=$(cat colour)\" >> \"$MAINSPRING_OUTPUT\"'}\n  skip: {run: exit 99, exit_codes: {skip: 99}}\n  go: {run: exit 3, exit_codes: {continue: 3}}\n  json: {run: \"echo '[1, 2]'\", output: json}\n  each: {matrix: {a: [1, 2], b: \"${{ tasks.json.output }}\"}, needs: json, run: \"echo ${{ matrix.a }}${{ matrix.b }}\", output: stdout}\non_success: {tell: {run: \"echo ${{ run.status }}\"}}\n",
    );
    let run = place.submit("second.yaml", &[]);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success", "{shown:#}");
    assert_eq!(task(&shown, "steps")["output"]["colour"], "dark blue");
    for (name, status) in
        [("skip", "skipped"), ("go", "success"), ("json", "success"), ("each", "success"), ("tell", "success")]
    {
        assert_eq!(task(&shown, name)["status"], status, "{name}: {shown:#}");
    }
    let logs = place.call(&["runs", "logs", &run]).expect(0);
    logs.says(&["step 1 of 3: step-1", "step bad failed after", "and the task goes on", "step last succeeded after"]);
}

fn a_worker_executes_scripts_with_logs_output_files_and_artifacts(database: &str) {
    let place = Place::on(database);
    let server = place.server(FRONT);
    let worker =
        Worker::start(&place, "far-one", &url(&server), &token(&place), &["--queues", "far", "--labels", "arch=arm"]);
    place.write("greet.sh", "echo \"from a file\" \"$1\"\n");
    // It has no handlers of remote tasks: one that waits for its worker is not taken, and not failed, by this one.
    place.write(
        "remote.yaml",
        "name: remote\ntasks:\n  a: {queue: far, labels: {arch: arm}, remote: {handler: 'reports:make'}}\n",
    );
    let waiting = place.submit("remote.yaml", &[]);
    place.write(
        "away.yaml",
        "name: away\nfiles: [greet.sh]\ntasks:\n  work:\n    queue: far\n    labels: {arch: arm}\n    artifacts: [\"*.txt\"]\n    run: |\n      echo hello\n      sh \"$MAINSPRING_FILES/greet.sh\" you\n      echo oops >&2\n      echo kept > report.txt\n      echo \"answer=42\" >> \"$MAINSPRING_OUTPUT\"\n  after:\n    needs: work\n    queue: far\n    run: test \"${{ tasks.work.output.answer }}\" = 42\n",
    );
    let run = place.submit("away.yaml", &[]);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success", "{shown:#}");
    assert_eq!(task(&shown, "work")["output"]["answer"], "42");
    let logs = place.call(&["runs", "logs", &run]).expect(0);
    logs.says(&["hello", "from a file you", "oops"]);
    let listed = get(&server, &make_token(&place, "viewer"), &format!("/api/v1/workflow-runs/{run}/artifacts"));
    assert!(listed.contains("report.txt"), "{listed}");
    assert!(worker.healthz().starts_with("HTTP/1.1 200"), "{}", worker.healthz());
    place.call(&["workers", "list", "-o", "table"]).expect(0).says(&["far-one", "remote"]);
    place.call(&["workers", "get", "far-one"]).expect(0).says(&["far-one"]);
    let waiting = place.call(&["runs", "get", &waiting, "-o", "json"]).expect(0).json();
    assert_eq!(task(&waiting, "a")["status"], "ready", "{waiting:#}");
    place.call(&["workers", "drain", "far-one"]).expect(0);
    worker.signal(Signal::SIGTERM);
    let (code, log) = worker.wait();
    assert_eq!(code, Some(0), "{log}");
}

fn the_task_of_a_killed_worker_is_claimed_elsewhere_within_seconds(database: &str) {
    let place = Place::on(database);
    let server = place.server(FRONT);
    let token = token(&place);
    let started = place.fifo("started");
    let workers = ["one", "two"]
        .map(|name| Worker::start(&place, name, &url(&server), &token, &["--queues", "far", "--prefetch", "0"]));
    place.write(
        "away.yaml",
        format!(
            "name: away\ntasks:\n  work:\n    queue: far\n    run: |\n      echo \"$PPID $MAINSPRING_ATTEMPT\" > {}\n      test \"$MAINSPRING_ATTEMPT\" != 1 || sleep 300\n",
            started.display()
        ),
    );
    let run = place.submit("away.yaml", &[]);
    let first = hear(&started);
    let pid: i32 = first.split(' ').next().unwrap().parse().unwrap();
    let killed = workers.iter().find(|worker| worker.child.id() as i32 == pid);
    let killed = killed.unwrap_or_else(|| panic!("{first}: {:?}", workers.each_ref().map(|worker| worker.child.id())));
    killed.signal(Signal::SIGKILL);
    let since = Instant::now();
    let second = hear(&started);
    let took = since.elapsed();
    assert!(second.ends_with(" 2"), "{second}");
    assert!(took < Duration::from_secs(8), "claimed elsewhere after {took:?}");
    assert_eq!(place.ended(&run)["status"], "success");
}

fn a_worker_finishes_what_it_has_when_it_is_told_to_stop(database: &str) {
    let place = Place::on(database);
    let server = place.server(FRONT);
    let worker = Worker::start(&place, "one", &url(&server), &token(&place), &["--queues", "far"]);
    let (started, go) = (place.fifo("started"), place.fifo("go"));
    place.write(
        "away.yaml",
        format!(
            "name: away\ntasks:\n  work:\n    queue: far\n    run: |\n      echo begun > {}\n      cat {}\n",
            started.display(),
            go.display()
        ),
    );
    let run = place.submit("away.yaml", &[]);
    assert_eq!(hear(&started), "begun");
    worker.signal(Signal::SIGTERM);
    std::fs::write(&go, "on").unwrap();
    let (code, log) = worker.wait();
    assert_eq!(code, Some(0), "{log}");
    let shown = place.ended(&run);
    assert_eq!((&shown["status"], &task(&shown, "work")["attempt"]), (&"success".into(), &1.into()), "{log}");
}

fn answers_that_are_lost_between_worker_and_node_lose_and_double_nothing(database: &str) {
    let place = Place::on(database);
    let server = place.server(FRONT);
    let proxy = LossyProxy::start(&server.address, 4);
    let worker =
        Worker::start(&place, "one", &format!("http://{}", proxy.address), &token(&place), &["--queues", "far"]);
    let effects = place.path("effects");
    place.write(
        "away.yaml",
        format!(
            "name: away\ntasks:\n  work:\n    queue: far\n    foreach: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n    run: |\n      echo \"line ${{{{ item }}}}\"\n      echo \"${{{{ item }}}}\" >> {}\n",
            effects.display()
        ),
    );
    let run = place.submit("away.yaml", &[]);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success", "{shown:#}");
    let mut effects: Vec<u32> =
        std::fs::read_to_string(&effects).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    effects.sort_unstable();
    assert_eq!(effects, (1..=12).collect::<Vec<_>>(), "each ran once");
    assert!(proxy.lost.load(Ordering::SeqCst) > 0, "the proxy lost nothing");
    let logs = place.call(&["runs", "logs", &run]).expect(0);
    assert_eq!(logs.stdout.matches("line ").count(), 12, "{}", logs.stdout);
    drop(worker);
}

/// Runs the conformance script against a worker; its output if it passed.
fn conformance(place: &Place, server: &Server, kind: &str, worker: &[&str], variables: &[(&str, &str)]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/worker-conformance");
    let mut command = std::process::Command::new("python3");
    command.arg(script).args(["--kind", kind, &url(server), &make_token(place, "admin"), "--"]).args(worker);
    command.current_dir(place.path(".")).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.matches("ok  ").count(), 6, "{said}");
    said
}

fn the_worker_conforms_to_the_protocol(database: &str) {
    let place = Place::on(database);
    let server = place.server(FRONT);
    conformance(&place, &server, "run", &[env!("CARGO_BIN_EXE_mainspring"), "worker", "--slots", "4"], &[]);
}

fn the_python_worker_conforms_to_the_protocol(database: &str) {
    let place = Place::on(database);
    let server = place.server(FRONT);
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python");
    let worker = format!("{sdk}/examples/conformance.py");
    let source = format!("{sdk}/src");
    let variables = [("PYTHONPATH", source.as_str()), ("PYTHONDONTWRITEBYTECODE", "1")];
    conformance(&place, &server, "remote", &["python3", &worker], &variables);
}

on_both_databases! {
    the_worker_conforms_to_the_protocol
    the_python_worker_conforms_to_the_protocol
    a_worker_executes_scripts_with_logs_output_files_and_artifacts
    the_task_of_a_killed_worker_is_claimed_elsewhere_within_seconds
    a_worker_finishes_what_it_has_when_it_is_told_to_stop
    answers_that_are_lost_between_worker_and_node_lose_and_double_nothing
    a_worker_executes_steps_exit_codes_printed_output_and_files_of_variables
}

/// Two nodes on one database. A worker's task begins, the node that the worker talks to is killed, and the task ends.
struct TwoNodes {
    first: Option<Server>,
    second: Server,
    place: Place,
    started: PathBuf,
    go: PathBuf,
    _database: TestDatabase,
}

impl TwoNodes {
    async fn start() -> Self {
        let database = TestDatabase::empty_postgres().await;
        let place = Place::on(database.url());
        let (first, second) = (Some(place.server(FRONT)), place.server(FRONT));
        let (started, go) = (place.fifo("started"), place.fifo("go"));
        Self { first, second, place, started, go, _database: database }
    }

    fn urls(&self) -> String {
        self.first.iter().chain([&self.second]).map(url).collect::<Vec<_>>().join(",")
    }

    /// The one task of the workflow begins, the first node is killed, and the same attempt succeeds with this output.
    fn lose_the_first(&mut self, workflow: &str, kept: &str) {
        self.place.write("away.yaml", workflow);
        let run = self.place.submit("away.yaml", &[]);
        assert_eq!(hear(&self.started), "begun");
        self.first.take().unwrap().kill();
        std::fs::write(&self.go, "on").unwrap();
        let shown = self.place.ended(&run);
        let work = task(&shown, "work");
        assert_eq!(
            (&shown["status"], &work["attempt"], &work["output"]["kept"]),
            (&"success".into(), &1.into(), &kept.into()),
            "{shown:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_at_another_node_when_its_own_is_killed() {
    let mut both = TwoNodes::start().await;
    let worker = Worker::start(&both.place, "one", &both.urls(), &token(&both.place), &["--queues", "far"]);
    let workflow = format!(
        "name: away\ntasks:\n  work:\n    queue: far\n    run: |\n      echo begun > {}\n      cat {}\n      echo \"kept=yes\" >> \"$MAINSPRING_OUTPUT\"\n",
        both.started.display(),
        both.go.display()
    );
    both.lose_the_first(&workflow, "yes");
    let listed = both.place.call(&["workers", "list", "-o", "json"]).expect(0).json();
    assert_eq!(listed["items"][0]["id"], "one", "{listed:#}");
    drop(worker);
}

/// A worker in Python with the handler `hold`, which says that it has begun and waits.
fn start_python(place: &Place, servers: &str) -> Worker {
    place.write(
        "worker.py",
        "from mainspring import Worker\n\nworker = Worker(slots=2)\n\n\n@worker.task(\"hold\")\ndef hold(payload):\n    \
         with open(payload[\"started\"], \"w\") as started:\n        started.write(\"begun\")\n    \
         with open(payload[\"go\"]) as go:\n        return {\"kept\": go.read()}\n\n\n\
         if __name__ == \"__main__\":\n    worker.run()\n",
    );
    let mut command = std::process::Command::new("python3");
    command.arg(place.path("worker.py")).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python/src"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("MAINSPRING_TOKEN", token(place));
    command.env("MAINSPRING_SERVER", servers);
    let log = std::fs::File::create(place.path("python.log")).unwrap();
    let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    Worker { child, probes: String::new(), log: place.path("python.log") }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_worker_goes_on_at_another_node_when_its_own_is_killed() {
    let mut both = TwoNodes::start().await;
    let worker = start_python(&both.place, &both.urls());
    let workflow = format!(
        "name: away\ntasks:\n  work:\n    remote: {{handler: hold, payload: {{started: '{}', go: '{}'}}}}\n",
        both.started.display(),
        both.go.display()
    );
    both.lose_the_first(&workflow, "on");
    drop(worker);
}

/// Stops a worker that has registered, after its only server is gone; how long it took to leave, and what it logged.
fn leaves_without_a_server(start: impl Fn(&Place, &Server) -> Worker) -> (Duration, String) {
    let place = Place::new();
    let server = place.server(FRONT);
    let worker = start(&place, &server);
    let deadline = Instant::now() + Duration::from_secs(30);
    let registered = || {
        let listed = place.call(&["workers", "list", "-o", "json"]).expect(0).json();
        listed["items"].as_array().unwrap().iter().any(|worker| worker["remote"] == true)
    };
    while !registered() {
        assert!(Instant::now() < deadline, "it did not register");
    }
    server.kill();
    let since = Instant::now();
    worker.signal(Signal::SIGTERM);
    let (code, log) = worker.wait();
    assert_eq!(code, Some(0), "{log}");
    (since.elapsed(), log)
}

#[test]
fn a_worker_that_is_stopped_after_its_servers_leaves() {
    let (took, log) =
        leaves_without_a_server(|place, server| Worker::start(place, "one", &url(server), &token(place), &[]));
    assert!(log.contains("no server answers"), "{log}");
    assert!(took < Duration::from_secs(12), "it took {took:?}: {log}");
}

#[test]
fn a_python_worker_that_is_stopped_after_its_servers_leaves() {
    let (took, log) = leaves_without_a_server(|place, server| start_python(place, &url(server)));
    assert!(took < Duration::from_secs(12), "it took {took:?}: {log}");
}

#[test]
fn a_worker_without_a_server_or_a_token_says_what_it_lacks() {
    let place = Place::new();
    place.call(&["worker"]).expect(2).says(&["no server was named", "--server"]);
    place.call(&["worker", "--server", "http://127.0.0.1:1"]).expect(2).says(&["token", "mainspring tokens create"]);
    let wrong =
        place.call_with(&["worker", "--server", "ftp://x"], &[("MAINSPRING_TOKEN", "x"), ("METRICS_PORT", "0")]);
    wrong.expect(2).says(&["not the address of a server"]);
    let server = place.server(FRONT);
    let refused =
        place.call_with(&["worker", "--server", &url(&server)], &[("MAINSPRING_TOKEN", "ms_x"), ("METRICS_PORT", "0")]);
    refused.expect(2).says(&["refuses"]);
}

/// Forwards connections, and cuts one in `one_in` when its first answer comes.
struct LossyProxy {
    address: String,
    lost: Arc<AtomicUsize>,
}

impl LossyProxy {
    fn start(server: &str, one_in: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (lost, answers) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (server, counted) = (server.to_owned(), Arc::clone(&lost));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = TcpStream::connect(&server) else { continue };
                let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
                let (answers, lost) = (Arc::clone(&answers), Arc::clone(&counted));
                std::thread::spawn(move || relay_answers(upstream, client, &answers, &lost, one_in));
            }
        });
        Self { address, lost }
    }
}

fn relay_answers(
    mut upstream: TcpStream,
    mut client: TcpStream,
    answers: &AtomicUsize,
    lost: &AtomicUsize,
    one_in: usize,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = upstream.read(&mut buffer) {
        if read == 0 {
            break;
        }
        let begins = buffer.starts_with(b"HTTP/1.1 200");
        if begins && answers.fetch_add(1, Ordering::SeqCst) % one_in == one_in - 1 {
            lost.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if client.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(std::net::Shutdown::Both);
    let _ = upstream.shutdown(std::net::Shutdown::Both);
}
