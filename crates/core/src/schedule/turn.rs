//! Decides what a trigger does about the time that has passed.

use crate::Micros;
use crate::workflow::{Catchup, CatchupPolicy};

use super::catchup::{MOST_COUNTED, Missed};
use super::timetable::{BlackedOut, Fire, Next, Schedule};

/// A fire that is late by no more than this happens whatever the catch-up policy says: a change of leaders or a restart
/// is not an outage.
pub const GRACE: Micros = 10_000_000;
/// How many fires of one trigger are taken at once when they are not late.
const AT_ONCE: usize = 1_000;

/// How far a trigger has come: every nominal instant up to `covered` is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub covered: Micros,
    pub fired: u64,
}

/// What becomes of the nominal instants between two states of progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advance {
    /// Due now, in order.
    pub fire: Vec<Fire>,
    pub missed: Option<Missed>,
    pub blacked_out: Vec<BlackedOut>,
    /// How far it has come when all of this is done.
    pub covered: Micros,
    /// What comes then; `None` if it never fires again.
    pub next: Option<Fire>,
}

impl Schedule {
    /// Where a trigger begins that is made now: nothing before is owed, but for a single instant, about which the
    /// catch-up policy decides.
    pub fn beginning(&self, now: Micros) -> Micros {
        self.once().map_or(now, |at| now.min(at.saturating_sub(1)))
    }

    /// The next fire of a trigger that has come so far.
    pub fn upcoming(&self, progress: Progress) -> Option<Fire> {
        match self.next(progress.covered, progress.fired) {
            Next::Fire { fire, .. } => Some(fire),
            Next::Done => None,
        }
    }

    /// What falls due up to `now`.
    pub fn advance(&self, progress: Progress, now: Micros, catchup: Option<Catchup>) -> Advance {
        let Some(first) = self.upcoming(progress).filter(|first| first.fire_at <= now) else {
            return self.settled(progress, Vec::new(), None);
        };
        if now.saturating_sub(first.fire_at) <= GRACE {
            let (due, next) = self.due_now(progress, first, now);
            let covered = due.last().map_or(progress.covered, |last| last.nominal);
            return Advance {
                blacked_out: self.closed_between(progress.covered, covered),
                fire: due,
                missed: None,
                covered,
                next,
            };
        }
        let mut owed = self.owed(progress.covered, progress.fired, now, catchup);
        // What its jitter still holds back comes later.
        let due = owed.fire.iter().position(|fire| fire.fire_at > now).unwrap_or(owed.fire.len());
        owed.fire.truncate(due);
        if owed.fire.is_empty() && owed.missed.is_none() {
            owed.missed = Some(Missed { first: first.nominal, last: first.nominal, count: 1, exact: true });
        }
        self.settled(progress, owed.fire, owed.missed)
    }

    /// What is given up of the time up to `now` before anything fires: at the end of a pause by the trigger's own policy,
    /// when its schedule changes by `none`. What the policy wants made up for is left to be fired.
    pub fn give_up(&self, progress: Progress, now: Micros, catchup: Option<Catchup>) -> Advance {
        let owed = self.owed(progress.covered, progress.fired, now, catchup);
        self.settled(progress, Vec::new(), owed.missed)
    }

    /// What is due from `first` on, and what comes then. Each search is made once: it is most of the work of a turn.
    fn due_now(&self, progress: Progress, first: Fire, now: Micros) -> (Vec<Fire>, Option<Fire>) {
        let mut due: Vec<Fire> = Vec::new();
        let mut next = Some(first);
        while let Some(fire) = next.filter(|fire| fire.fire_at <= now && due.len() < AT_ONCE) {
            due.push(fire);
            next = self.upcoming(Progress { covered: fire.nominal, fired: progress.fired + due.len() as u64 });
        }
        (due, next)
    }

    fn settled(&self, progress: Progress, fire: Vec<Fire>, missed: Option<Missed>) -> Advance {
        let last = fire.last().map(|fire| fire.nominal).max(missed.map(|missed| missed.last));
        let covered = last.map_or(progress.covered, |last| last.max(progress.covered));
        let next = self.upcoming(Progress { covered, fired: progress.fired + fire.len() as u64 });
        Advance { blacked_out: self.closed_between(progress.covered, covered), fire, missed, covered, next }
    }

    fn closed_between(&self, after: Micros, until: Micros) -> Vec<BlackedOut> {
        let mut found = Vec::new();
        let mut after = after;
        for _ in 0..MOST_COUNTED {
            if !self.has_calendar() || after >= until {
                break;
            }
            match self.next(after, 0) {
                Next::Fire { fire, blacked_out } if fire.nominal <= until => {
                    found.extend(blacked_out);
                    after = fire.nominal;
                }
                _ => break,
            }
        }
        found
    }
}

