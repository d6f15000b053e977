//! What differs between two texts, line by line.

use std::fmt::Write as _;

use crate::output::{Paint, Palette, plain};

/// Lines before and behind a change that are shown with it.
const CONTEXT: usize = 2;
/// Beyond this many pairs of lines a change is shown as a whole.
const MAX_PAIRS: usize = 4_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Same,
    Old,
    New,
}

/// A unified diff.
pub(super) fn show(palette: Palette, name: &str, old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split('\n').collect();
    let new: Vec<&str> = new.split('\n').collect();
    let marked = compare(&old, &new);
    let mut text = palette.paint(Paint::Bold, format_args!("--- {0}\n+++ {0} (formatted)", plain(name)));
    text.push('\n');
    let is_near = |at: usize| {
        let from = at.saturating_sub(CONTEXT);
        marked[from..marked.len().min(at + CONTEXT + 1)].iter().any(|(mark, ..)| *mark != Mark::Same)
    };
    let mut shown_before = false;
    for (at, (mark, old_line, new_line, line)) in marked.iter().enumerate() {
        let shown = is_near(at);
        if shown && !shown_before {
            let header = format!("@@ -{} +{} @@", old_line + 1, new_line + 1);
            let _ = writeln!(text, "{}", palette.paint(Paint::Cyan, header));
        }
        shown_before = shown;
        if !shown {
            continue;
        }
        // Spaces at the end and the end of a file are what is often at stake, so they are made visible.
        let visible = line.replace('\r', "␍");
        let _ = match mark {
            Mark::Same => writeln!(text, " {}", plain(&visible)),
            Mark::Old => writeln!(text, "{}", palette.paint(Paint::Red, format_args!("-{}", plain(&visible)))),
            Mark::New => writeln!(text, "{}", palette.paint(Paint::Green, format_args!("+{}", plain(&visible)))),
        };
    }
    text
}

/// Every line of both with what it is, and where it stands in either.
fn compare<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(Mark, usize, usize, &'t str)> {
    let mut marked = Vec::new();
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(one, other)| one == other).count();
    marked.extend(old[..head].iter().enumerate().map(|(at, line)| (Mark::Same, at, at, *line)));
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    middle(&mut marked, (old, head, old_end), (new, head, new_end));
    for step in 0..tail {
        marked.push((Mark::Same, old_end + step, new_end + step, old[old_end + step]));
    }
    marked
}

/// By the longest common subsequence where that is affordable.
fn middle<'t>(
    marked: &mut Vec<(Mark, usize, usize, &'t str)>,
    (old, old_start, old_end): (&[&'t str], usize, usize),
    (new, new_start, new_end): (&[&'t str], usize, usize),
) {
    let (rows, columns) = (old_end - old_start, new_end - new_start);
    let mut common = vec![0_u32; if rows * columns <= MAX_PAIRS { (rows + 1) * (columns + 1) } else { 0 }];
    let at = |row: usize, column: usize| row * (columns + 1) + column;
    if !common.is_empty() {
        for row in (0..rows).rev() {
            for column in (0..columns).rev() {
                common[at(row, column)] = if old[old_start + row] == new[new_start + column] {
                    common[at(row + 1, column + 1)] + 1
                } else {
                    common[at(row + 1, column)].max(common[at(row, column + 1)])
                };
            }
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < rows || column < columns {
        let (old_line, new_line) = (old_start + row, new_start + column);
        let both = row < rows && column < columns && !common.is_empty();
        if both && old[old_line] == new[new_line] {
            marked.push((Mark::Same, old_line, new_line, old[old_line]));
            row += 1;
            column += 1;
        } else if row < rows && (!both || common[at(row + 1, column)] >= common[at(row, column + 1)]) {
            marked.push((Mark::Old, old_line, new_line, old[old_line]));
            row += 1;
        } else {
            marked.push((Mark::New, old_line, new_line, new[new_line]));
            column += 1;
        }
    }
}
