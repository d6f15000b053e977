//! How many connections an address holds, so that one client cannot take the places of all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::address::counted;

/// Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most: usize,
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    crowd: Crowd,
    address: IpAddr,
}

impl Crowd {
    pub(crate) fn new(most: usize) -> Self {
        Self { counts: Arc::default(), most }
    }

    /// `None` if the address has as many as it may.
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
        let crowd = Crowd::new(2);
        let [here, there]: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()];
        let first = crowd.enter(here).unwrap();
        let _second = crowd.enter(here).unwrap();
        assert!(crowd.enter(here).is_none());
        assert!(crowd.enter(there).is_some());
        drop(first);
        assert!(crowd.enter(here).is_some());
        assert_eq!(crowd.counts.lock().unwrap().len(), 1, "who has none is forgotten");
    }
}
