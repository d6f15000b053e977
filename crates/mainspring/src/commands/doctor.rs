//! `mainspring doctor`: is everything in place? Each finding comes with a remedy.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_engine::{Client, HealthStatus, SystemClock};
use mainspring_store::{SchemaState, Store};
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::config::{self, Config, KEYS};
use crate::database::{self, shown, sqlite_file};
use crate::failure::{Exit, Failure, Result, cause};
use crate::isolation::{Isolation, USUAL_ACCOUNT};
use crate::local::watchdog_command;
use crate::output::{Format, Output, Paint};

const SLOW: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Doubtful,
    Bad,
}

#[derive(Debug)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    message: String,
    remedy: Option<String>,
}

#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn good(&mut self, check: &'static str, message: impl Into<String>) {
        self.0.push(Finding { check, verdict: Verdict::Good, message: message.into(), remedy: None });
    }

    fn doubtful(&mut self, check: &'static str, message: impl Into<String>, remedy: impl Into<String>) {
        let remedy = Some(remedy.into());
        self.0.push(Finding { check, verdict: Verdict::Doubtful, message: message.into(), remedy });
    }

    fn bad(&mut self, check: &'static str, failure: Failure) {
        self.0.push(Finding { check, verdict: Verdict::Bad, message: failure.message, remedy: failure.remedy });
    }
}

pub(crate) async fn doctor(cli: &Cli, out: &Output) -> Result {
    let mut findings = Findings::default();
    match config::load(cli.common.config.clone(), &cli.flags()) {
        Ok(config) => {
            configuration(&mut findings, &config, cli.common.verbose > 0);
            check_database(&mut findings, &config).await;
            isolation(&mut findings, &config);
        }
        Err(failure) => findings.bad("configuration", failure),
    }
    working_folder(&mut findings);
    shell(&mut findings);
    time_zones(&mut findings);
    watchdog(&mut findings);
    show(out, &findings.0);
    let is_well = findings.0.iter().all(|finding| finding.verdict != Verdict::Bad);
    Ok(if is_well { Exit::Success } else { Exit::WorkFailed })
}

fn configuration(findings: &mut Findings, config: &Config, lists_all: bool) {
    let file = match &config.file {
        Some(file) => format!("{} is used", file.display()),
        None => "no mainspring.toml here, so the defaults hold".to_owned(),
    };
    findings.good("configuration", file);
    for (key, setting) in &config.said {
        let value = match *key {
            "database" => shown(&setting.word.to_string()),
            "smtp.password" => "(not shown)".to_owned(),
            _ => setting.word.to_string(),
        };
        findings.good("setting", format!("{key} = {value}  (from {})", setting.source));
    }
    for key in KEYS.iter().filter(|key| lists_all && config.said.iter().all(|(said, _)| *said != key.name)) {
        let variable = config::variable(key.name);
        findings.good("setting", format!("{} is not set  ({variable}: {})", key.name, key.meaning));
    }
}

async fn check_database(findings: &mut Findings, config: &Config) {
    let url = shown(&config.database);
    if let Some(file) = sqlite_file(&config.database) {
        match file.exists() {
            false => {
                let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
                let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
                match writable(existing) {
                    Ok(()) => findings.good("database", format!("{url} is not there yet; the first use makes it")),
                    Err(error) => findings.bad("database", unwritable(existing, &error)),
                }
                return;
            }
            true => {
                if let Err(error) = std::fs::File::options().append(true).open(&file) {
                    findings.bad("database", unwritable(&file, &error));
                    return;
                }
            }
        }
    }
    let started = Instant::now();
    let store = match database::connect(config).await {
        Ok(store) => store,
        Err(failure) => return findings.bad("database", failure),
    };
    findings.good("database", format!("{url} answers after {:.1} ms", millis(started.elapsed())));
    schema(findings, &store).await;
    latency(findings, &store).await;
    served(findings, &store).await;
    health(findings, store).await;
}

async fn schema(findings: &mut Findings, store: &Store) {
    match store.schema_state().await {
        Ok(SchemaState::Current) => findings.good("schema", "it is the one this program knows"),
        Ok(SchemaState::Empty) => findings.good("schema", "the database is empty; a server prepares it by itself"),
        Ok(SchemaState::Behind { found, known }) => findings.bad(
            "schema",
            Failure::bad_input(format!("it has version {found}, this program knows {known}"))
                .remedy("stop the servers, then `mainspring migrate up`"),
        ),
        Ok(SchemaState::Newer { found, known }) => findings.bad(
            "schema",
            Failure::bad_input(format!("it has version {found}, this program knows only {known}"))
                .remedy("use the program that wrote it, or a newer one"),
        ),
        Err(error) => findings.bad("schema", error.into()),
    }
}

/// What `/health` would say, as far as it is not said above.
async fn health(findings: &mut Findings, store: Store) {
    if !matches!(store.schema_state().await, Ok(SchemaState::Current)) {
        return;
    }
    let client = Client::new(store, Arc::new(SystemClock::new()));
    let seen = client.look_at_health().await;
    for part in seen.components.iter().filter(|part| matches!(part.name, "coordination" | "schedules" | "disk")) {
        let remedy = match part.name {
            "disk" => "free space where the database file is",
            "schedules" => "see docs/troubleshooting.md and the log of the node that leads",
            _ => "start `mainspring server` with the role scheduler",
        };
        match part.status {
            HealthStatus::Healthy => findings.good(part.name, part.message.clone()),
            HealthStatus::Degraded => findings.doubtful(part.name, part.message.clone(), remedy),
            HealthStatus::Unhealthy => {
                findings.bad(part.name, Failure::bad_input(part.message.clone()).remedy(remedy));
            }
        }
    }
}

