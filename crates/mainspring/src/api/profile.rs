//! Profiles: servers that a person talks to, with the token for each.
//!
//! `~/.config/mainspring/profiles.toml` (or the file in MAINSPRING_PROFILES):
//!
//! ```toml
//! default = "work"
//! [work]
//! server = "https://jobs.example.com"
//! token_file = "/home/me/.mainspring-token"
//! namespace = "reports"
//! ```

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mainspring_core::diagnostic::did_you_mean;
use serde::Deserialize;

use crate::failure::{Failure, Result, cause};

/// One server and how to talk to it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) server: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) namespace: Option<String>,
    /// A PEM file of the authority that signed the server's certificate.
    pub(crate) authority: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
struct Profiles {
    default: Option<String>,
    #[serde(flatten)]
    by_name: BTreeMap<String, Profile>,
}

impl Profile {
    /// The profile of this name, else the one that is the default, else an empty one.
    pub(crate) fn load(wanted: Option<&str>) -> Result<Self> {
        let wanted = wanted.map(str::to_owned).or_else(|| variable("MAINSPRING_PROFILE"));
        let Some(file) = file() else {
            return match wanted {
                None => Ok(Self::default()),
                Some(name) => Err(Failure::bad_input(format!("there is no profile `{name}`: no file of profiles"))
                    .remedy("write it to ~/.config/mainspring/profiles.toml")),
            };
        };
        let text = std::fs::read_to_string(&file)
            .map_err(|error| Failure::bad_input(format!("{} cannot be read: {}", file.display(), cause(&error))))?;
        let profiles = parse(&file, &text)?;
        let Some(name) = wanted.or(profiles.default) else { return Ok(Self::default()) };
        let Some(profile) = profiles.by_name.get(&name) else {
            let near = did_you_mean(&name, profiles.by_name.keys().map(String::as_str));
            let failure = Failure::bad_input(format!("{} has no profile `{name}`", file.display()));
            return Err(match near {
                Some(near) => failure.remedy(near),
                None => failure,
            });
        };
        if profile.token.is_some() {
            require_private(&file)?;
        }
        Ok(profile.clone())
    }

    /// The token in it or in its file.
    pub(crate) fn token(&self) -> Result<Option<String>> {
        match (&self.token, &self.token_file) {
            (Some(token), _) => Ok(Some(token.clone())),
            (None, Some(file)) => read_token(file).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// A token from a file that no other user may read.
pub(crate) fn read_token(file: &Path) -> Result<String> {
    require_private(file)?;
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::bad_input(format!("{} cannot be read: {}", file.display(), cause(&error))))?;
    Ok(text.trim().to_owned())
}

fn require_private(file: &Path) -> Result<()> {
    let mode = std::fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(Failure::bad_input(format!("{} holds a token, but others may read it", file.display()))
        .remedy(format!("chmod 600 {}", file.display())))
}

fn parse(file: &Path, text: &str) -> Result<Profiles> {
    toml::from_str(text).map_err(|error| {
        Failure::bad_input(format!("{}: {}", file.display(), error.message()))
            .remedy("a profile has server, token or token_file, namespace and authority")
    })
}

fn file() -> Option<PathBuf> {
    if let Some(file) = variable("MAINSPRING_PROFILES") {
        return Some(PathBuf::from(file));
    }
    let folder = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".config")))?;
    Some(folder.join("mainspring/profiles.toml")).filter(|file| file.exists())
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_strictly() {
        let file = Path::new("profiles.toml");
        let profiles = parse(file, "default = \"a\"\n[a]\nserver = \"http://x\"\nnamespace = \"n\"\n").unwrap();
        assert_eq!(profiles.default.as_deref(), Some("a"));
        assert_eq!(profiles.by_name["a"].server.as_deref(), Some("http://x"));
        assert!(parse(file, "[a]\nsevrer = \"x\"\n").is_err());
    }
}
