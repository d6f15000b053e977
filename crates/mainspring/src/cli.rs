//! The command line as a whole: common flags, the commands, and the help that groups them.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::commands;
use crate::config::Flag;
use crate::output::{Color, Format};

const COMMON: &str = "Common options";

const HELP: &str = "\
{about}

Usage: mainspring [OPTIONS] COMMAND

Write and try workflows
  init         Create a folder with sample workflows
  run          Run one workflow to its end, without a server
  validate     Check workflow files and show every problem
  test         Simulate workflows in virtual time and check what their tests expect
  graph        Draw a workflow
  fmt          Format workflow files; comments are kept
  diff         Show how a file differs from the stored workflow
  import       Convert files of cron, GitHub Actions, Tasker, Dagu, Argo or Airflow into workflows
  schema       Print the JSON Schema of workflow files, or of their tests
  cron         Explain cron expressions

Serve
  dev          Serve, and apply the workflows of a folder when they change
  server       Run a node: HTTP, scheduling and a worker, in any mix
  worker       Execute tasks for servers on this or other machines

Start work
  submit       Store a workflow and start a run of it
  apply        Store workflows as new versions
  trigger      Start a run of a stored workflow
  jobs         Create, list, pause, resume, reschedule, trigger and delete jobs
  events       Announce events that tasks wait for
  handlers     Create, list, pause, resume and delete handlers of events
  schedules    List triggers, look ahead, pause and resume them
  calendars    Set, list, get and delete calendars of closed days
  backfill     Start the runs of a schedule for a range of the past

Inspect and repair
  watch        Show runs and their tasks on the terminal, as they go
  runs         List, get, follow, cancel, pause, resume and repeat runs
  tasks        List, approve, retry, skip, resolve and cancel the tasks of a run
  approvals    List the tasks that wait for a person, approve and reject them
  why          Explain why a task does not run
  workflows    List, get, pause, resume and delete workflows
  dlq          List dead letters and causes, retry, skip and resolve them
  stale        List open runs by how long they have gone without progress
  notifications  List messages about failures; show and set who gets those of a namespace
  search       Find workflows, runs and errors by words
  pools        Set, list and delete named pools
  pause        Start no more tasks of a queue, of a namespace, or at all; list what is paused
  resume       Start tasks again that were paused
  workers      List, get and drain workers
  ui           Print an address that opens the web interface and signs in once

Access
  tokens       Create, list and delete API tokens
  secrets      Set, list and delete secrets of a namespace
  namespaces   Create, list, get, set and delete namespaces and their quotas
  audit        Show who did what, and which requests were refused

Maintain
  migrate      Bring the database schema up, down, or show where it is
  backup       Copy a SQLite database into a file while servers use it
  restore      Replace the database by a copy that `backup` made
  migrate-store  Move everything from SQLite to an empty PostgreSQL database
  doctor       Check configuration, database and machine, with remedies
  bench        Measure what this database and machine can carry
  cluster      Show nodes, the leader, and what etcd and Redis say
  lock         Run a command while holding a lock that only one process has
  completions  Print a completion script for a shell
  version      Print the version
  help         Print this, or the help of a command

Options:
{options}

Exit codes: 0 success, 1 the work failed, 2 bad input or configuration, 3 not reachable, 130 interrupted
";