/// Whether anything executes what is submitted.
async fn served(findings: &mut Findings, store: &Store) {
    if !matches!(store.schema_state().await, Ok(SchemaState::Current)) {
        return;
    }
    match store.live_sessions().await {
        Ok(sessions) if sessions.iter().any(|session| session.slots > 0 && !session.draining) => {
            let plural = if sessions.len() == 1 { " is" } else { "s are" };
            findings.good("servers", format!("{} worker{plural} live", sessions.len()));
        }
        Ok(_) => findings.doubtful(
            "servers",
            "nothing serves this database: what is submitted waits",
            "start `mainspring server` with the same database",
        ),
        Err(error) => findings.bad("servers", error.into()),
    }
}

/// The median of a few small reads.
async fn latency(findings: &mut Findings, store: &Store) {
    let mut samples = Vec::new();
    for _ in 0..11 {
        let started = Instant::now();
        if let Err(error) = store.schema_state().await {
            return findings.bad("latency", error.into());
        }
        // A look at the schema is two reads.
        samples.push(started.elapsed() / 2);
    }
    samples.sort_unstable();
    let median = samples[samples.len() / 2];
    let message = format!("a read takes {:.2} ms", millis(median));
    if median > SLOW {
        findings.doubtful("latency", message, "put servers near their database: every step of a run is a round trip");
    } else {
        findings.good("latency", message);
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

fn working_folder(findings: &mut Findings) {
    let folder = std::env::temp_dir();
    match writable(&folder) {
        Ok(()) => findings.good("folder", format!("{} is writable: tasks work there", folder.display())),
        Err(error) => {
            let failure = unwritable(&folder, &error).remedy("free it, or name another folder with TMPDIR");
            findings.bad("folder", failure);
        }
    }
}

fn writable(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".mainspring-doctor-{}", std::process::id()));
    std::fs::write(&probe, b"x")?;
    std::fs::remove_file(&probe)
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::bad_input(format!("{} is not writable: {}", path.display(), cause(error)))
        .remedy("correct its owner or permissions, or name another place with --database")
}

fn time_zones(findings: &mut Findings) {
    let zones = mainspring_core::schedule::zone_version();
    if zones.source == "bundled" {
        findings.doubtful(
            "time zones",
            format!("version {} as built in: this machine has no tz database", zones.version),
            "install tzdata, or name its folder in TZDIR",
        );
    } else {
        findings.good("time zones", format!("version {} of {}", zones.version, zones.source));
    }
}

fn shell(findings: &mut Findings) {
    let find = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    match (find("bash"), find("sh")) {
        (Some(bash), _) => findings.good("shell", format!("{}", bash.display())),
        (None, Some(sh)) => findings.doubtful(
            "shell",
            format!("there is no bash, so scripts run with {}", sh.display()),
            "install bash, or write scripts for sh",
        ),
        (None, None) => findings.bad(
            "shell",
            Failure::bad_input("neither bash nor sh is in PATH").remedy("correct PATH; `run` tasks need a shell"),
        ),
    }
}

/// What tasks of a server can see of it.
fn isolation(findings: &mut Findings, config: &Config) {
    match Isolation::of(config) {
        Ok(isolation) if isolation.is_whole() => findings.good("isolation", isolation.words()),
        Ok(isolation) if isolation.hides.is_ok() => findings.doubtful(
            "isolation",
            isolation.words(),
            format!("make the account {USUAL_ACCOUNT}, name another with worker.user, or do not start servers as root"),
        ),
        Ok(isolation) => findings.doubtful(
            "isolation",
            isolation.words(),
            "let only people author workflows whom you trust with the server, or let workers on other machines execute them",
        ),
        Err(failure) => findings.bad("isolation", failure),
    }
}

/// Starts the helper and lets it end with its pipe, as a worker would.
fn watchdog(findings: &mut Findings) {
    let started = watchdog_command().ok_or_else(|| "this program cannot find itself".to_owned()).and_then(|command| {
        let (program, arguments) = command.split_first().ok_or("no command")?;
        let child = std::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let status = child.and_then(|mut child| {
            drop(child.stdin.take());
            child.wait()
        });
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("it ended with {status}")),
            Err(error) => Err(error.to_string()),
        }
    });
    match started {
        Ok(()) => findings.good("watchdog", "it starts: no process outlives its worker"),
        Err(cause) => findings.bad(
            "watchdog",
            Failure::bad_input(format!("it does not start: {cause}"))
                .remedy("the program must be able to start itself again; check its file's permissions"),
        ),
    }
}

fn show(out: &Output, findings: &[Finding]) {
    if let Some(format @ (Format::Json | Format::Yaml)) = out.format {
        let items: Vec<Value> = findings
            .iter()
            .map(|finding| {
                let verdict = match finding.verdict {
                    Verdict::Good => "ok",
                    Verdict::Doubtful => "warning",
                    Verdict::Bad => "error",
                };
                json!({"check": finding.check, "status": verdict, "message": finding.message, "remedy": finding.remedy})
            })
            .collect();
        return out.value(format, &json!({"items": items, "next": null}));
    }
    let palette = out.palette();
    for finding in findings {
        let (word, paint) = match finding.verdict {
            Verdict::Good if out.quiet => continue,
            Verdict::Good => ("ok   ", Paint::Green),
            Verdict::Doubtful => ("warn ", Paint::Yellow),
            Verdict::Bad => ("error", Paint::Red),
        };
        out.line(format_args!("{} {:13} {}", palette.paint(paint, word), finding.check, finding.message));
        if let Some(remedy) = &finding.remedy {
            out.line(format_args!("{:19} {} {remedy}", "", palette.paint(Paint::Cyan, "help:")));
        }
    }
}
