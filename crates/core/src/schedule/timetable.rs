//! The fires of one trigger, one after the other.

use crate::Micros;
use crate::workflow::{DEFAULT_TIMEZONE, Trigger, TriggerSource};

use super::calendar::{Calendar, CalendarAction};
use super::cron::Cron;
use super::fields::CronError;
use super::identity::jitter;

/// How many closed times one search passes over before it gives up.
const MOST_CLOSED: usize = 10_000;

/// One fire: `nominal` names it, `fire_at` is when it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fire {
    pub nominal: Micros,
    /// Not before `nominal`: later by what a calendar moves it and by the jitter.
    pub fire_at: Micros,
}

/// All nominal instants from the first to the last of these, both included, were left out because of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlackedOut {
    pub first: Micros,
    /// The last closed instant; a nominal one need not lie exactly there.
    pub last: Micros,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Fire {
        fire: Fire,
        /// What was passed over on the way.
        blacked_out: Option<BlackedOut>,
    },
    /// It never fires again.
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("{0}")]
    Cron(#[from] CronError),
    #[error("`every` is 0")]
    NoInterval,
    #[error("`end` is not after `start`, so it could never fire")]
    EndBeforeStart,
    #[error("the clock does not fire a trigger of the kind {0}")]
    NotScheduled(&'static str),
}

/// When one trigger fires.
#[derive(Debug, Clone)]
pub struct Schedule {
    trigger_id: String,
    source: Source,
    start: Option<Micros>,
    end: Option<Micros>,
    pub(super) max_executions: Option<u64>,
    pub(super) jitter_ms: u64,
    calendar: Option<Calendar>,
}

#[derive(Debug, Clone)]
enum Source {
    Cron(Box<Cron>),
    /// Multiples of the interval after the anchor.
    Every {
        interval: Micros,
        anchor: Micros,
    },
    Once(Micros),
}

/// A nominal instant with the time it happens at, before jitter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) nominal: Micros,
    pub(super) at: Micros,
    blacked_out: Option<BlackedOut>,
}

impl Schedule {
    /// `created_at` anchors an interval without a start: its first fire is one interval later. With a start the first
    /// fire is the start itself.
    pub fn new(trigger: &Trigger, created_at: Micros, calendar: Option<Calendar>) -> Result<Self, ScheduleError> {
        if let (Some(start), Some(end)) = (trigger.start, trigger.end)
            && end <= start
        {
            return Err(ScheduleError::EndBeforeStart);
        }
        let mut start = trigger.start;
        let source = match &trigger.source {
            TriggerSource::Cron(text) => {
                let zone = trigger.timezone.as_deref().unwrap_or(DEFAULT_TIMEZONE);
                Source::Cron(Box::new(Cron::parse(text, zone)?))
            }
            TriggerSource::Every(0) | TriggerSource::Poll(0) => return Err(ScheduleError::NoInterval),
            TriggerSource::Every(ms) | TriggerSource::Poll(ms) => {
                let interval = Micros::try_from(*ms).unwrap_or(Micros::MAX).saturating_mul(1_000);
                let anchor = trigger.start.unwrap_or(created_at);
                start = start.or(Some(created_at.saturating_add(1)));
                Source::Every { interval, anchor }
            }
            TriggerSource::At(at) => Source::Once(*at),
            other => return Err(ScheduleError::NotScheduled(other.kind())),
        };
        Ok(Self {
            trigger_id: trigger.id.clone(),
            source,
            start,
            end: trigger.end,
            max_executions: trigger.max_executions,
            jitter_ms: trigger.jitter_ms.unwrap_or(0),
            calendar,
        })
    }

    /// The first fire whose nominal instant is strictly after `after`, of a trigger that has fired so often already.
    pub fn next(&self, after: Micros, fired_so_far: u64) -> Next {
        if self.max_executions.is_some_and(|most| fired_so_far >= most) {
            return Next::Done;
        }
        match self.due_after(after) {
            Some(due) => Next::Fire { fire: self.fire(due), blacked_out: due.blacked_out },
            None => Next::Done,
        }
    }

    /// The instant of a trigger that fires once.
    pub(super) fn once(&self) -> Option<Micros> {
        match self.source {
            Source::Once(at) => Some(at),
            _ => None,
        }
    }

    pub(super) fn has_calendar(&self) -> bool {
        self.calendar.is_some()
    }

    pub(super) fn fire(&self, due: Due) -> Fire {
        let late = jitter(&self.trigger_id, due.nominal, self.jitter_ms);
        Fire { nominal: due.nominal, fire_at: due.at.saturating_add(late) }
    }

    /// Later `after` never gives an earlier nominal instant, nor an earlier time.
    pub(super) fn due_after(&self, after: Micros) -> Option<Due> {
        let mut blacked_out: Option<BlackedOut> = None;
        let mut after = after;
        for _ in 0..MOST_CLOSED {
            let nominal = self.nominal_after(after)?;
            let Some(calendar) = self.calendar.as_ref().filter(|calendar| calendar.is_closed(nominal)) else {
                return Some(Due { nominal, at: nominal, blacked_out });
            };
            let opens = calendar.opens(nominal)?;
            if let Some(at) = self.moved(calendar, nominal, opens) {
                return Some(Due { nominal, at, blacked_out });
            }
            let first = blacked_out.map_or(nominal, |earlier| earlier.first);
            blacked_out = Some(BlackedOut { first, last: opens - 1 });
            after = opens - 1;
        }
        None
    }

    /// Where the calendar moves a fire, if it is the one of its closed time that moves: the first, and only if no
    /// regular fire comes up to then. Otherwise a daily job would fire twice on the day after a holiday.
    fn moved(&self, calendar: &Calendar, nominal: Micros, opens: Micros) -> Option<Micros> {
        if calendar.action() == CalendarAction::Skip {
            return None;
        }
        let since = calendar.closed_since(nominal)?;
        let first = self.nominal_after(since.saturating_sub(1))?;
        let at = calendar.moved(nominal)?;
        let regular = self.nominal_after(opens - 1);
        (first == nominal && regular.is_none_or(|regular| regular > at)).then_some(at)
    }

    /// What the source says, within start and end, whatever the calendar.
    fn nominal_after(&self, after: Micros) -> Option<Micros> {
        let after = self.start.map_or(after, |start| after.max(start.saturating_sub(1)));
        let nominal = match &self.source {
            Source::Cron(cron) => cron.next_after(after)?,
            Source::Every { interval, anchor } => {
                let past = i128::from(after) - i128::from(*anchor);
                let next = i128::from(*anchor) + (past.div_euclid(i128::from(*interval)) + 1) * i128::from(*interval);
                Micros::try_from(next).ok()?
            }
            Source::Once(at) => (*at > after).then_some(*at)?,
        };
        self.end.is_none_or(|end| nominal < end).then_some(nominal)
    }
}
