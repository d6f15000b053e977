//! Following a run: what changed since the last look, shown live on a terminal or line by line.

pub(crate) mod caches;
mod follow;
mod lines;
mod live;
mod remote;
mod source;
mod summary;

pub(crate) use caches::RunCaches;
pub(crate) use follow::{Change, Follower, Look};
pub(crate) use lines::Lines;
pub(crate) use live::Live;
pub(crate) use source::{Plan, Source};
pub(crate) use summary::{failed, print_summary};

use crate::output::Output;

/// How a run is shown while it goes on.
pub(crate) enum Show<'a> {
    Live(Live<'a>),
    Lines(Lines<'a>),
    Nothing,
}

impl<'a> Show<'a> {
    /// Live on a terminal that can move its cursor, otherwise lines; nothing if it is to be quiet.
    pub(crate) fn new(out: &'a Output, wanted: bool) -> Self {
        let can_move = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        if !wanted || out.quiet {
            Self::Nothing
        } else if out.is_terminal() && can_move {
            Self::Live(Live::new(out))
        } else {
            Self::Lines(Lines::new(out))
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    pub(crate) fn update(&mut self, look: &Look, changes: &[Change], now: i64) {
        match self {
            Self::Live(live) => live.update(look, changes, now),
            Self::Lines(lines) => lines.update(look, changes),
            Self::Nothing => {}
        }
    }

    /// The last look; what stays on the screen.
    pub(crate) fn finish(&mut self, look: &Look, now: i64) {
        match self {
            Self::Live(live) => live.finish(look, now),
            Self::Lines(_) | Self::Nothing => {}
        }
    }

    /// A remark amid the progress.
    pub(crate) fn remark(&mut self, text: &str) {
        match self {
            Self::Live(live) => live.remark(text),
            Self::Lines(lines) => lines.remark(text),
            Self::Nothing => {}
        }
    }
}
