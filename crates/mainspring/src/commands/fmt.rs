//! `mainspring fmt`: one layout for workflow files.

mod changes;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use mainspring_core::format::{FormatError, format};

use super::testing::{test_files, workflow_files};
use crate::failure::{Exit, Failure, Result, cause};
use crate::output::{Output, plain};
use crate::source;

#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// Workflow and test files, or folders of them; `-` formats standard input to standard output
    #[arg(required = true, value_name = "PATH")]
    files: Vec<String>,
    /// Write nothing: show what would change, and exit with 1 if there is anything
    #[arg(long)]
    check: bool,
}

pub(crate) fn fmt(args: &FmtArgs, out: &Output) -> Result {
    // All are read and formatted before the first one is written.
    let mut files = workflow_files(&args.files)?;
    let folders: Vec<PathBuf> = args.files.iter().map(PathBuf::from).filter(|path| path.is_dir()).collect();
    files.extend(test_files(&folders)?.iter().map(|file| file.display().to_string()));
    let mut formatted = Vec::with_capacity(files.len());
    for path in &files {
        let source = source::read(path)?;
        let text = match format(&source.text) {
            Ok(text) => text,
            Err(FormatError::Unreadable(problems)) => {
                source.complain(out, &problems);
                return Err(source::invalid(&source.name, problems.0.len()));
            }
            Err(error @ FormatError::WouldChange) => {
                return Err(Failure::bad_input(format!("{}: {error}", source.name))
                    .remedy("its layout is one that this formatter does not know; indent it by hand"));
            }
        };
        formatted.push((path, source, text));
    }
    let mut differing = 0;
    for (path, source, text) in &formatted {
        if path.as_str() == "-" && !args.check {
            out.raw(text);
            continue;
        }
        if source.text == *text {
            continue;
        }
        differing += 1;
        if args.check {
            out.raw(&changes::show(out.palette(), &source.name, &source.text, text));
        } else {
            replace(path, text)?;
            out.note(format_args!("formatted {}", plain(path)));
        }
    }
    if args.check && differing > 0 {
        let files = if differing == 1 { "1 file".into() } else { format!("{differing} files") };
        out.note(format_args!("{files} would change; `mainspring fmt` changes them"));
        return Ok(Exit::WorkFailed);
    }
    Ok(Exit::Success)
}

/// Puts the new text in the place of the old one at once, with its permissions: a crash leaves one of the two.
fn replace(path: &str, text: &str) -> Result<()> {
    let failed = |error: std::io::Error| {
        Failure::bad_input(format!("cannot write {path}: {}", cause(&error)))
            .remedy("check that the folder may be written to")
    };
    // A link stays a link.
    let target = Path::new(path).canonicalize().map_err(failed)?;
    let permissions = target.metadata().map_err(failed)?.permissions();
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let beside = target.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = std::fs::File::create_new(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_permissions(permissions)?;
        file.sync_all()?;
        std::fs::rename(&beside, &target)
    });
    written.map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        failed(error)
    })
}
