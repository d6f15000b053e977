//! The one binary.

mod api;
mod app;
mod bench;
mod bundle;
mod children;
mod cli;
mod commands;
mod config;
mod courier;
mod database;
mod descriptors;
mod failure;
mod first_start;
mod host;
mod ids;
mod inputs;
mod instants;
mod isolation;
mod local;
mod output;
mod progress;
#[cfg(test)]
mod reference;
mod signals;
mod source;
mod telemetry;
mod views;
mod zones;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::app::App;
use crate::cli::{Cli, Command};
use crate::failure::{Exit, Failure, Result};
use crate::output::Output;

fn main() -> ExitCode {
    // Before there is a second thread, and quickly: every worker waits for its watchdog.
    if std::env::args_os().nth(1).is_some_and(|first| first == "watchdog") {
        return mainspring_worker::watchdog::main().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let cli = Cli::parse();
    if cli.command.executes()
        && let Err(error) = mainspring_worker::close_inherited(is_named)
    {
        let out = Output::new(cli.common.output, cli.common.color, cli.common.quiet);
        out.failure(&Failure::failed(format!("cannot close what was left open for this program: {error}")));
        return Exit::WorkFailed.into();
    }
    let out = Output::new(cli.common.output, cli.common.color, cli.common.quiet);
    let exit = run(cli, out);
    exit.into()
}

/// Whether the command line asks for an open descriptor, as `<(…)` of a shell does.
fn is_named(descriptor: i32) -> bool {
    let paths = [format!("/dev/fd/{descriptor}"), format!("/proc/self/fd/{descriptor}")];
    std::env::args_os().any(|argument| {
        let argument = argument.to_string_lossy();
        paths.iter().any(|path| argument.strip_suffix(path.as_str()).is_some())
    })
}

fn run(cli: Cli, out: Output) -> Exit {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            out.failure(&Failure::failed(format!("cannot start threads: {error}")));
            return Exit::WorkFailed;
        }
    };
    let exit = runtime.block_on(async {
        match dispatch(cli, &out).await {
            Ok(exit) => exit,
            Err(failure) => {
                out.failure(&failure);
                failure.exit
            }
        }
    });
    // What was left running is dropped, so that temporary files go; nothing may hold the end up for long.
    runtime.shutdown_timeout(Duration::from_millis(500));
    exit
}

async fn dispatch(cli: Cli, out: &Output) -> Result {
    if cli.command.looks_at_zones() {
        zones::install();
    }
    match &cli.command {
        Command::Validate(args) => return commands::validate::validate(args, out),
        Command::Graph(args) => return commands::graph::graph(args, out),
        Command::Test(args) => return commands::testing::test(args, out),
        Command::Init(args) => return commands::init::init(args, out),
        Command::Fmt(args) => return commands::fmt::fmt(args, out),
        Command::Import(args) => return commands::import::import(args, out),
        Command::Schema(args) => return commands::schema::schema(out, args),
        Command::Cron(command) => return commands::cron::cron(command, out),
        Command::Completions(args) => return commands::completions::completions(args, out),
        Command::Version => return commands::version::version(out),
        Command::Doctor => return commands::doctor::doctor(&cli, out).await,
        _ => {}
    }
    let config = config::load(cli.common.config.clone(), &cli.flags())?;
    let app = App::new(config, cli.common, out)?;
    match cli.command {
        Command::Run(args) => commands::run::run(&app, args).await,
        Command::Server(_) => commands::server::server(&app).await,
        Command::Worker(args) => commands::worker::worker(&app, args).await,
        Command::Workers(command) => commands::workers::workers(&app, command).await,
        Command::Dev(args) => commands::dev::dev(&app, args).await,
        Command::Apply(args) => commands::apply::apply(&app, args).await,
        Command::Trigger(args) => commands::trigger::trigger(&app, args).await,
        Command::Submit(args) => commands::submit::submit(&app, args).await,
        Command::Watch(args) => commands::watch::watch(&app, args).await,
        Command::Runs(command) => commands::runs::runs(&app, command).await,
        Command::Approvals(command) => commands::approvals::approvals(&app, command).await,
        Command::Tasks(command) => commands::tasks::tasks(&app, command).await,
        Command::Workflows(command) => commands::workflows::workflows(&app, command).await,
        Command::Why(args) => commands::why::why(&app, args).await,
        Command::Jobs(command) => commands::jobs::jobs(&app, command).await,
        Command::Handlers(command) => commands::handlers::handlers(&app, command).await,
        Command::Events(command) => commands::events::events(&app, command).await,
        Command::Ui(args) => commands::ui::ui(&app, args).await,
        Command::Search(args) => commands::search::search(&app, args).await,
        Command::Cluster => commands::cluster::cluster(&app).await,
        Command::Lock(args) => commands::lock::lock(&app, args).await,
        Command::Dlq(command) => commands::dlq::dlq(&app, command).await,
        Command::Stale(args) => commands::dlq::stale(&app, args).await,
        Command::Notifications(command) => commands::notifications::notifications(&app, command).await,
        Command::Pools(command) => commands::pools::pools(&app, command).await,
        Command::Pause(args) => commands::pause::pause(&app, args).await,
        Command::Resume(args) => commands::pause::resume(&app, args).await,
        Command::Schedules(command) => commands::schedules::schedules(&app, command).await,
        Command::Calendars(command) => commands::calendars::calendars(&app, command).await,
        Command::Backfill(args) => commands::backfill::backfill(&app, args).await,
        Command::Tokens(command) => commands::tokens::tokens(&app, command).await,
        Command::Secrets(command) => commands::secrets::secrets(&app, command).await,
        Command::Namespaces(command) => commands::namespaces::namespaces(&app, command).await,
        Command::Audit(args) => commands::audit::audit(&app, args).await,
        Command::Diff(args) => commands::diff::diff(&app, args).await,
        Command::Migrate(command) => commands::migrate::migrate(&app, command).await,
        Command::Backup(args) => commands::backup::backup(&app, &args).await,
        Command::Restore(args) => commands::backup::restore(&app, &args).await,
        Command::MigrateStore(args) => commands::backup::migrate_store(&app, &args).await,
        Command::Bench(args) => {
            app.start_logs();
            bench::run(&app.config.database, args).await?;
            Ok(Exit::Success)
        }
        Command::Validate(_)
        | Command::Graph(_)
        | Command::Test(_)
        | Command::Init(_)
        | Command::Fmt(_)
        | Command::Import(_)
        | Command::Schema(_)
        | Command::Cron(_)
        | Command::Completions(_)
        | Command::Version
        | Command::Doctor
        | Command::Watchdog => Ok(Exit::Success),
    }
}
