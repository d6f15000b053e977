//! The newest versions of workflows that were triggered before, so that a busy producer does not cost a read per request.
//!
//! What is known may be outdated, and never counts by itself: the unit that makes the run refuses it unless it is the
//! newest version still, and then it is read. So a version that was stored is the one that is started from then on, on
//! every node, whatever messages got lost.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// More are not kept; they are all forgotten then.
const MOST: usize = 10_000;

/// Versions by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct KnownLatest(Mutex<HashMap<(String, String), i64>>);

impl KnownLatest {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<i64> {
        self.with(|known| known.get(&(namespace.to_owned(), name.to_owned())).copied())
    }

    pub(super) fn keep(&self, namespace: &str, name: &str, version: i64) {
        self.with(|known| {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert((namespace.to_owned(), name.to_owned()), version);
        });
    }

    fn with<T>(&self, look: impl FnOnce(&mut HashMap<(String, String), i64>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
