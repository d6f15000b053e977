//! `mainspring import`: workflows to begin with, made of what other programs schedule.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mainspring_core::import::{Imported, airflow, argo, crontab, dagu, github_actions, tasker};

use crate::failure::{Exit, Failure, Result, cause};
use crate::output::Output;
use crate::source;

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// What the file is
    #[arg(value_enum, value_name = "KIND")]
    kind: Kind,
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Where to write: a folder that exists, for a file per workflow, or a new file for one [default: standard output]
    #[arg(short = 'O', long = "out", value_name = "OUT")]
    target: Option<PathBuf>,
    /// The crontab has a user column, like /etc/crontab
    #[arg(long)]
    system: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Crontab,
    GithubActions,
    Tasker,
    Dagu,
    Argo,
    Airflow,
}

pub(crate) fn import(args: &ImportArgs, out: &Output) -> Result {
    let source = source::read(&args.file)?;
    let imported = match args.kind {
        Kind::Crontab => crontab(&source.text, args.system),
        Kind::GithubActions => github_actions(&source.text).map(|one| vec![one]),
        Kind::Dagu => dagu(&source.text).map(|one| vec![one]),
        Kind::Airflow => airflow(&source.text).map(|one| vec![one]),
        Kind::Argo => argo(&source.text).map(|one| vec![one]),
        Kind::Tasker => tasker(&source.text).map(|one| vec![one]),
    };
    let imported = imported.map_err(|problems| {
        source.complain(out, &problems);
        source::invalid(&source.name, problems.0.len())
    })?;
    match &args.target {
        None => print(&imported, out),
        Some(target) => write(&imported, target, out)?,
    }
    let left_out: usize = imported.iter().map(|one| one.left_out).sum();
    if left_out > 0 {
        let remarks = if left_out == 1 { "remark says" } else { "remarks say" };
        out.note(format_args!("{left_out} {remarks} what was not carried over: look for `# not carried over`"));
    }
    // What cannot be valid yet is written all the same: it is a beginning, and these are its gaps.
    let mut is_valid = true;
    for one in &imported {
        if let Err(problems) = mainspring_core::parse(&one.text) {
            is_valid = false;
            out.note(problems.display(&format!("{}.yaml", one.name)));
        }
    }
    Ok(if is_valid { Exit::Success } else { Exit::WorkFailed })
}

fn print(imported: &[Imported], out: &Output) {
    for (number, one) in imported.iter().enumerate() {
        if imported.len() > 1 {
            let mark = if number > 0 { "---\n" } else { "" };
            out.raw(&format!("{mark}# {}.yaml\n", one.name));
        }
        out.raw(&one.text);
    }
}

/// Never over something that is there; nothing is written if anything is in the way.
fn write(imported: &[Imported], target: &Path, out: &Output) -> Result<()> {
    let files: Vec<PathBuf> = match imported {
        _ if target.is_dir() => imported.iter().map(|one| target.join(format!("{}.yaml", one.name))).collect(),
        [_] => vec![target.to_owned()],
        _ => {
            return Err(Failure::bad_input(format!(
                "{} is no folder, but there are {} workflows",
                target.display(),
                imported.len()
            ))
            .remedy("make the folder first: each workflow becomes a file in it"));
        }
    };
    for file in &files {
        if file.symlink_metadata().is_ok() {
            return Err(Failure::bad_input(format!("{} exists already; nothing was written", file.display()))
                .remedy("name another with --out"));
        }
    }
    for (file, one) in files.iter().zip(imported) {
        let written = std::fs::File::create_new(file).and_then(|mut new| new.write_all(one.text.as_bytes()));
        written.map_err(|error| {
            Failure::bad_input(format!("cannot write {}: {}", file.display(), cause(&error))).remedy("check the folder")
        })?;
        out.note(format_args!("wrote {}", file.display()));
    }
    Ok(())
}
