//! The private corner of one attempt on disk: working directory, output file, script file.
//!
//! Names are numbers in a directory that belongs to this pool alone, so making a place is one system call. The output
//! file is not made in advance: a script that writes no output costs none.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Removed when dropped, also when the attempt is abandoned half-way.
#[derive(Debug)]
pub(super) struct Place {
    directory: Option<PathBuf>,
    pub(super) output: PathBuf,
    script: Option<PathBuf>,
}

impl Place {
    /// `working`: whether the attempt also needs a working directory of its own.
    pub(super) fn make(root: &Path, number: u64, working: bool) -> io::Result<Self> {
        let directory = root.join(number.to_string());
        let output = root.join(format!("{number}.output"));
        if working {
            fs::create_dir(&directory)?;
        }
        Ok(Self { directory: working.then_some(directory), output, script: None })
    }

    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Writes the script where its interpreter finds it.
    pub(super) fn write_script(&mut self, script: &str) -> io::Result<&Path> {
        let path = self.output.with_extension("script");
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
        file.write_all(script.as_bytes())?;
        Ok(self.script.insert(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Usually there is no output and nothing in the directory. What is missing is as good as removed.
        let _ = fs::remove_file(&self.output);
        if let Some(script) = &self.script {
            let _ = fs::remove_file(script);
        }
        let Some(directory) = self.directory.take() else { return };
        let Err(error) = fs::remove_dir(&directory) else { return };
        if error.kind() == ErrorKind::NotFound {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || remove(&directory))),
            Err(_) => remove(&directory),
        }
    }
}

fn remove(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(directory = %directory.display(), %error, "cannot remove the working directory of a task");
    }
}
