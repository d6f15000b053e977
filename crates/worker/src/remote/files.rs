//! Files of versions, kept for the next task of the same version.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use mainspring_core::work::{Bundle, Failure};

use super::session::{Reply, Session};
use crate::text::locked;

/// How many versions' files are kept.
const KEPT: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct FileCache(Mutex<VecDeque<(i64, Arc<Bundle>)>>);

impl FileCache {
    /// The files of a version; `None` if the session was lost meanwhile.
    pub(crate) async fn get(&self, session: &Session, version: i64) -> Option<Result<Arc<Bundle>, Failure>> {
        if let Some((_, bundle)) = locked(&self.0).iter().find(|(kept, _)| *kept == version) {
            return Some(Ok(Arc::clone(bundle)));
        }
        let bundle = match session.files(version).await {
            Reply::Answer(Ok(bundle)) => Arc::new(bundle),
            Reply::Answer(Err(message)) => return Some(Err(failure(message))),
            Reply::Refused(error) => return Some(Err(failure(error.to_string()))),
            Reply::Lost => return None,
        };
        let mut kept = locked(&self.0);
        kept.push_front((version, Arc::clone(&bundle)));
        kept.truncate(KEPT);
        Some(Ok(bundle))
    }
}

fn failure(message: String) -> Failure {
    Failure {
        kind: "files".into(),
        message: format!("the files of the workflow did not arrive: {message}"),
        ..Failure::default()
    }
}