#[derive(Debug, Parser)]
#[command(
    name = "mainspring",
    version,
    about = "A distributed task scheduler and workflow orchestrator",
    help_template = HELP,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The database: sqlite://PATH or postgres://… [env: DATABASE_URL] [default: sqlite://.mainspring/mainspring.db]
    #[arg(long, global = true, help_heading = COMMON, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// The server to ask instead of a database, for commands that can [env: MAINSPRING_SERVER, with MAINSPRING_TOKEN]
    #[arg(long, global = true, help_heading = COMMON, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A profile of profiles.toml: server, token and namespace [env: MAINSPRING_PROFILE]
    #[arg(long, global = true, help_heading = COMMON, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Configuration file [env: MAINSPRING_CONFIG] [default: mainspring.toml if there is one]
    #[arg(long, global = true, help_heading = COMMON, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Namespace
    #[arg(short, long, global = true, help_heading = COMMON, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// How to show records [env: MAINSPRING_OUTPUT_FORMAT] [default: table]
    #[arg(short, long, global = true, help_heading = COMMON, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// When to use colour
    #[arg(long, global = true, help_heading = COMMON, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Say less
    #[arg(short, long, global = true, help_heading = COMMON)]
    pub(crate) quiet: bool,
    /// Say more; twice for everything
    #[arg(short, long, global = true, help_heading = COMMON, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a folder with sample workflows
    Init(commands::init::InitArgs),
    /// Run one workflow to its end, without a server
    Run(commands::run::RunArgs),
    /// Check workflow files and show every problem
    Validate(commands::validate::ValidateArgs),
    /// Simulate workflows in virtual time and check what their tests expect
    Test(commands::testing::TestArgs),
    /// Draw a workflow
    Graph(commands::graph::GraphArgs),
    /// Format workflow files; comments are kept
    Fmt(commands::fmt::FmtArgs),
    /// Show how a file differs from the stored workflow
    Diff(commands::diff::DiffArgs),
    /// Convert files of cron, GitHub Actions, Tasker, Dagu, Argo or Airflow into workflows
    Import(commands::import::ImportArgs),
    /// Print the JSON Schema of workflow files, or of their tests
    Schema(commands::schema::SchemaArgs),
    /// Explain cron expressions
    #[command(subcommand)]
    Cron(commands::cron::CronCommand),
    /// Run a node: HTTP, scheduling and a worker, in any mix
    Server(commands::server::ServerArgs),
    /// Execute tasks for servers on this or other machines
    Worker(commands::worker::WorkerArgs),
    /// Serve, and apply the workflows of a folder when they change
    Dev(commands::dev::DevArgs),
    /// Store a workflow and start a run of it
    Submit(commands::submit::SubmitArgs),
    /// Store workflows as new versions
    Apply(commands::apply::ApplyArgs),
    /// Start a run of a stored workflow
    Trigger(commands::trigger::TriggerArgs),
    /// Show runs and their tasks on the terminal, as they go
    Watch(commands::watch::WatchArgs),
    /// List, get, follow, cancel, pause, resume and repeat runs
    #[command(subcommand)]
    Runs(commands::runs::RunsCommand),
    /// List, approve, retry, skip, resolve and cancel the tasks of a run
    #[command(subcommand, alias = "task")]
    Tasks(commands::tasks::TasksCommand),
    /// List the tasks that wait for a person, approve and reject them
    #[command(subcommand)]
    Approvals(commands::approvals::ApprovalsCommand),
    /// List, get, pause, resume and delete workflows
    #[command(subcommand, alias = "workflow")]
    Workflows(commands::workflows::WorkflowsCommand),
    /// Explain why a task does not run
    Why(commands::why::WhyArgs),
    /// Create, list, pause, resume, reschedule, trigger and delete jobs
    #[command(subcommand, alias = "job")]
    Jobs(commands::jobs::JobsCommand),
    /// Create, list, pause, resume and delete handlers of events
    #[command(subcommand)]
    Handlers(commands::handlers::HandlersCommand),
    /// Announce events that tasks wait for
    #[command(subcommand)]
    Events(commands::events::EventsCommand),
    /// Find workflows, runs and errors by words
    Search(commands::search::SearchArgs),
    /// List dead letters and causes, retry, skip and resolve them
    #[command(subcommand)]
    Dlq(commands::dlq::DlqCommand),
    /// List open runs by how long they have gone without progress
    Stale(commands::dlq::StaleArgs),
    /// Print an address that opens the web interface and signs in once
    Ui(commands::ui::UiArgs),
    /// List messages about failures; show and set who gets those of a namespace
    #[command(subcommand)]
    Notifications(commands::notifications::NotificationsCommand),
    /// Set, list and delete named pools
    #[command(subcommand, alias = "pool")]
    Pools(commands::pools::PoolsCommand),
    /// Start no more tasks of a queue, of a namespace, or at all; list what is paused
    Pause(commands::pause::PauseArgs),
    /// Start tasks again that were paused
    Resume(commands::pause::ResumeArgs),
    /// List, get and drain workers
    #[command(subcommand)]
    Workers(commands::workers::WorkersCommand),
    /// List triggers, look ahead, pause and resume them
    #[command(subcommand, alias = "schedule")]
    Schedules(commands::schedules::SchedulesCommand),
    /// Set, list, get and delete calendars of closed days
    #[command(subcommand)]
    Calendars(commands::calendars::CalendarsCommand),
    /// Start the runs of a schedule for a range of the past
    Backfill(commands::backfill::BackfillArgs),
    /// Create, list and delete API tokens
    #[command(subcommand, alias = "token")]
    Tokens(commands::tokens::TokensCommand),
    /// Set, list and delete secrets of a namespace
    #[command(subcommand, alias = "secret")]
    Secrets(commands::secrets::SecretsCommand),
    /// Create, list, get, set and delete namespaces and their quotas
    #[command(subcommand, alias = "namespace")]
    Namespaces(commands::namespaces::NamespacesCommand),
    /// Show who did what, and which requests were refused
    Audit(commands::audit::AuditArgs),
    /// Bring the database schema up, down, or show where it is
    #[command(subcommand)]
    Migrate(commands::migrate::MigrateCommand),
    /// Copy a SQLite database into a file while servers use it
    Backup(commands::backup::BackupArgs),
    /// Replace the database by a copy that `backup` made
    Restore(commands::backup::RestoreArgs),
    /// Move everything from SQLite to an empty PostgreSQL database
    MigrateStore(commands::backup::MigrateStoreArgs),
    /// Check configuration, database and machine, with remedies
    Doctor,
    /// Measure what this database and machine can carry
    Bench(BenchArgs),
    /// Show nodes, the leader, and what etcd and Redis say
    Cluster,
    /// Run a command while holding a lock that only one process has
    Lock(commands::lock::LockArgs),
    /// Print a completion script for a shell
    Completions(commands::completions::CompletionsArgs),
    /// Print the version
    Version,
    /// Kill what a worker that died left behind
    #[command(hide = true)]
    Watchdog,
}

