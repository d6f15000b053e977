//! Which node leads, which processes take part, and named locks.
//!
//! The database decides all of it. A [`Coordinator`] makes nodes notice sooner: the database alone, or etcd beside it. To
//! add one: implement the trait, and choose it in `Client::with_etcd`'s manner. What only a leader does is in `duties/`.

pub(crate) mod coordinator;
pub(crate) mod database;
pub(crate) mod election;
pub(crate) mod etcd;
pub(crate) mod lock_guard;
pub(crate) mod standing;

pub use coordinator::{CoordinationError, CoordinationHealth};
pub(crate) use coordinator::{Coordinator, LeadershipNote, Member};
pub use election::DUTY as LEADERSHIP;
pub use etcd::EtcdSettings;
pub use lock_guard::LockGuard;
