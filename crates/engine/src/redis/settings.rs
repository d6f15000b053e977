//! How to reach Redis, and the status of the connection.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;

/// Where Redis is: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` for TLS.
#[derive(Clone)]
pub struct RedisSettings {
    pub(crate) url: Url,
    /// Trust the authorities of this PEM file instead of the public ones.
    pub(crate) ca: Option<PathBuf>,
}

impl std::fmt::Debug for RedisSettings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "RedisSettings({})", self.shown())
    }
}

impl RedisSettings {
    /// Fails with the fault of the URL, without showing its password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("it is not a URL ({error})"))?;
        if !matches!(url.scheme(), "redis" | "rediss") || !url.has_host() {
            return Err("it must be written redis://HOST:6379 or rediss://HOST:6379".into());
        }
        let database = url.path().trim_start_matches('/');
        if !database.is_empty() && database.parse::<u32>().is_err() {
            return Err("what follows the host must be the number of a database, like /0".into());
        }
        Ok(Self { url, ca: None })
    }

    /// Trusts the authorities of a PEM file instead of the public ones. Fails with the fault of the file.
    pub fn with_ca(mut self, file: PathBuf) -> Result<Self, String> {
        if self.url.scheme() != "rediss" {
            return Err("it means nothing without a redis.url that begins with rediss://".into());
        }
        authorities(&file)?;
        self.ca = Some(file);
        Ok(self)
    }

    /// The address without credentials.
    pub(crate) fn shown(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        format!("{}://{host}:{}", self.url.scheme(), self.url.port().unwrap_or(6379))
    }
}

/// The certificates of a PEM file.
pub(crate) fn authorities(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let unreadable = |cause: String| format!("{} cannot be read: {cause}", file.display());
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(unreadable("it holds no certificate as PEM".into())),
        false => Ok(roots),
    }
}

/// Redis as the loops of a process share it.
#[derive(Debug, Clone)]
pub(crate) struct Redis {
    pub(crate) settings: RedisSettings,
    pub(crate) status: Arc<RedisStatus>,
}

/// The current problem with Redis, if any, for the health report.
#[derive(Debug, Default)]
pub(crate) struct RedisStatus(Mutex<Option<String>>);

impl RedisStatus {
    pub(crate) fn trouble(&self, cause: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            tracing::warn!(cause, "Redis does not help; nodes poll and the database goes on alone");
        }
        *known = Some(cause);
    }

    pub(crate) fn recovered(&self) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!("Redis helps again");
        }
    }

    pub(crate) fn cause(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_and_passwords_not_shown() {
        let settings = RedisSettings::parse("redis://me:secret@host/2").unwrap();
        assert_eq!(settings.shown(), "redis://host:6379");
        assert!(!format!("{settings:?}").contains("secret"));
        assert!(settings.with_ca("/nowhere.pem".into()).unwrap_err().contains("rediss://"));
        let secure = RedisSettings::parse("rediss://host").unwrap();
        assert!(secure.with_ca("/nowhere.pem".into()).unwrap_err().contains("cannot be read"));
        for wrong in ["http://host", "redis:///0", "redis://host/x", "nonsense"] {
            assert!(RedisSettings::parse(wrong).is_err(), "{wrong}");
        }
    }
}