/// The policy that makes up for nothing.
pub const GIVE_UP: Catchup = Catchup { policy: CatchupPolicy::None, window_ms: None, max: None };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Calendar, CalendarAction, CalendarSpec};
    use crate::workflow::Trigger;

    const S: Micros = 1_000_000;

    fn schedule(trigger: &str, calendar: Option<Calendar>) -> (Schedule, Option<Catchup>) {
        let workflow = crate::parse(&format!("{{name: w, triggers: [{trigger}]}}")).unwrap();
        let trigger: &Trigger = &workflow.triggers[0];
        (Schedule::new(trigger, 0, calendar).unwrap(), trigger.catchup)
    }

    fn shown(advance: &Advance) -> String {
        let fires: Vec<String> = advance.fire.iter().map(|fire| (fire.nominal / S).to_string()).collect();
        let missed = advance.missed.map_or("-".into(), |m| format!("{}..{}x{}", m.first / S, m.last / S, m.count));
        let next = advance.next.map_or("-".into(), |next| (next.nominal / S).to_string());
        format!("fire {} missed {missed} covered {} next {next}", fires.join(","), advance.covered / S)
    }

    #[test]
    fn what_is_late_is_up_to_the_policy() {
        for (trigger, covered, now, expected) in [
            ("{every: 10s}", 0, 5, "fire  missed - covered 0 next 10"),
            ("{every: 10s}", 0, 10, "fire 10 missed - covered 10 next 20"),
            ("{every: 10s}", 0, 20, "fire 10,20 missed - covered 20 next 30"),
            ("{every: 10s}", 0, 45, "fire 40 missed 10..30x3 covered 40 next 50"),
            ("{every: 10s, catchup: none}", 0, 20, "fire 10,20 missed - covered 20 next 30"),
            ("{every: 10s, catchup: none}", 0, 45, "fire  missed 10..40x4 covered 40 next 50"),
            ("{every: 10s, catchup: all}", 0, 45, "fire 10,20,30,40 missed - covered 40 next 50"),
            ("{every: 10s, catchup: {policy: all, max: 2}}", 0, 45, "fire 30,40 missed 10..20x2 covered 40 next 50"),
            ("{every: 10s, catchup: {policy: all, window: 12s}}", 0, 45, "fire 40 missed 10..30x3 covered 40 next 50"),
            ("{every: 10s, max_executions: 1}", 0, 20, "fire 10 missed - covered 10 next -"),
            ("{at: 1970-01-01T00:01:00Z}", 0, 60, "fire 60 missed - covered 60 next -"),
            ("{at: 1970-01-01T00:01:00Z}", 0, 500, "fire 60 missed - covered 60 next -"),
            ("{at: 1970-01-01T00:01:00Z, catchup: none}", 0, 500, "fire  missed 60..60x1 covered 60 next -"),
        ] {
            let (schedule, catchup) = schedule(trigger, None);
            let advance = schedule.advance(Progress { covered: covered * S, fired: 0 }, now * S, catchup);
            assert_eq!(shown(&advance), expected, "{trigger} at {now}");
        }
    }

    #[test]
    fn the_end_of_a_pause_leaves_what_is_made_up_for() {
        for (trigger, expected) in [
            ("{every: 1s, catchup: none}", "fire  missed 1..5x5 covered 5 next 6"),
            ("{every: 1s}", "fire  missed 1..4x4 covered 4 next 5"),
            ("{every: 1s, catchup: all}", "fire  missed - covered 0 next 1"),
        ] {
            let (schedule, catchup) = schedule(trigger, None);
            let advance = schedule.give_up(Progress { covered: 0, fired: 0 }, 5 * S, catchup);
            assert_eq!(shown(&advance), expected, "{trigger}");
        }
    }

    #[test]
    fn closed_days_are_told_once_they_are_passed() {
        let spec = CalendarSpec {
            timezone: None,
            days: vec!["1970-01-02".into()],
            weekdays: Vec::new(),
            windows: Vec::new(),
            action: CalendarAction::Skip,
        };
        let (schedule, catchup) = schedule("{cron: '0 6 * * *'}", Some(Calendar::new(&spec).unwrap()));
        let day = 86_400 * S;
        let advance = schedule.advance(Progress { covered: day / 2, fired: 1 }, 2 * day + day / 4, catchup);
        assert_eq!(advance.fire.len(), 1);
        assert_eq!(advance.blacked_out, [BlackedOut { first: day + day / 4, last: 2 * day - 1 }]);
        let advance = schedule.advance(Progress { covered: advance.covered, fired: 2 }, 3 * day + day / 4, catchup);
        assert_eq!((advance.fire.len(), advance.blacked_out.len()), (1, 0));
    }

    #[test]
    fn a_single_instant_in_the_past_is_still_owed_when_it_is_made() {
        let (schedule, _) = schedule("{at: 1970-01-01T00:01:00Z}", None);
        assert_eq!(schedule.beginning(30 * S), 30 * S);
        assert_eq!(schedule.beginning(500 * S), 60 * S - 1);
    }
}
