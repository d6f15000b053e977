//! Which lines begin something, and which only go on with it.

use std::collections::HashSet;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

#[derive(Debug, Default)]
pub(super) struct Scan {
    /// By line, from 0: it goes on with a quoted or plain text, or with a collection in brackets.
    pub(super) goes_on: Vec<bool>,
    /// Lines whose end begins a block text, from 0.
    pub(super) block_headers: HashSet<usize>,
    /// Where a block mapping begins: line from 0 and column from 0.
    pub(super) mappings: HashSet<(usize, usize)>,
}

/// The text must be readable; where it is not, nothing more is found.
pub(super) fn scan(source: &str) -> Scan {
    let count = source.lines().count();
    let mut scan = Scan { goes_on: vec![false; count], ..Scan::default() };
    let lines: Vec<&str> = source.lines().collect();
    let mut open: Vec<Option<usize>> = Vec::new();
    for event in Parser::new_from_str(source) {
        let Ok((event, span)) = event else { break };
        match event {
            Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, _, _) => {
                if let Some(header) = header_line(&lines, span) {
                    scan.block_headers.insert(header);
                }
            }
            Event::Scalar(_, style, _, _) => {
                // The mark behind a plain text may lie on a later line.
                let mut last = (span.end.line() - 1).min(count.saturating_sub(1));
                if style == ScalarStyle::Plain && span.end.col() == 0 {
                    last = last.saturating_sub(1);
                }
                scan.go_on(span.start.line() - 1, last);
            }
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let (line, column) = (span.start.line() - 1, span.start.col());
                let is_flow = lines.get(line).and_then(|text| text.chars().nth(column));
                let is_flow = matches!(is_flow, Some('{' | '['));
                open.push(is_flow.then_some(line));
                if !is_flow && matches!(event, Event::MappingStart(..)) {
                    scan.mappings.insert((line, column));
                }
            }
            Event::MappingEnd | Event::SequenceEnd => {
                if let Some(Some(first)) = open.pop() {
                    scan.go_on(first, span.start.line() - 1);
                }
            }
            _ => {}
        }
    }
    scan
}

impl Scan {
    fn go_on(&mut self, first: usize, last: usize) {
        for line in first + 1..=last {
            if let Some(goes_on) = self.goes_on.get_mut(line) {
                *goes_on = true;
            }
        }
    }
}

/// The line with the `|` or `>`: the mark is on it, or on the first line of the content.
fn header_line(lines: &[&str], span: Span) -> Option<usize> {
    let line = span.start.line() - 1;
    let is_header = |line: usize| {
        let text = lines.get(line)?;
        let text = text.split(" #").next().unwrap_or_default().trim_end();
        let text = text.trim_end_matches(['+', '-']).trim_end_matches(|digit: char| digit.is_ascii_digit());
        let text = text.trim_end_matches(['+', '-']);
        text.ends_with(['|', '>']).then_some(line)
    };
    is_header(line).or_else(|| (0..line).rev().take(50).find_map(is_header))
}
