//! A bounded memory: the things that were seen last.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

/// The last things that were added, up to a number.
#[derive(Debug)]
pub struct Recent<T> {
    known: HashSet<T>,
    order: VecDeque<T>,
    capacity: usize,
}

impl<T: Copy + Eq + Hash> Recent<T> {
    pub fn new(capacity: usize) -> Self {
        Self { known: HashSet::new(), order: VecDeque::new(), capacity }
    }

    /// Remembers one more, and forgets the oldest when there are too many.
    pub fn add(&mut self, thing: T) {
        if !self.known.insert(thing) {
            return;
        }
        self.order.push_back(thing);
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub fn contains(&self, thing: &T) -> bool {
        self.known.contains(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut recent = Recent::new(2);
        [1, 2, 2, 3].into_iter().for_each(|thing| recent.add(thing));
        assert_eq!([1, 2, 3].map(|thing| recent.contains(&thing)), [false, true, true]);
    }
}
