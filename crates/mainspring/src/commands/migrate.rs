//! `mainspring migrate`: the schema of the database.

use clap::{Args, Subcommand};
use mainspring_core::time::rfc3339;
use mainspring_store::{Connect, SchemaState, Store};
use serde_json::{Value, json};

use crate::app::App;
use crate::database;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Paint, Table, local_text};

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Apply every step that is missing
    Up(DryRun),
    /// Take back the newest N steps; what they hold is lost
    Down {
        #[arg(value_name = "N")]
        steps: usize,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Show which steps are applied
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct DryRun {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn migrate(app: &App<'_>, command: MigrateCommand) -> Result {
    app.start_logs();
    let client = app.client(connect(app, &command).await?)?;
    let store = client.store();
    match command {
        MigrateCommand::Status => status(app, store).await,
        MigrateCommand::Up(DryRun { dry_run: true }) => {
            refuse_newer(store).await?;
            for step in store.migration_status().await?.iter().filter(|step| step.applied_at.is_none()) {
                app.out.line(format_args!("-- {} {}\n{}", step.version, step.name, step.up_sql(store.flavor())));
            }
            Ok(Exit::Success)
        }
        MigrateCommand::Up(_) => {
            // A server that works on the same file would be surprised.
            let _alone = store.lock_server()?;
            let done = store.migrate_up(client.now()).await?;
            print_steps(app, store, done, "applied").await
        }
        MigrateCommand::Down { steps, dry_run } => {
            refuse_newer(store).await?;
            if dry_run.dry_run {
                let applied = store.migration_status().await?;
                for step in applied.iter().rev().filter(|step| step.applied_at.is_some()).take(steps) {
                    app.out.line(format_args!("{} {} would be taken back", step.version, step.name));
                }
                return Ok(Exit::Success);
            }
            let _alone = store.lock_server()?;
            refuse_while_used(store).await?;
            let done = store.migrate_down(steps).await?;
            print_steps(app, store, done, "taken back").await
        }
    }
}

/// What only looks creates no file: where there is none, it looks at an empty database that goes with this process.
async fn connect(app: &App<'_>, command: &MigrateCommand) -> Result<Store> {
    let only_looks = match command {
        MigrateCommand::Status => true,
        MigrateCommand::Up(DryRun { dry_run }) | MigrateCommand::Down { dry_run: DryRun { dry_run }, .. } => *dry_run,
    };
    match database::sqlite_file(&app.config.database).filter(|file| only_looks && !file.exists()) {
        None => database::connect(&app.config).await,
        Some(file) => {
            app.out.note(format_args!("there is no database file {} yet", file.display()));
            Ok(Store::connect(&Connect::new("sqlite::memory:")).await?)
        }
    }
}

/// Taking tables away from under a worker loses what it does.
async fn refuse_while_used(store: &Store) -> Result<()> {
    let sessions = match store.schema_state().await? {
        SchemaState::Current => store.live_sessions().await?.len(),
        _ => 0,
    };
    if sessions == 0 {
        return Ok(());
    }
    Err(Failure::bad_input(format!("{sessions} workers are connected to this database"))
        .remedy("stop the servers first; the sessions of crashed ones are over after a server has started again"))
}

async fn refuse_newer(store: &Store) -> Result<()> {
    match store.schema_state().await? {
        SchemaState::Newer { .. } => Ok(store.require_current_schema().await?),
        _ => Ok(()),
    }
}

async fn print_steps(app: &App<'_>, store: &Store, done: usize, word: &str) -> Result {
    let now = store.migration_status().await?.iter().filter(|step| step.applied_at.is_some()).count();
    let steps = if done == 1 { "1 step".to_owned() } else { format!("{done} steps") };
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("{steps} {word}; the schema is at version {now}")),
        format => app.out.value(format, &json!({"steps": done, "version": now})),
    }
    Ok(Exit::Success)
}

async fn status(app: &App<'_>, store: &Store) -> Result {
    let steps = store.migration_status().await?;
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["STEP", "NAME", "APPLIED"]);
            for step in &steps {
                let (applied, paint) = match step.applied_at {
                    Some(at) => (local_text(&rfc3339(at)), Paint::Green),
                    None => ("missing".to_owned(), Paint::Yellow),
                };
                table.row(vec![(step.version.to_string(), None), (step.name.to_owned(), None), (applied, Some(paint))]);
            }
            table.print(app.out);
        }
        format => {
            let items: Vec<Value> = steps
                .iter()
                .map(|step| json!({"version": step.version, "name": step.name, "applied_at": step.applied_at.map(rfc3339)}))
                .collect();
            app.out.value(format, &json!({"items": items, "next": null}));
        }
    }
    refuse_newer(store).await?;
    Ok(Exit::Success)
}
