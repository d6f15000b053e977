//! A cache of the newest versions of triggered workflows, so that a busy producer does not cost a read per request.
//!
//! An entry may be outdated and is never trusted: the unit that creates the run refuses it unless it is still the
//! newest version, and then the version is read. So a stored version is the one that is started from then on, on every
//! node, even if messages are lost.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Beyond this the cache is emptied.
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
