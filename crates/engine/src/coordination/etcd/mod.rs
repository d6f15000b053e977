//! Coordination beside the database by etcd: leases that end a few seconds after their process, and watches that report
//! it.
//!
//! etcd never decides. A lease that is seen to end permits the compare-and-swap of the term at once; everything else
//! stays as it is without etcd. Its revisions are compared with nothing but themselves: a wiped etcd starts over. It is
//! spoken to through its JSON gateway (`/v3/…`), which every etcd since 3.4 serves on its client port: a gRPC stack
//! would double what this program depends on for one call a second.

mod contact;
mod coordinator;
mod gateway;
mod leases;
mod locks;
mod tls;
mod watch;

use std::path::PathBuf;

pub(crate) use coordinator::EtcdCoordinator;

/// How to reach etcd.
#[derive(Clone, Default)]
pub struct EtcdSettings {
    /// `http://HOST:PORT` or `https://HOST:PORT`; tried in turn.
    pub endpoints: Vec<String>,
    pub username: Option<String>,
    pub password: Option<String>,
    /// PEM file with the authority that signed the servers' certificates; the public ones unless given.
    pub ca: Option<PathBuf>,
    /// PEM files with a certificate of this client and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// What every key begins with.
    pub prefix: String,
}

impl std::fmt::Debug for EtcdSettings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("EtcdSettings")
            .field("endpoints", &self.endpoints)
            .field("username", &self.username)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
