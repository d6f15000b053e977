//! Messages as text: the sender's name in the first line, then one message per line.
//!
//! A line of an unknown kind wakes every loop, because a newer program may have sent it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::live::{Gathered, Hint};

use super::message::{AccessChange, BusMessage, ClaimableRoutes};
use super::outbox::Pending;

/// If the changed runs need more texts than this, they are sent as "many have changed".
const MOST_TEXTS: usize = 8;
const MANY_RUNS: &str = "run !";

/// One line of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Message(BusMessage),
    Run(Hint),
    /// More runs have changed than the text names.
    ManyRuns,
    Unknown,
}

/// Encodes the pending messages in texts no longer than `longest`.
pub(crate) fn encode(from: &str, pending: &Pending, runs: &Gathered, longest: usize) -> Vec<String> {
    let mut lines = message_lines(pending);
    let messages = lines.len();
    lines.extend(runs.hints.iter().map(|hint| format!("run {}", hint.write())));
    if runs.lost_some {
        lines.truncate(messages);
        lines.push(MANY_RUNS.into());
    }
    let mut texts = pack(from, &lines, longest);
    if texts.len() > MOST_TEXTS {
        lines.truncate(messages);
        lines.push(MANY_RUNS.into());
        texts = pack(from, &lines, longest);
    }
    texts
}

fn message_lines(pending: &Pending) -> Vec<String> {
    let mut lines = Vec::new();
    match &pending.claimable {
        None => {}
        Some(ClaimableRoutes::These(routes)) if routes.len() <= 200 => lines.push(numbered("claimable", routes)),
        Some(_) => lines.push("claimable".into()),
    }
    let flags = [
        (pending.routes, "routes"),
        (pending.schedules, "schedules"),
        (pending.events, "events"),
        (pending.leadership, "leadership"),
        (pending.run_changes_wanted, "wants-runs"),
    ];
    lines.extend(flags.iter().filter(|(set, _)| *set).map(|(_, line)| (*line).to_owned()));
    match &pending.cancel {
        None => {}
        Some(Some(sessions)) if sessions.len() <= 200 => lines.push(numbered("cancel", sessions)),
        Some(_) => lines.push("cancel".into()),
    }
    for change in &pending.access {
        let namespace = change.namespace.as_deref().filter(|name| !name.contains(char::is_whitespace));
        lines.push(format!("access {} {}", change.kind.name(), namespace.unwrap_or_default()).trim_end().to_owned());
    }
    lines
}

fn numbered<N: std::fmt::Display>(word: &str, numbers: &BTreeSet<N>) -> String {
    numbers.iter().fold(word.to_owned(), |mut line, number| {
        let _ = write!(line, " {number}");
        line
    })
}

fn pack(from: &str, lines: &[String], longest: usize) -> Vec<String> {
    let mut texts = Vec::new();
    let mut text = format!("{from}\n");
    for line in lines {
        if text.len() + line.len() + 1 > longest {
            texts.push(std::mem::replace(&mut text, format!("{from}\n")));
        }
        text.push_str(line);
        text.push('\n');
    }
    if text.len() > from.len() + 1 {
        texts.push(text);
    }
    texts
}

/// Decodes a text of another process. A text of this process has no lines.
pub(crate) fn decode(own: &str, text: &str) -> Vec<Line> {
    let mut lines = text.lines();
    if lines.next() == Some(own) {
        return Vec::new();
    }
    lines.map(|line| read(line).unwrap_or(Line::Unknown)).collect()
}

fn read(line: &str) -> Option<Line> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    Some(Line::Message(match word {
        "claimable" => BusMessage::Claimable(match numbers::<i32>(rest)? {
            routes if routes.is_empty() => ClaimableRoutes::Any,
            routes => ClaimableRoutes::These(routes.into_iter().collect()),
        }),
        "routes" => BusMessage::RoutesChanged,
        "schedules" => BusMessage::SchedulesChanged,
        "events" => BusMessage::EventsPending,
        "leadership" => BusMessage::LeadershipReleased,
        "wants-runs" => BusMessage::RunChangesWanted,
        "cancel" => BusMessage::CancelRequested(numbers(rest)?),
        "access" => {
            let mut words = rest.split(' ');
            let kind = words.next()?.parse().ok()?;
            BusMessage::AccessChanged(AccessChange { kind, namespace: words.next().map(ToOwned::to_owned) })
        }
        "run" => return Some(Hint::read(rest).map_or(Line::ManyRuns, Line::Run)),
        _ => return None,
    }))
}

fn numbers<N: std::str::FromStr>(text: &str) -> Option<Vec<N>> {
    text.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::bus::AccessKind;

    const LONGEST: usize = 7_500;

    fn runs(count: u128) -> Gathered {
        Gathered { hints: (0..count).map(|id| Hint::Changed(Uuid::from_u128(id))).collect(), lost_some: false }
    }

    #[test]
    fn every_message_survives_the_way_to_another_process() {
        let pending = Pending {
            claimable: Some(ClaimableRoutes::These([3, 7].into())),
            routes: true,
            schedules: true,
            events: true,
            cancel: Some(Some([5].into())),
            access: AccessKind::ALL
                .iter()
                .flat_map(|(kind, _)| {
                    [None, Some("team".to_owned())].map(|namespace| AccessChange { kind: *kind, namespace })
                })
                .collect(),
            leadership: true,
            run_changes_wanted: true,
        };
        let texts = encode("me", &pending, &runs(1), LONGEST);
        assert_eq!(texts.len(), 1);
        assert!(decode("me", &texts[0]).is_empty(), "a process does not hear itself");
        let decoded = decode("you", &texts[0]);
        assert_eq!(decoded.len(), 6 + 1 + 10 + 1);
        assert!(!decoded.contains(&Line::Unknown));
        assert!(decoded.contains(&Line::Message(BusMessage::Claimable(ClaimableRoutes::These([3, 7].into())))));
        assert!(decoded.contains(&Line::Message(BusMessage::CancelRequested(vec![5]))));
        assert!(decoded.contains(&Line::Run(Hint::Changed(Uuid::from_u128(0)))));
    }

    #[test]
    fn what_is_not_understood_makes_every_loop_look() {
        for line in ["tomorrow's message", "claimable x", "access nonsense", "", "cancel 1 é"] {
            assert_eq!(decode("me", &format!("you\n{line}\n")), [Line::Unknown], "{line:?}");
        }
        assert_eq!(decode("me", "you\nrun nonsense\n"), [Line::ManyRuns]);
        assert!(decode("me", "").is_empty());
    }

    #[test]
    fn texts_are_short_enough_and_a_flood_of_runs_is_one_line() {
        let texts = encode("me", &Pending::default(), &runs(1_000), LONGEST);
        assert!(texts.len() > 1 && texts.iter().all(|text| text.len() <= LONGEST && text.starts_with("me\n")));
        assert_eq!(texts.iter().map(|text| text.lines().count() - 1).sum::<usize>(), 1_000);
        assert_eq!(encode("me", &Pending::default(), &runs(4_000), LONGEST), ["me\nrun !\n"]);
        assert!(encode("me", &Pending::default(), &runs(0), LONGEST).is_empty());
    }
}
