//! A problem with the piece of text it is about.

use std::fmt::Write as _;

use mainspring_core::Diagnostic;

use super::{Paint, Palette, plain};

/// How many characters of a line are shown around the problem.
const BEFORE: usize = 60;
const AFTER: usize = 40;

/// `error: …`, the place, the line with carets under the fault, and the help.
pub(crate) fn excerpt(palette: Palette, file: &str, source: &str, problem: &Diagnostic) -> String {
    drawn(palette, ("error:", Paint::Red), file, source, problem)
}

/// The same of what is allowed but hardly meant: `warning: …`.
pub(crate) fn excerpt_of_warning(palette: Palette, file: &str, source: &str, warning: &Diagnostic) -> String {
    drawn(palette, ("warning:", Paint::Yellow), file, source, warning)
}

fn drawn(palette: Palette, head: (&str, Paint), file: &str, source: &str, problem: &Diagnostic) -> String {
    let place = problem.place;
    let mut text = format!("{} {}\n", palette.paint(head.1, head.0), palette.paint(Paint::Bold, &problem.message));
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let bar = palette.paint(Paint::Blue, "|");
    let _ =
        writeln!(text, "{margin}{} {}:{}:{}", palette.paint(Paint::Blue, "-->"), plain(file), place.line, place.column);
    let line = source.lines().nth(place.line as usize - 1).unwrap_or_default();
    if !line.trim().is_empty() {
        let (shown, column) = window(line, place.column as usize - 1);
        let length = (place.length as usize).clamp(1, super::width(&shown).saturating_sub(column).max(1));
        let carets = palette.paint(head.1, "^".repeat(length));
        let _ = writeln!(text, "{} {bar} {shown}", palette.paint(Paint::Blue, &number));
        let _ = writeln!(text, "{margin} {bar} {}{carets}", " ".repeat(column));
    }
    if let Some(help) = &problem.help {
        let _ = writeln!(text, "{margin} {} {help}", palette.paint(Paint::Cyan, "= help:"));
    }
    text
}

/// The part of a long line around a character, and the column where that character is in it.
fn window(line: &str, at: usize) -> (String, usize) {
    // A line that fits is shown from its beginning.
    let from = if line.chars().nth(BEFORE + AFTER).is_none() { 0 } else { at.saturating_sub(BEFORE) };
    let before: String = line.chars().skip(from).take(at - from).collect();
    let room = (BEFORE + AFTER).saturating_sub(before.chars().count());
    let rest: String = line.chars().skip(at).take(room).collect();
    let is_cut = line.chars().nth(at + room).is_some();
    let mut shown = String::new();
    if from > 0 {
        shown.push('…');
    }
    shown.push_str(&plain(&before));
    let column = super::width(&shown);
    shown.push_str(&plain(&rest));
    if is_cut {
        shown.push('…');
    }
    (shown, column)
}

#[cfg(test)]
mod tests {
    use mainspring_core::diagnostic::Place;

    use super::*;

    #[test]
    fn the_caret_is_under_the_fault() {
        let problem = Diagnostic {
            place: Place { line: 2, column: 3, length: 4 },
            path: "/nam".into(),
            message: "unknown key `need`".into(),
            help: Some("did you mean `needs`?".into()),
        };
        let shown = excerpt(Palette::PLAIN, "a.yaml", "first\n  need: x\n", &problem);
        let expected =
            "error: unknown key `need`\n --> a.yaml:2:3\n2 |   need: x\n  |   ^^^^\n  = help: did you mean `needs`?\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_long_line_is_shown_around_the_fault() {
        let line = format!("{}X{}", "a".repeat(10_000), "b".repeat(10_000_000));
        let (shown, column) = window(&line, 10_000);
        assert_eq!(shown.chars().nth(column), Some('X'));
        assert!(shown.chars().count() <= BEFORE + AFTER + 2);
    }
}
