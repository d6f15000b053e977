//! What keeps the tasks of a server away from the server itself.

use std::path::{Path, PathBuf};

use mainspring_worker::PoolConfig;
use mainspring_worker::confine::{self, Account, Confinement};

use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::first_start::data_folder;

/// The account of tasks when the server is root and none is configured.
pub(crate) const USUAL_ACCOUNT: &str = "mainspring-task";
/// Where tasks work, in the folder of the server's data.
const TASKS: &str = "tasks";

/// What is known of the isolation of tasks here.
#[derive(Debug, Clone)]
pub(crate) struct Isolation {
    /// Whether files are hidden; the reason if not.
    pub(crate) hides: std::result::Result<(), &'static str>,
    pub(crate) account: Option<Account>,
    pub(crate) is_root: bool,
}

impl Isolation {
    pub(crate) fn of(config: &Config) -> Result<Self> {
        let hides = match config.worker.isolates {
            false => Err("worker.isolation is off"),
            true if confine::is_available() => Ok(()),
            true => Err("this system has no Landlock"),
        };
        let is_root = nix::unistd::geteuid().is_root();
        Ok(Self { hides, account: account(config, is_root)?, is_root })
    }

    /// The pool of a server, with its tasks kept apart as far as this system can.
    pub(crate) fn apply(&self, config: &Config, mut pool: PoolConfig) -> PoolConfig {
        if self.hides.is_err() && self.account.is_none() {
            return pool;
        }
        let hidden = if self.hides.is_ok() { hidden(config) } else { Vec::new() };
        if self.hides.is_ok() && self.account.is_none() {
            // Within what is hidden, so that tasks do not see each other either. Another account could not get there.
            pool.root = Some(data_folder(config).join(TASKS));
        }
        pool.confinement = Some(Confinement { hidden, user: self.account.clone() });
        pool
    }

    /// What is isolated and what is not, in words.
    pub(crate) fn words(&self) -> String {
        let files = match self.hides {
            Ok(()) => {
                "tasks of a server see neither its database file, keys and tokens nor other tasks' folders".to_owned()
            }
            Err(why) => format!("tasks of a server can read its database file, keys and tokens: {why}"),
        };
        let user = match (&self.account, self.is_root) {
            (Some(account), _) => format!("they run as {}", account.name),
            (None, true) => "they run as root".to_owned(),
            (None, false) => "they run as the server's user".to_owned(),
        };
        format!("{files}; {user}; network, CPU and memory are shared")
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.hides.is_ok() && (self.account.is_some() || !self.is_root)
    }
}

fn account(config: &Config, is_root: bool) -> Result<Option<Account>> {
    let unknown = |error: std::io::Error| Failure::failed(format!("cannot look accounts up: {error}"));
    match &config.worker.user {
        Some(name) => {
            let account = Account::named(name).map_err(unknown)?.ok_or_else(|| {
                Failure::bad_input(format!("worker.user names `{name}`, but this system has no such account"))
                    .remedy("make one with `useradd --system --no-create-home NAME`")
            })?;
            let is_own = account.uid == nix::unistd::geteuid().as_raw();
            if !is_root && !is_own {
                let said = format!("worker.user is `{name}`, but only root can start tasks as another user");
                return Err(Failure::bad_input(said).remedy("leave worker.user out, or start the server as root"));
            }
            Ok(Some(account).filter(|_| !is_own))
        }
        None if is_root => Account::named(USUAL_ACCOUNT).map_err(unknown),
        None => Ok(None),
    }
}

/// Everything on disk that belongs to the server alone.
fn hidden(config: &Config) -> Vec<PathBuf> {
    let api = &config.api;
    let mut hidden = vec![data_folder(config)];
    hidden.extend(api.secrets_key_file.iter().chain(&api.secrets_directory).cloned());
    hidden.extend(api.tls.iter().map(|files| files.key.clone()));
    hidden.extend(config.file.clone());
    hidden.iter().map(|path| absolute(path)).collect()
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