impl Cli {
    /// The flags that are settings.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let mut flags = Vec::new();
        if let Some(database) = &self.common.database {
            flags.push(Flag { key: "database", flag: "database", value: database.clone() });
        }
        match &self.command {
            Command::Server(args) => flags.extend(args.flags()),
            Command::Worker(args) => flags.extend(args.flags()),
            Command::Run(args) => flags.extend(args.flags()),
            Command::Dev(args) => flags.extend(args.flags()),
            Command::Lock(args) => flags.extend(args.flags()),
            _ => {}
        }
        flags
    }
}

impl Command {
    /// Whether tasks may be executed by this process.
    pub(crate) fn executes(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Server(_) | Self::Worker(_) | Self::Dev(_) | Self::Bench(_))
    }

    /// Whether it may ask what the clocks of a zone show. The others start faster without reading tables.
    pub(crate) fn looks_at_zones(&self) -> bool {
        !matches!(
            self,
            Self::Init(_)
                | Self::Validate(_)
                | Self::Graph(_)
                | Self::Fmt(_)
                | Self::Import(_)
                | Self::Schema(_)
                | Self::Completions(_)
                | Self::Version
        )
    }
}

/// How many rows of a list to show.
pub(crate) fn limit(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|limit| (1..=500).contains(limit))
        .ok_or_else(|| "write a whole number from 1 to 500".into())
}

/// The same as a wider number.
pub(crate) fn limit_wide(text: &str) -> Result<i64, String> {
    limit(text).map(i64::from)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// A cursor may begin with any character of its alphabet, `-` among them.
    #[test]
    fn cursors_are_no_flags() {
        for list in [&["runs", "list"][..], &["audit"]] {
            let arguments = [&["mainspring"], list, &["--cursor", "-Ab_", "--limit", "3"]].concat();
            assert!(Cli::try_parse_from(arguments).is_ok(), "{list:?}");
        }
    }

    /// An argument with the name of a common flag is read as that flag, which fails if it holds something else.
    #[test]
    fn an_argument_with_the_name_of_a_common_flag_holds_the_same() {
        fn check(command: &clap::Command, root: &clap::Command) {
            for argument in command.get_arguments() {
                let common = root.get_arguments().find(|one| one.is_global_set() && one.get_id() == argument.get_id());
                let Some(common) = common else { continue };
                let (own, shared) = (argument.get_value_parser().type_id(), common.get_value_parser().type_id());
                assert!(own == shared, "{}: {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(|inner| check(inner, root));
        }
        let root = Cli::command();
        root.get_subcommands().for_each(|command| check(command, &root));
    }

    /// Guides and runbooks name commands within sentences, which are not run as their code blocks are.
    #[test]
    fn commands_that_the_documentation_names_exist() {
        let mut root = Cli::command();
        root.build();
        let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut pages = vec![home.join("README.md"), home.join("sdk/python/README.md")];
        for folder in ["docs", "docs/runbooks"] {
            pages.extend(std::fs::read_dir(home.join(folder)).unwrap().map(|entry| entry.unwrap().path()));
        }
        for page in pages.iter().filter(|page| page.extension().is_some_and(|kind| kind == "md")) {
            for line in std::fs::read_to_string(page).unwrap().lines() {
                for span in line.split('`').skip(1).step_by(2) {
                    let Some(words) = span.strip_prefix("mainspring ") else { continue };
                    let mut command = &root;
                    for word in words.split_whitespace().take_while(|word| *word != "--") {
                        let flag =
                            word.trim_start_matches('[').strip_prefix("--").map(|flag| flag.trim_end_matches(']'));
                        let is_name = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
                        if let Some(flag) = flag {
                            let is_known = command.get_arguments().any(|argument| {
                                let aliases = argument.get_all_aliases().unwrap_or_default();
                                argument.get_long() == Some(flag) || aliases.contains(&flag)
                            });
                            assert!(is_known, "{}: `{span}`: --{flag}", page.display());
                        } else if let Some(inner) = command.find_subcommand(word) {
                            command = inner;
                        } else {
                            assert!(!is_name || !command.has_subcommands(), "{}: `{span}`: {word}", page.display());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_grouped_help_names_every_command() {
        let command = Cli::command();
        command.clone().debug_assert();
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let line = format!("\n  {:11}  {}\n", subcommand.get_name(), subcommand.get_about().unwrap_or_default());
            assert!(HELP.contains(&line), "the help lacks{line}");
        }
    }
}
