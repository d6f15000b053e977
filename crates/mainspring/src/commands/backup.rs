//! `mainspring backup`, `restore` and `migrate-store`: whole databases.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use mainspring_store::{Connect, SchemaState, Store};
use serde_json::{Value, json};

use crate::app::App;
use crate::database::{self, shown, sqlite_file};
use crate::failure::{Exit, Failure, Result, cause};
use crate::output::{Format, Table};

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A file that `backup` has written
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace a database that is there; it is kept beside it as NAME.replaced, or NAME.replaced.2 and so on
    #[arg(long)]
    replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateStoreArgs {
    /// The database to read, like sqlite://.mainspring/mainspring.db
    #[arg(long, value_name = "URL")]
    from: String,
    /// An empty database, like postgres://user@host/name
    #[arg(long, value_name = "URL")]
    to: String,
}

/// Copies a SQLite database while servers use it.
pub(crate) async fn backup(app: &App<'_>, args: &BackupArgs) -> Result {
    app.start_logs();
    if sqlite_file(&app.config.database).is_none() {
        return Err(Failure::bad_input("a PostgreSQL database is backed up with its own tools")
            .remedy(format!("run `pg_dump --format=custom --file={} DATABASE_URL`", args.file.display())));
    }
    if args.file.exists() {
        return Err(Failure::bad_input(format!("{} exists already", args.file.display())).remedy("name a new file"));
    }
    let store = database::open(&app.config).await?;
    store.backup_to(&args.file).await?;
    let bytes = std::fs::metadata(&args.file).map_or(0, |metadata| metadata.len());
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("{bytes} bytes were written to {}", args.file.display())),
        format => app.out.value(format, &json!({"file": args.file.display().to_string(), "bytes": bytes})),
    }
    app.out.note(format_args!(
        "keep the key of the secrets (secrets.key beside the database) elsewhere: it is not in this file"
    ));
    Ok(Exit::Success)
}

/// Puts a copy in the place of the database; an older one is brought up to this program's schema.
pub(crate) async fn restore(app: &App<'_>, args: &RestoreArgs) -> Result {
    app.start_logs();
    let Some(target) = sqlite_file(&app.config.database) else {
        return Err(Failure::bad_input("a PostgreSQL database is restored with its own tools")
            .remedy(format!("run `pg_restore --dbname=DATABASE_URL {}`", args.file.display())));
    };
    if !args.file.is_file() {
        return Err(Failure::bad_input(format!("there is no file {}", args.file.display())));
    }
    // A copy that this program cannot serve is refused before anything is touched.
    if !is_database(&args.file) {
        return Err(no_backup(&args.file));
    }
    let copy = Store::connect(&Connect::new(format!("sqlite://{}", args.file.display()))).await?;
    match copy.schema_state().await? {
        SchemaState::Empty => return Err(no_backup(&args.file)),
        SchemaState::Newer { .. } => copy.require_current_schema().await?,
        SchemaState::Current | SchemaState::Behind { .. } => {}
    }
    copy.close().await;
    if target.exists() {
        if !args.replace {
            return Err(Failure::bad_input(format!("{} exists already", target.display()))
                .remedy("stop its server and repeat with --replace: it is kept beside the new one"));
        }
        let current = database::connect(&app.config).await?;
        let _alone = current.lock_server()?;
        current.close().await;
        let kept = free_name(&target);
        std::fs::rename(&target, &kept).map_err(|error| written(&kept, &error))?;
        for suffix in ["-wal", "-shm"] {
            let mut log = target.clone().into_os_string();
            log.push(suffix);
            _ = std::fs::remove_file(log);
        }
        app.out.note(format_args!("the database that was there is kept as {}", kept.display()));
    }
    if let Some(folder) = target.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| written(folder, &error))?;
    }
    std::fs::copy(&args.file, &target).map_err(|error| written(&target, &error))?;
    let client = app.client(database::connect(&app.config).await?)?;
    let _alone = client.store().lock_server()?;
    let steps = client.store().migrate_up(client.now()).await?;
    app.out.line(format_args!("{} was restored to {}", args.file.display(), target.display()));
    if steps > 0 {
        app.out.note(format_args!("its schema was older: {steps} steps were applied"));
    }
    Ok(Exit::Success)
}

/// Whether a file begins as SQLite's do.
fn is_database(file: &Path) -> bool {
    let mut start = [0; 16];
    let read = std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && &start == b"SQLite format 3\0"
}

fn no_backup(file: &Path) -> Failure {
    Failure::bad_input(format!("{} is not a backup of Mainspring", file.display()))
        .remedy("name a file that `mainspring backup` has written")
}

/// Where a database that is replaced goes; what was replaced earlier stays.
fn free_name(target: &std::path::Path) -> PathBuf {
    let name = |number: u32| {
        let mut name = target.as_os_str().to_owned();
        name.push(if number == 1 { ".replaced".to_owned() } else { format!(".replaced.{number}") });
        PathBuf::from(name)
    };
    (1..).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(1))
}

fn written(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {}", path.display(), cause(error)))
}

/// Carries everything from SQLite into an empty PostgreSQL database.
pub(crate) async fn migrate_store(app: &App<'_>, args: &MigrateStoreArgs) -> Result {
    app.start_logs();
    if sqlite_file(&args.from).is_none_or(|file| !file.exists()) {
        return Err(Failure::bad_input(format!("there is no SQLite database at {}", shown(&args.from)))
            .remedy("name it with --from sqlite://PATH"));
    }
    if !args.to.starts_with("postgres") {
        return Err(
            Failure::bad_input("--to must name a PostgreSQL database").remedy("write --to postgres://user@host/name")
        );
    }
    let from = Store::connect(&Connect::new(&args.from)).await?;
    // What a server would write meanwhile would be missing.
    let _alone = from.lock_server()?;
    from.require_current_schema().await?;
    let to = app.client(Store::connect(&Connect::new(&args.to)).await?)?;
    to.store().migrate_up(to.now()).await?;
    let tables = from.copy_to(to.store()).await?;
    let rows: u64 = tables.iter().map(|table| table.rows).sum();
    match app.out.record_format() {
        Format::Table => {
            let mut list = Table::new(&["TABLE", "ROWS"]);
            for table in tables.iter().filter(|table| table.rows > 0) {
                list.row(vec![(table.name.clone(), None), (table.rows.to_string(), None)]);
            }
            list.print(app.out);
            app.out.line(format_args!("{rows} rows were copied to {}", shown(&args.to)));
            app.out.note(format_args!(
                "start servers with --database {} and the same key of the secrets",
                shown(&args.to)
            ));
        }
        format => {
            let items: Vec<Value> =
                tables.iter().map(|table| json!({"table": table.name, "rows": table.rows})).collect();
            app.out.value(format, &json!({"items": items, "next": null}));
        }
    }
    Ok(Exit::Success)
}
