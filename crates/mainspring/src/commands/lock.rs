//! `mainspring lock NAME -- COMMAND`: runs a command while holding a lock that only one process of the cluster has.

use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;
use mainspring_engine::LockGuard;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::app::{App, require_name};
use crate::config::parse_duration;
use crate::database;
use crate::failure::{Exit, Failure, Result, cause};
use crate::signals::Signals;

/// Between SIGTERM and SIGKILL for a command whose lock was lost.
const GRACE: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// Any name; who uses the same waits for the others
    #[arg(value_name = "NAME")]
    name: String,
    /// How long the lock outlives this process if it is killed
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    ttl: String,
    /// How long to wait for the lock; without it, as long as it takes
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Endpoints of etcd, if it coordinates [env: ETCD_ENDPOINTS]
    #[arg(long, value_name = "URL,…")]
    etcd: Option<String>,
    /// What to run; the fencing value is in MAINSPRING_FENCE
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

impl LockArgs {
    pub(crate) fn flags(&self) -> Vec<crate::config::Flag> {
        let flag = |value: &String| crate::config::Flag { key: "etcd.endpoints", flag: "etcd", value: value.clone() };
        self.etcd.iter().map(flag).collect()
    }
}

pub(crate) async fn lock(app: &App<'_>, args: LockArgs) -> Result {
    app.start_logs();
    require_name("lock", &args.name)?;
    let ttl = duration("--ttl", &args.ttl)?;
    if !(SHORTEST..=LONGEST).contains(&ttl) {
        return Err(Failure::bad_input(format!("--ttl is {}, but must be between 2s and 1d", args.ttl)));
    }
    let timeout = args.timeout.as_deref().map(|text| duration("--timeout", text)).transpose()?;
    let mut signals = Signals::install()?;
    let store = database::connect(&app.config).await?;
    let client = app.client(store)?;
    database::prepare(client.store(), client.now(), false).await?;
    let client = app.coordinated(client).await?;
    let guard = tokio::select! {
        guard = client.lock(&args.name, ttl) => guard?,
        () = tokio::time::sleep(timeout.unwrap_or(Duration::MAX)) => {
            let waited = args.timeout.unwrap_or_default();
            return Err(Failure::failed(format!("the lock `{}` was not free within {waited}", args.name)));
        }
        _ = signals.next() => return Ok(Exit::Interrupted),
    };
    let ended = hold(&guard, &args, &mut signals).await;
    guard.release().await;
    let status = ended?;
    // The command's own code; 128 and the signal as shells have it.
    std::process::exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
}

/// Runs the command to its end. It gets the signals that come, and is ended when the lock is lost.
async fn hold(guard: &LockGuard, args: &LockArgs, signals: &mut Signals) -> Result<ExitStatus> {
    let program = args.command[0].to_string_lossy().into_owned();
    let mut child = Command::new(&args.command[0])
        .args(&args.command[1..])
        .env("MAINSPRING_FENCE", guard.fence().to_string())
        .spawn()
        .map_err(|error| Failure::bad_input(format!("`{program}` cannot be run: {}", cause(&error))))?;
    let failed = |error: std::io::Error| Failure::failed(format!("waiting for `{program}`: {}", cause(&error)));
    loop {
        tokio::select! {
            ended = child.wait() => return ended.map_err(failed),
            // A terminal sends its SIGINT to the command too.
            signal = signals.next() => match signal {
                "SIGINT" if std::io::stdin().is_terminal() => {}
                "SIGINT" => send(&child, Signal::SIGINT),
                _ => send(&child, Signal::SIGTERM),
            },
            () = guard.lost() => {
                send(&child, Signal::SIGTERM);
                if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
                    send(&child, Signal::SIGKILL);
                    child.wait().await.map_err(failed)?;
                }
                return Err(Failure::failed(format!("the lock `{}` was lost, so `{program}` was ended", args.name))
                    .remedy("another process may hold the lock now; see that the database, or etcd, is reachable"));
            }
        }
    }
}

fn send(child: &Child, signal: Signal) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        // It may have ended in this moment.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

fn duration(flag: &str, text: &str) -> Result<Duration> {
    parse_duration(text).ok_or_else(|| {
        Failure::bad_input(format!("{flag} is `{text}`")).remedy("write a duration such as 500ms, 30s, 5m or 2h")
    })
}
