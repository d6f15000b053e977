//! Layers as a list, and as a summary where the list would be long.

use crate::Workflow;
use crate::workflow::Stage;

use super::canvas::{Ink, Line};
use super::labels::{kind, marks, shortened};
use super::layout::layers;
use super::text::Style;

/// Tasks of a stage that are still listed one by one.
const MOST_LISTED: usize = 100;
/// Layers that are still summarised one by one.
const MOST_LAYERS: usize = 40;

/// Tasks of a layer that need the same and are of the same kind.
struct Group<'w> {
    needs: &'w [i32],
    kind: String,
    marks: Vec<String>,
    members: Vec<usize>,
}

pub(super) fn list(workflow: &Workflow, stage: Stage, style: Style) -> Vec<Line> {
    let layers = layers(workflow, stage);
    let is_short = style.all || workflow.stage(stage).len() <= MOST_LISTED;
    let mut lines = Vec::new();
    let shown = if is_short { layers.len() } else { layers.len().min(MOST_LAYERS) };
    for (number, layer) in layers[..shown].iter().enumerate() {
        let tasks = if layer.len() == 1 { "1 task".to_owned() } else { format!("{} tasks", layer.len()) };
        lines.push(vec![(Ink::Title, format!("layer {}", number + 1)), (Ink::Plain, format!("  {tasks}"))]);
        let groups = if is_short { one_by_one(workflow, layer) } else { groups(workflow, layer) };
        for (at, group) in groups.iter().enumerate() {
            lines.push(row(workflow, group, at + 1 == groups.len(), style));
        }
    }
    if layers.len() > shown {
        let rest: usize = layers[shown..].iter().map(Vec::len).sum();
        lines.push(vec![(Ink::Plain, format!("and {} more layers with {rest} tasks", layers.len() - shown))]);
    }
    if !is_short {
        lines.push(vec![(Ink::Plain, "tasks that need the same are one line; --all lists every task".to_owned())]);
    }
    lines
}

fn one_by_one<'w>(workflow: &'w Workflow, layer: &[usize]) -> Vec<Group<'w>> {
    layer.iter().map(|index| group_of(workflow, *index)).collect()
}

fn group_of(workflow: &Workflow, index: usize) -> Group<'_> {
    let task = &workflow.tasks[index];
    Group { needs: &task.needs, kind: kind(task), marks: marks(task), members: vec![index] }
}

fn groups<'w>(workflow: &'w Workflow, layer: &[usize]) -> Vec<Group<'w>> {
    let mut sorted: Vec<Group<'w>> = layer.iter().map(|index| group_of(workflow, *index)).collect();
    sorted.sort_by(|one, other| (one.needs, &one.kind, &one.marks).cmp(&(other.needs, &other.kind, &other.marks)));
    let mut groups: Vec<Group<'w>> = Vec::new();
    for next in sorted {
        match groups.last_mut() {
            Some(last) if last.needs == next.needs && last.kind == next.kind && last.marks == next.marks => {
                last.members.extend(next.members);
            }
            _ => groups.push(next),
        }
    }
    // A layer in which everything needs something else: by kind then, with the number of needs.
    const MOST_GROUPS: usize = 8;
    if groups.len() > MOST_GROUPS {
        let mut by_kind: Vec<Group<'w>> = Vec::new();
        for group in groups {
            match by_kind.iter_mut().find(|one| one.kind == group.kind && one.marks == group.marks) {
                Some(one) => {
                    one.needs = if one.needs == group.needs { one.needs } else { &[] };
                    one.members.extend(group.members);
                }
                None => by_kind.push(group),
            }
        }
        groups = by_kind;
    }
    for group in &mut groups {
        group.members.sort_unstable();
    }
    groups.sort_by_key(|group| group.members[0]);
    groups
}

fn row(workflow: &Workflow, group: &Group<'_>, is_last: bool, style: Style) -> Line {
    let branch = match (style.ascii, is_last) {
        (true, false) => "|- ",
        (true, true) => "`- ",
        (false, false) => "├─ ",
        (false, true) => "└─ ",
    };
    let arrow = if style.ascii { "<-" } else { "←" };
    let name = |index: usize, longest: usize| shortened(&workflow.tasks[index].name, longest);
    let mut line = vec![(Ink::Frame, branch.to_owned())];
    let mut used = 3;
    let mut push = |line: &mut Line, ink: Ink, text: String| {
        let room = style.columns.saturating_sub(used);
        if room > 2 {
            let text = if text.chars().count() > room { cut(&text, room) } else { text };
            used += text.chars().count();
            line.push((ink, text));
        }
    };
    match group.members[..] {
        [only] => push(&mut line, Ink::Name, name(only, 40)),
        _ => {
            let (first, last) = (group.members[0], group.members[group.members.len() - 1]);
            let dots = if style.ascii { ".." } else { "…" };
            push(&mut line, Ink::Name, format!("{} {dots} {}", name(first, 24), name(last, 24)));
            push(&mut line, Ink::Plain, format!("  {} tasks", group.members.len()));
        }
    }
    push(&mut line, Ink::Kind, format!("  {}", group.kind));
    for mark in &group.marks {
        push(&mut line, Ink::Mark, format!("  {mark}"));
    }
    if !group.needs.is_empty() {
        const MOST_NAMES: usize = 6;
        let names: Vec<String> = group.needs.iter().take(MOST_NAMES).map(|need| name(*need as usize, 30)).collect();
        let more = group.needs.len().saturating_sub(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        push(&mut line, Ink::Plain, format!("  {arrow} {}{more}", names.join(", ")));
    }
    line
}

/// What was cut off is marked by dots.
fn cut(text: &str, room: usize) -> String {
    text.chars().take(room.saturating_sub(2)).chain("..".chars()).collect()
}
