//! Open files: the process takes as many as it may have, and keeps some back from connections.

use mainspring_server::ConnectionLimits;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// For the database, logs, pipes of tasks and everything else that is not a connection of a client.
const RESERVED: u64 = 256;
/// A server that cannot serve even this many is not worth starting.
const FEWEST: usize = 16;

/// Raises the soft limit of open files to the hard one, and says how many connections fit.
pub(crate) fn raise() -> ConnectionLimits {
    let usual = ConnectionLimits::default();
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return usual };
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            tracing::warn!(%error, soft, hard, "raising the limit of open files");
            soft
        }
    };
    fitting(usual, limit)
}

fn fitting(usual: ConnectionLimits, limit: u64) -> ConnectionLimits {
    let room = usize::try_from(limit.saturating_sub(RESERVED)).unwrap_or(usize::MAX);
    let most = usual.most.min(room).max(FEWEST);
    ConnectionLimits { most, per_address: usual.per_address.min(most / 2).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_database() {
        let usual = ConnectionLimits::default();
        let check = |limit: u64| {
            let ConnectionLimits { most, per_address } = fitting(usual, limit);
            (most, per_address)
        };
        assert_eq!(check(1_000_000), (usual.most, usual.per_address));
        assert_eq!(check(1_024), (768, 384));
        assert_eq!(check(100), (FEWEST, 8));
    }
}
