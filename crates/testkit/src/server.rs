//! A server as a process of its own: the real program, started, killed, stopped, and looked for afterwards.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::binary;
use crate::wait::until;

/// How a server is started.
#[derive(Debug, Clone)]
pub struct ServerPlan {
    pub url: String,
    /// Holds the server's log. Its path is in the environment of the server and must be in that of its tasks: it is how
    /// their processes are found.
    pub folder: PathBuf,
    /// Settings by the name of their variable.
    pub settings: Vec<(&'static str, String)>,
    /// Whether the program that starts it has left descriptors open: 7, 9 and 12.
    pub left_open: bool,
    /// Where it listens; port 0 takes a free one.
    pub listen: String,
    /// Further arguments.
    pub arguments: Vec<String>,
}

#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    log: PathBuf,
    /// How long the log was when it started: what is before is of an earlier server.
    log_start: usize,
}

/// A process as it can be recognised: numbers are used again, starting times are not.
pub type ProcessMark = (i32, String);

impl ServerPlan {
    pub fn new(url: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        Self {
            url: url.into(),
            folder: folder.into(),
            settings: Vec::new(),
            left_open: false,
            listen: "127.0.0.1:0".into(),
            arguments: Vec::new(),
        }
    }

    pub fn set(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.settings.push((variable, value.into()));
        self
    }

    pub fn with_descriptors_left_open(mut self) -> Self {
        self.left_open = true;
        self
    }

    /// Starts it and returns at once.
    pub fn start(&self) -> anyhow::Result<ServerProcess> {
        let mut command = Command::new(if self.left_open { Path::new("bash") } else { binary::mainspring() });
        if self.left_open {
            command.args(["-c", "exec 7</dev/zero 9>/dev/full 12<>/dev/null; exec \"$0\" \"$@\""]);
            command.arg(binary::mainspring());
        }
        command.args(["server", "--listen", &self.listen, "--log-format", "text"]).args(&self.arguments);
        command.env("MAINSPRING_DATABASE", &self.url);
        self.spawn(command, "server.log")
    }

    /// Starts any program in the place of the server, with the settings of this plan.
    pub fn spawn(&self, mut command: Command, log: &str) -> anyhow::Result<ServerProcess> {
        let log = self.folder.join(log);
        let file = File::options().create(true).append(true).open(&log).context("opening the server's log")?;
        let log_start = usize::try_from(file.metadata().context("measuring the server's log")?.len())?;
        let given: Vec<_> =
            command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        let child = command
            .env_clear()
            .envs(given)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("MAINSPRING_TEST_FOLDER", &self.folder)
            // Tasks of these tests leave their traces beside the database.
            .env("MAINSPRING_WORKER_ISOLATION", "off")
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .context("starting the server")?;
        Ok(ServerProcess { child, log, log_start })
    }

    /// Every process of this plan's servers and their tasks.
    pub fn processes(&self) -> BTreeSet<ProcessMark> {
        processes_of(&self.folder).into_iter().map(|process| process.mark).collect()
    }

    /// The processes that one of them has started, and those that these have started.
    pub fn descendants(&self, ancestor: u32) -> BTreeSet<ProcessMark> {
        let processes = processes_of(&self.folder);
        let mut family = BTreeSet::from([ancestor as i32]);
        loop {
            let before = family.len();
            family.extend(
                processes.iter().filter(|one| family.contains(&one.parent)).map(|one| one.mark.0).collect::<Vec<_>>(),
            );
            if family.len() == before {
                break;
            }
        }
        family.remove(&(ancestor as i32));
        processes.into_iter().map(|process| process.mark).filter(|mark| family.contains(&mark.0)).collect()
    }
}

impl ServerProcess {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The code it ended with, if it has ended by itself.
    pub fn ended(&mut self) -> anyhow::Result<Option<i32>> {
        Ok(self.child.try_wait()?.map(|status| status.code().unwrap_or(-1)))
    }

    /// SIGKILL: it notices nothing.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("killing the server")?;
        self.child.wait().context("waiting for the killed server")?;
        Ok(())
    }

    /// SIGSTOP: it stands still and notices nothing.
    pub fn pause(&self) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGSTOP).context("stopping the server for a while")
    }

    /// SIGCONT: it goes on where it was.
    pub fn resume(&self) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGCONT).context("letting the server go on")
    }

    /// SIGTERM, and waits until it is gone.
    pub async fn stop(&mut self, patience: Duration) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).context("stopping the server")?;
        let code = until("the server stops", patience, async || self.ended()).await?;
        if code != 0 {
            bail!("the server ended with {code}:\n{}", self.last_lines(20));
        }
        Ok(())
    }

    /// Where it listens, once it does.
    pub async fn address(&mut self, patience: Duration) -> anyhow::Result<SocketAddr> {
        until("the server listens", patience, async || {
            if let Some(code) = self.ended()? {
                bail!("the server ended with {code}:\n{}", self.last_lines(20));
            }
            let log = std::fs::read(&self.log).unwrap_or_default();
            let log = String::from_utf8_lossy(log.get(self.log_start..).unwrap_or_default());
            // A line without its end may be half written.
            let mut lines = log.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            let line = lines.find_map(|line| line.split("listening on http://").nth(1));
            Ok(line.and_then(|address| address.trim().parse().ok()))
        })
        .await
    }

    /// The most memory it ever held, in bytes.
    pub fn peak_memory(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).context("the kernel tells no VmHWM")?;
        let kilobytes: u64 = line.split_whitespace().nth(1).context("VmHWM has no number")?.parse()?;
        Ok(kilobytes * 1024)
    }

    pub fn last_lines(&self, count: usize) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

struct Process {
    mark: ProcessMark,
    parent: i32,
}

/// Processes whose environment names the folder.
fn processes_of(folder: &Path) -> Vec<Process> {
    let name = folder.as_os_str().as_encoded_bytes();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            if !environment.windows(name.len()).any(|window| window == name) {
                return None;
            }
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let after_name = stat.rsplit_once(')')?.1;
            // Fields 4 and 22 of proc(5), counted from 1; two of them stand before the closing bracket.
            let parent = after_name.split_whitespace().nth(1)?.parse().ok()?;
            let started = after_name.split_whitespace().nth(19)?;
            Some(Process { mark: (pid, started.to_owned()), parent })
        })
        .collect()
}
