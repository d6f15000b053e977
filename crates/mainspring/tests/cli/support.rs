//! A folder with workflows in it, the binary called there, and servers that end with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;
use tempfile::TempDir;

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr))
    }

    /// Both streams hold these texts.
    #[track_caller]
    pub(crate) fn says(&self, texts: &[&str]) {
        let all = format!("{}\n{}", self.stdout, self.stderr);
        for text in texts {
            assert!(all.contains(text), "`{text}` is missing in\n{all}");
        }
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A folder of its own, in which the binary is called with hardly any environment.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
    database: Option<String>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), database: None }
    }

    pub(crate) fn on(database: &str) -> Self {
        Self { database: Some(database.to_owned()), ..Self::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), text).unwrap();
        self
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mainspring"));
        command.current_dir(self.folder.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("MAINSPRING_OUTPUT_FORMAT", "json").env("TZ", "UTC");
        // Tasks of these tests leave their traces in the folder.
        command.env("MAINSPRING_WORKER_ISOLATION", "off");
        if let Some(database) = &self.database {
            command.env("DATABASE_URL", database);
        }
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn call(&self, arguments: &[&str]) -> Ended {
        self.command(arguments).output().unwrap().into()
    }

    pub(crate) fn call_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
        self.command(arguments).envs(variables.iter().copied()).output().unwrap().into()
    }

    pub(crate) fn call_reading(&self, arguments: &[&str], input: &str) -> Ended {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Makes a pipe through which tasks tell the test something.
    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        mkfifo(&path, Mode::from_bits_truncate(0o600)).unwrap();
        path
    }

    pub(crate) fn server(&self, variables: &[(&str, &str)]) -> Server {
        Server::start(self, variables)
    }

    /// The id of the one run that `submit` made.
    #[track_caller]
    pub(crate) fn submit(&self, file: &str, more: &[&str]) -> String {
        let arguments = [&["submit", file], more].concat();
        self.call(&arguments).expect(0).json()["id"].as_str().unwrap().to_owned()
    }

    /// Waits until the run has ended, and shows it.
    #[track_caller]
    pub(crate) fn ended(&self, run: &str) -> Value {
        let followed = self.call(&["runs", "logs", "--follow", run]);
        let shown = self.call(&["runs", "show", run]).expect(0).json();
        followed.expect(i32::from(shown["status"] != "success"));
        shown
    }
}

/// Whatever should happen happens within this, on the slowest machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

/// Looks again and again until there is something.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{what} did not happen within {} s", PATIENCE.as_secs());
        std::thread::yield_now();
    }
}

/// Waits for a writer, and returns what it wrote.
pub(crate) fn hear(fifo: &Path) -> String {
    let mut text = String::new();
    std::fs::File::open(fifo).unwrap().read_to_string(&mut text).unwrap();
    text.trim().to_owned()
}

/// A task of a run or report, by name.
#[track_caller]
pub(crate) fn task<'a>(report: &'a Value, name: &str) -> &'a Value {
    let tasks = report["tasks"].as_array().unwrap();
    tasks
        .iter()
        .find(|task| task["task"] == name || task["task_id"] == name)
        .unwrap_or_else(|| panic!("no task {name} in {report:#}"))
}

pub(crate) fn is_alive(pid: i32) -> bool {
    // A zombie does not run any more.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
}

/// A server on a port of its own.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    log: PathBuf,
}

impl Server {
    fn start(place: &Place, variables: &[(&str, &str)]) -> Self {
        let log = place.path("server.log");
        let stderr = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        let mut command = place.command(&["server", "--listen", "127.0.0.1:0"]);
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").map(str::to_owned);
        let address =
            address.unwrap_or_else(|| panic!("`{line}`: {}", std::fs::read_to_string(&log).unwrap_or_default()));
        Self { child, address, log }
    }

    /// The status line and the body of a GET.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.request("GET", path)
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
        (status, body)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits for its end; returns the exit code and the log.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        (status.code(), std::fs::read_to_string(&self.log).unwrap_or_default())
    }

    pub(crate) fn terminate(self) -> (Option<i32>, String) {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes two tests of one: on each database.
macro_rules! on_both_databases {
    ($($name:ident)+) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let database = mainspring_testkit::database::TestDatabase::empty_sqlite().await;
                super::$name(database.url());
            })+
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let database = mainspring_testkit::database::TestDatabase::empty_postgres().await;
                super::$name(database.url());
            })+
        }
    };
}
pub(crate) use on_both_databases;
