//! The object store, for files that are too large for the database.

use std::path::PathBuf;
use std::sync::Arc;

use mainspring_boxed::boxed;
use mainspring_core::work::Order;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt as _};
use url::Url;

use super::s3::HyperConnector;
use crate::client::Client;

/// The operator's settings for files of tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactSettings {
    /// `file:///FOLDER` or `s3://BUCKET/PREFIX`; without it files are kept in the database alone.
    pub url: Option<String>,
    /// Files of more bytes go into the object store.
    pub database_limit: u64,
    /// Files of more bytes are not kept.
    pub max_bytes: u64,
}

impl Default for ArtifactSettings {
    fn default() -> Self {
        Self { url: None, database_limit: 1 << 20, max_bytes: 10 << 30 }
    }
}

/// Why there is no such object store.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactSettingsError {
    #[error("`{0}` is no object store: write file:///FOLDER or s3://BUCKET/PREFIX")]
    Url(String),
    #[error("cannot make the folder {}: {source}", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("the object store cannot be used: {0}")]
    Store(#[from] object_store::Error),
}

/// Where files are kept.
#[derive(Debug, Default)]
pub(crate) struct Artifacts {
    pub(super) settings: ArtifactSettings,
    pub(super) objects: Option<Arc<dyn ObjectStore>>,
}

impl Artifacts {
    /// Does not contact the object store, which may become available later.
    pub(crate) fn new(settings: ArtifactSettings) -> Result<Self, ArtifactSettingsError> {
        let objects = settings.url.as_deref().map(open).transpose()?;
        Ok(Self { settings, objects })
    }

    /// The largest file that goes into the database.
    pub(super) fn database_limit(&self) -> u64 {
        match self.objects {
            Some(_) => self.settings.database_limit.min(super::DATABASE_LIMIT),
            None => super::DATABASE_LIMIT,
        }
    }

    /// Sets the limit for the files of an attempt.
    pub(crate) fn limit(&self, order: &mut Order) {
        if !order.artifacts.is_empty() {
            order.process.artifacts_limit = Some(self.attempt_limit());
        }
    }

    /// Bytes of all files that an attempt may leave.
    pub(crate) fn attempt_limit(&self) -> u64 {
        match self.objects {
            Some(_) => self.settings.max_bytes,
            None => super::DATABASE_LIMIT,
        }
    }

    /// Deletes an object. An object that does not exist counts as deleted. Without an object store nothing can be
    /// deleted.
    pub(crate) async fn delete(&self, object: &str) -> Result<bool, object_store::Error> {
        let Some(objects) = &self.objects else { return Ok(false) };
        match objects.delete(&Path::from(object)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

#[boxed]
impl Client {
    /// Sets where files of tasks are kept.
    pub fn with_artifacts(mut self, settings: ArtifactSettings) -> Result<Self, ArtifactSettingsError> {
        self.artifacts = Arc::new(Artifacts::new(settings)?);
        Ok(self)
    }

    /// Deletes objects that no artifact names, and returns how many. An object that cannot be deleted is retried later.
    pub async fn delete_unused_objects(&self, most: i64) -> mainspring_store::Result<usize> {
        let mut deleted = 0;
        for object in self.store.unused_objects(self.now(), most).await? {
            match self.artifacts.delete(&object).await {
                Ok(true) => {
                    self.store.forget_object(&object).await?;
                    deleted += 1;
                }
                Ok(false) => {
                    tracing::warn!("objects are to be deleted, but artifacts.url is not set");
                    return Ok(deleted);
                }
                Err(error) => tracing::warn!(%error, object, "an object cannot be deleted; it is tried again"),
            }
        }
        Ok(deleted)
    }
}

fn open(text: &str) -> Result<Arc<dyn ObjectStore>, ArtifactSettingsError> {
    let wrong = || ArtifactSettingsError::Url(text.to_owned());
    let url = Url::parse(text).map_err(|_| wrong())?;
    match url.scheme() {
        "file" => {
            let path = url.to_file_path().map_err(|()| wrong())?;
            if path.parent().is_none() {
                return Err(wrong());
            }
            std::fs::create_dir_all(&path)
                .map_err(|source| ArtifactSettingsError::Folder { path: path.clone(), source })?;
            let folder = LocalFileSystem::new_with_prefix(path)?.with_automatic_cleanup(true).with_fsync(true);
            Ok(Arc::new(folder))
        }
        "s3" => {
            let bucket = url.host_str().ok_or_else(wrong)?;
            let s3 = AmazonS3Builder::from_env().with_bucket_name(bucket).with_http_connector(HyperConnector::new());
            let s3 = s3.build()?;
            Ok(match url.path().trim_matches('/') {
                "" => Arc::new(s3),
                prefix => Arc::new(PrefixStore::new(s3, Path::from(prefix))),
            })
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_no_object_store_is_refused_with_what_to_write() {
        for text in ["", "x", "http://example.com/a", "file:///", "s3:///x", "s3://"] {
            let error = open(text).unwrap_err().to_string();
            assert!(error.contains("file:///FOLDER or s3://BUCKET/PREFIX"), "{text}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let url = Url::from_file_path(folder.path().join("a/b")).unwrap();
        open(url.as_str()).unwrap();
        assert!(folder.path().join("a/b").is_dir());
    }
}
