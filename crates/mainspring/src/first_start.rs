//! What an installation needs on its first start: the folder of its data, the key of its secrets, its first token.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainspring_engine::{Secrets, Vault};
use mainspring_server::Token;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::config::Config;
use crate::database::sqlite_file;
use crate::failure::{Failure, Result, cause};

/// Variables with this prefix are secrets of that name.
const SECRET_PREFIX: &str = "MAINSPRING_SECRET_";
/// Keys that are given in the environment.
const KEY_VARIABLE: &str = "MAINSPRING_SECRETS_KEY";
const DEFAULT_FOLDER: &str = ".mainspring";
const LARGEST_FILE: u64 = 64 * 1024;

/// Beside the database file; `.mainspring` where the database is a server.
pub(crate) fn data_folder(config: &Config) -> PathBuf {
    match sqlite_file(&config.database).and_then(|file| file.parent().map(Path::to_owned)) {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) => PathBuf::from("."),
        None => PathBuf::from(DEFAULT_FOLDER),
    }
}

/// Every secret this process knows: of the environment, of a folder, and the keys of the store's.
pub(crate) fn secrets(config: &Config) -> Secrets {
    let mut known: Vec<(String, String)> = Vec::new();
    if let Some(folder) = &config.api.secrets_directory {
        known.extend(from_folder(folder));
    }
    known.extend(std::env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?.strip_prefix(SECRET_PREFIX)?.to_owned();
        Some((name, value.into_string().ok()?))
    }));
    let vault = vault(config).unwrap_or_else(|failure| {
        tracing::warn!(cause = failure.message, "secrets in the database cannot be opened");
        Vault::default()
    });
    Secrets::new(known).allow(config.api.secrets_allow.iter().cloned()).with_vault(vault)
}

/// One secret per file, named like it; a last line break does not count.
fn from_folder(folder: &Path) -> Vec<(String, String)> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(%error, folder = %folder.display(), "reading the folder of secrets");
            return Vec::new();
        }
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_str()?.to_owned();
            let metadata = std::fs::metadata(entry.path()).ok()?;
            if name.starts_with('.') || !metadata.is_file() || metadata.len() > LARGEST_FILE {
                return None;
            }
            let value = std::fs::read_to_string(entry.path()).ok()?;
            Some((name, value.strip_suffix('\n').unwrap_or(&value).to_owned()))
        })
        .collect()
}

/// The keys that seal secrets, from the environment, the file of the configuration, or the file beside the database.
pub(crate) fn vault(config: &Config) -> Result<Vault> {
    if let Some(text) = std::env::var(KEY_VARIABLE).ok().filter(|text| !text.is_empty()) {
        return keys(&text, KEY_VARIABLE).map(|keys| Vault::new(&keys));
    }
    let file = match &config.api.secrets_key_file {
        Some(file) => file.clone(),
        None => match own_key_file(config).filter(|file| file.exists()) {
            Some(file) => file,
            None => return Ok(Vault::default()),
        },
    };
    let name = file.display().to_string();
    let text = std::fs::read_to_string(&file)
        .map_err(|error| Failure::bad_input(format!("the key file {name} cannot be read: {}", cause(&error))))?;
    keys(&text, &name).map(|keys| Vault::new(&keys))
}

/// Makes the file beside a SQLite database, unless keys come from elsewhere.
pub(crate) fn ensure_key(config: &Config) -> Result<()> {
    let is_given = config.api.secrets_key_file.is_some() || std::env::var_os(KEY_VARIABLE).is_some();
    let Some(file) = own_key_file(config).filter(|file| !is_given && !file.exists()) else { return Ok(()) };
    let mut key = [0_u8; 32];
    getrandom::fill(&mut key).map_err(|error| Failure::failed(format!("the system has no randomness: {error}")))?;
    match write_private(&file, &format!("{}\n", STANDARD.encode(key)), false) {
        // Another process was first: its key is used.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let folder = data_folder(config);
            Err(Failure::bad_input(format!("the folder {} of the database cannot be created", folder.display()))
                .remedy("create it, or name another place with --database sqlite://PATH"))
        }
        Err(error) => Err(Failure::bad_input(format!("cannot write {}: {}", file.display(), cause(&error)))
            .remedy("let secrets.key_file name a file with a key (`openssl rand -base64 32`)")),
        Ok(()) => Ok(()),
    }
}

fn own_key_file(config: &Config) -> Option<PathBuf> {
    sqlite_file(&config.database).map(|_| data_folder(config).join("secrets.key"))
}

/// One key per line, 32 bytes as base64 or hexadecimal digits.
fn keys(text: &str, place: &str) -> Result<Vec<[u8; 32]>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Option<Vec<[u8; 32]>> = lines.map(key).collect();
    match keys {
        Some(keys) if !keys.is_empty() => Ok(keys),
        _ => Err(Failure::bad_input(format!("{place} holds no keys: each line must be 32 bytes as base64 or hex"))
            .remedy("make one with `openssl rand -base64 32`")),
    }
}

fn key(line: &str) -> Option<[u8; 32]> {
    if line.len() == 64 && line.is_ascii() {
        let bytes: Option<Vec<u8>> = (0..32).map(|at| u8::from_str_radix(&line[at * 2..at * 2 + 2], 16).ok()).collect();
        return bytes?.try_into().ok();
    }
    STANDARD.decode(line).ok()?.try_into().ok()
}

/// Shows the first token once, and leaves it for the command line of who may read the folder.
pub(crate) fn hand_over(app: &App<'_>, token: &Token) {
    // The file of another installation that was started in this folder stays as it is.
    let mut file = app.token_file();
    if file.exists() {
        let database: String =
            Sha256::digest(app.config.database.as_bytes()).iter().take(4).map(|b| format!("{b:02x}")).collect();
        file.set_file_name(format!("admin-{database}.token"));
    }
    let kept = write_private(&file, &format!("{}\n", token.reveal()), true);
    app.out.line(format_args!("admin token, shown this once: {}", token.reveal()));
    match kept {
        Ok(()) => app.out.note(format_args!("the token is also in {}", file.display())),
        Err(error) => tracing::warn!(%error, file = %file.display(), "the first token was not kept in a file"),
    }
}

/// The token that the first start left, if it can be read.
pub(crate) fn left_token(app: &App<'_>) -> Option<Token> {
    Token::read(std::fs::read_to_string(app.token_file()).ok()?.trim())
}

/// Writes a file that no other user can read, under its name only when it is complete.
fn write_private(file: &Path, text: &str, replaces: bool) -> std::io::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let making = file.with_extension(format!("making-{}", std::process::id()));
    let mut open: File = File::options().write(true).create(true).truncate(true).mode(0o600).open(&making)?;
    open.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    open.write_all(text.as_bytes())?;
    open.sync_all()?;
    let placed = if replaces { std::fs::rename(&making, file) } else { std::fs::hard_link(&making, file) };
    if !replaces || placed.is_err() {
        _ = std::fs::remove_file(&making);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_both_spellings() {
        let base64 = STANDARD.encode([1; 32]);
        let hex = "02".repeat(32);
        let read = keys(&format!("# newest first\n{hex}\n\n{base64}\n"), "x").unwrap();
        assert_eq!(read, [[2; 32], [1; 32]]);
        for wrong in ["", "short", &base64[1..], &"zz".repeat(32), &"é".repeat(32)] {
            assert!(keys(wrong, "x").is_err(), "{wrong}");
        }
    }
}
