//! Which round trips go wrong, and how.

use std::collections::VecDeque;
use std::time::Duration;

/// What happens to one round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server has done it and answered; the answer is lost with the connection.
    LoseReply,
    /// The request is lost with the connection.
    LoseRequest,
    /// The request arrives late.
    Stall(Duration),
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    random: Option<Random>,
    /// The next round trip that executes a text with these words gets the fault.
    planned: VecDeque<(String, Fault)>,
    pub(super) injected: Vec<Fault>,
}

#[derive(Debug)]
struct Random {
    rng: fastrand::Rng,
    one_in: u32,
    kinds: Vec<Fault>,
}

impl Faults {
    pub(super) fn disturb(&mut self, seed: u64, one_in: u32, kinds: &[Fault]) {
        self.random = Some(Random { rng: fastrand::Rng::with_seed(seed), one_in, kinds: kinds.to_vec() });
    }

    pub(super) fn calm(&mut self) {
        self.random = None;
        self.planned.clear();
    }

    pub(super) fn plan(&mut self, words: &str, fault: Fault) {
        self.planned.push_back((words.to_owned(), fault));
    }

    pub(super) fn decide(&mut self, text: &str, executes: bool) -> Option<Fault> {
        let fault = match self.planned.iter().position(|(words, _)| executes && text.contains(words.as_str())) {
            Some(at) => self.planned.remove(at).map(|(_, fault)| fault),
            None => self.random.as_mut().and_then(Random::decide),
        };
        self.injected.extend(fault);
        fault
    }
}

impl Random {
    fn decide(&mut self) -> Option<Fault> {
        (self.rng.u32(..self.one_in) == 0).then(|| self.rng.choice(&self.kinds).copied()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_come_once_and_before_chance() {
        let mut faults = Faults::default();
        faults.plan("exchange", Fault::LoseReply);
        assert_eq!(faults.decide("SELECT 1", true), None);
        assert_eq!(faults.decide("SELECT exchange_v1()", false), None, "it is only prepared");
        assert_eq!(faults.decide("SELECT exchange_v1()", true), Some(Fault::LoseReply));
        assert_eq!(faults.decide("SELECT exchange_v1()", true), None);
    }

    #[test]
    fn chance_repeats_with_its_seed() {
        let draw = |seed| {
            let mut faults = Faults::default();
            faults.disturb(seed, 4, &[Fault::LoseReply, Fault::LoseRequest]);
            (0..100).map(|_| faults.decide("", true)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let hits = draw(1).iter().flatten().count();
        assert!((5..60).contains(&hits), "{hits}");
    }
}
