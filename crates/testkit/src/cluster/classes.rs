//! What can go wrong in a cluster.

/// A class of faults. One of each is drawn before any is drawn again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultClass {
    WorkerKilled,
    ServerKilled,
    LeaderKilled,
    LeaderStopped,
    WorkerPaused,
    BusyWorkerPaused,
    LeaderPaused,
    DatabaseCut,
    DatabaseCutOneWay,
    DatabaseReset,
    DatabaseRestarted,
    BackendsTerminated,
    EtcdCut,
    EtcdCutOneWay,
    EtcdKilled,
    EtcdWiped,
    EtcdPaused,
    RedisCut,
    RedisCutOneWay,
    RedisKilled,
    RedisFlushed,
    WorkerCut,
    WorkerAnswersLost,
    WorkerReset,
}

impl FaultClass {
    /// Those a short run must have come first.
    pub const ALL: [(Self, &'static str); 24] = [
        (Self::WorkerKilled, "worker killed"),
        (Self::LeaderKilled, "leader killed"),
        (Self::DatabaseRestarted, "PostgreSQL restarted at once"),
        (Self::LeaderStopped, "leader stopped gracefully"),
        (Self::BusyWorkerPaused, "worker with children paused beyond its lease"),
        (Self::WorkerAnswersLost, "answers of a node to a worker lost"),
        (Self::EtcdWiped, "etcd wiped"),
        (Self::RedisFlushed, "Redis flushed"),
        (Self::DatabaseCut, "node cut from PostgreSQL, both ways"),
        (Self::LeaderPaused, "leader paused beyond its lease"),
        (Self::ServerKilled, "server killed"),
        (Self::BackendsTerminated, "backends terminated"),
        (Self::DatabaseCutOneWay, "node cut from PostgreSQL, one way"),
        (Self::DatabaseReset, "connections to PostgreSQL reset"),
        (Self::EtcdCut, "node cut from etcd, both ways"),
        (Self::EtcdCutOneWay, "node cut from etcd, one way"),
        (Self::EtcdKilled, "etcd killed"),
        (Self::EtcdPaused, "etcd paused"),
        (Self::RedisCut, "node cut from Redis, both ways"),
        (Self::RedisCutOneWay, "node cut from Redis, one way"),
        (Self::RedisKilled, "Redis killed"),
        (Self::WorkerPaused, "worker paused beyond its lease"),
        (Self::WorkerCut, "worker cut from a node"),
        (Self::WorkerReset, "connections of a worker reset"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(class, _)| *class == self).map_or("", |(_, name)| name)
    }
}
