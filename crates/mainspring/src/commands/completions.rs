//! `mainspring completions`: a script for the shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Exit, Result};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs, out: &Output) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "mainspring", &mut script);
    out.raw(&String::from_utf8_lossy(&script));
    Ok(Exit::Success)
}
