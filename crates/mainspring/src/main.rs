//! The one binary.

mod bench;
mod local;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "mainspring", version, about = "A distributed task scheduler and workflow orchestrator")]
struct Cli {
    /// The database
    #[arg(long, global = true, env = "DATABASE_URL", default_value = "sqlite://.mainspring/mainspring.db")]
    database: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure what this database and machine can carry
    Bench(bench::BenchArgs),
    #[command(hide = true)]
    Watchdog,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    if matches!(cli.command, Command::Watchdog) {
        return Ok(mainspring_worker::watchdog::main()?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .init();
        match cli.command {
            Command::Bench(args) => bench::run(&cli.database, args).await,
            Command::Watchdog => Ok(()),
        }
    })
}
