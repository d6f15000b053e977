//! `mainspring init`: a folder to begin with.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::{Exit, Failure, Result, cause};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to put it
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

/// Name and content; every one is valid as it is, which a test checks.
const FILES: [(&str, &str); 6] = [
    ("mainspring.toml", include_str!("init/mainspring.toml")),
    (".gitignore", include_str!("init/gitignore")),
    ("README.md", include_str!("init/README.md")),
    ("workflows/hello.yaml", include_str!("init/hello.yaml")),
    ("workflows/etl.yaml", include_str!("init/etl.yaml")),
    ("workflows/etl.test.yaml", include_str!("init/etl.test.yaml")),
];

pub(crate) fn init(args: &InitArgs, out: &Output) -> Result {
    // Looked at first, so that nothing is written when something is in the way.
    for (name, _) in FILES {
        let path = args.folder.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(Failure::bad_input(format!("{} exists already; nothing was written", path.display()))
                .remedy("choose another folder: mainspring init DIR"));
        }
    }
    for (name, content) in FILES {
        let path = args.folder.join(name);
        write(&path, content).map_err(|error| {
            Failure::bad_input(format!("cannot write {}: {}", path.display(), cause(&error)))
                .remedy("choose a folder that may be written to: mainspring init DIR")
        })?;
        if !out.quiet {
            out.line(format_args!("wrote {}", path.display()));
        }
    }
    let change =
        if args.folder == Path::new(".") { String::new() } else { format!("cd {} && ", args.folder.display()) };
    out.note(format_args!("\ntry it: {change}mainspring test && mainspring run workflows/hello.yaml"));
    Ok(Exit::Success)
}

/// Never over something that appeared meanwhile.
fn write(path: &Path, content: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::File::create_new(path)?.write_all(content.as_bytes())
}
