//! Counts connections per address, so that one client cannot use up all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::address::counted;

/// Connections by address. Clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionCounts {
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most: usize,
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    crowd: ConnectionCounts,
    address: IpAddr,
}

impl ConnectionCounts {
    pub(crate) fn new(most: usize) -> Self {
        Self { counts: Arc::default(), most }
    }

    /// `None` if the address is at its limit.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<Counted> {
        let address = counted(address);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Counted { crowd: self.clone(), address })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.crowd.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_is_forgotten() {
        let counts = ConnectionCounts::new(2);
        let [here, there]: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()];
        let first = counts.enter(here).unwrap();
        let _second = counts.enter(here).unwrap();
        assert!(counts.enter(here).is_none());
        assert!(counts.enter(there).is_some());
        drop(first);
        assert!(counts.enter(here).is_some());
        assert_eq!(counts.counts.lock().unwrap().len(), 1, "who has none is forgotten");
    }
}
