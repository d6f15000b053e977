//! Lines get the indentation of their level.

use super::scan::Scan;

const STEP: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mapping,
    Sequence,
}

/// A collection that is open: the column of its entries, before and after.
#[derive(Debug, Clone, Copy)]
struct Level {
    old: usize,
    new: usize,
    kind: Kind,
}

#[derive(Default)]
struct Writer {
    text: String,
    empty: bool,
}

impl Writer {
    fn empty_line(&mut self) {
        self.empty = !self.text.is_empty();
    }

    fn line(&mut self, indent: usize, text: &str) {
        if std::mem::take(&mut self.empty) {
            self.text.push('\n');
        }
        self.text.extend(std::iter::repeat_n(' ', indent));
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// A line of a text, where empty ones count.
    fn verbatim(&mut self, indent: usize, text: &str) {
        if std::mem::take(&mut self.empty) {
            self.text.push('\n');
        }
        if !text.is_empty() {
            self.text.extend(std::iter::repeat_n(' ', indent));
            self.text.push_str(text);
        }
        self.text.push('\n');
    }
}

pub(super) fn reindent(source: &str, scan: &Scan) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let mut writer = Writer::default();
    let mut levels: Vec<Level> = Vec::new();
    // Comments wait for the line that follows: its level may be theirs. An empty one stands for an empty line.
    let mut comments: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        if scan.goes_on[at] {
            let shift = levels.last().map_or(0, |level| level.new as isize - level.old as isize);
            writer.verbatim(shifted(indent, shift), body);
            at += 1;
        } else if body.trim().is_empty() {
            comments.push((0, ""));
            at += 1;
        } else if body.starts_with('#') {
            comments.push((indent, body.trim_end()));
            at += 1;
        } else if indent == 0 && (body.starts_with("---") || body.starts_with("...") || body.starts_with('%')) {
            flush(&mut writer, &mut comments, &levels, &levels, 0);
            writer.line(0, body.trim_end());
            at += 1;
        } else {
            let before = levels.clone();
            let (column, text) = place(&mut levels, scan, at, indent, body);
            flush(&mut writer, &mut comments, &before, &levels, column);
            writer.line(column, text.trim_end());
            at += 1;
            if scan.block_headers.contains(&(at - 1)) {
                at = block(&mut writer, &lines, at, levels.last().copied());
            }
        }
    }
    let before = levels.clone();
    flush(&mut writer, &mut comments, &before, &[], 0);
    writer.text
}

/// Finds the level of a line and returns its column and its text; opens the levels that the line begins.
fn place(levels: &mut Vec<Level>, scan: &Scan, line: usize, indent: usize, body: &str) -> (usize, String) {
    let is_item = is_item(body);
    while levels.last().is_some_and(|level| level.old > indent) {
        levels.pop();
    }
    if !is_item {
        // A sequence in the column of its key ends where the next key begins.
        while levels.last().is_some_and(|level| level.old == indent && level.kind == Kind::Sequence) {
            levels.pop();
        }
    }
    let kind = if is_item { Kind::Sequence } else { Kind::Mapping };
    let parent = levels.last().copied();
    let column = match parent {
        Some(level) if level.old == indent && level.kind == kind => level.new,
        Some(level) => level.new + STEP,
        None => 0,
    };
    if parent.is_none_or(|level| level.old != indent || level.kind != kind) {
        levels.push(Level { old: indent, new: column, kind });
    }
    // `- - key: value`: every dash opens a level for what stands behind it.
    let mut text = String::new();
    let (mut old, mut new, mut rest) = (indent, column, body);
    while is_item_text(rest) {
        let behind = rest[1..].trim_start_matches(' ');
        if behind.is_empty() || behind.starts_with('#') {
            text.push_str(if behind.is_empty() { "-" } else { "- " });
            rest = behind;
            break;
        }
        text.push_str("- ");
        old += rest.len() - behind.len();
        new += STEP;
        rest = behind;
        let kind = match () {
            () if is_item_text(rest) => Kind::Sequence,
            () if scan.mappings.contains(&(line, old)) => Kind::Mapping,
            () => break,
        };
        levels.push(Level { old, new, kind });
    }
    text.push_str(rest);
    (column, text)
}

fn is_item(body: &str) -> bool {
    is_item_text(body)
}

fn is_item_text(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

fn shifted(indent: usize, shift: isize) -> usize {
    indent.saturating_add_signed(shift)
}

/// Writes the comments that were held back: each in the column of the level it stood in.
fn flush(
    writer: &mut Writer,
    comments: &mut Vec<(usize, &str)>,
    before: &[Level],
    after: &[Level],
    next_column: usize,
) {
    for (indent, comment) in comments.drain(..) {
        if comment.is_empty() {
            writer.empty_line();
            continue;
        }
        let level = before.iter().rev().chain(after.iter().rev()).find(|level| level.old == indent);
        writer.line(level.map_or(next_column, |level| level.new), comment);
    }
}

/// Writes a block text two columns behind its owner and returns the line behind it.
fn block(writer: &mut Writer, lines: &[&str], first: usize, owner: Option<Level>) -> usize {
    let indent_of = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let header = lines[first - 1];
    let (old, new) = owner.map_or((0, 0), |level| (level.old, level.new));
    let is_blank = |line: &str| line.trim_start_matches(' ').is_empty();
    let is_explicit = indicator(header).contains(|character: char| character.is_ascii_digit());
    // The first line of the text says how far it is indented; whatever stands further left is behind it.
    let content = lines[first..].iter().find(|line| !is_blank(line)).map(|line| indent_of(line));
    let column = content.filter(|column| *column > old || owner.is_none()).unwrap_or(old + STEP);
    let least = if is_explicit { old + 1 } else { column };
    let mut end = first;
    while end < lines.len() && (is_blank(lines[end]) || indent_of(lines[end]) >= least) {
        end += 1;
    }
    // Empty lines behind the text belong to what follows, unless the header keeps them.
    let keeps = indicator(header).contains('+');
    while !keeps && end > first && lines[end - 1].trim_start_matches(' ').is_empty() {
        end -= 1;
    }
    let shift = if is_explicit { new as isize - old as isize } else { (new + STEP) as isize - column as isize };
    for line in &lines[first..end] {
        let indent = indent_of(line);
        let body = &line[indent..];
        if body.is_empty() && indent <= column {
            writer.verbatim(0, "");
        } else {
            writer.verbatim(shifted(indent, shift), body);
            if body.is_empty() {
                // Spaces beyond the column of the text are part of it.
                writer.text.pop();
                writer.text.extend(std::iter::repeat_n(' ', shifted(indent, shift)));
                writer.text.push('\n');
            }
        }
    }
    end
}

/// The characters behind `|` or `>`.
fn indicator(header: &str) -> &str {
    let header = header.split(" #").next().unwrap_or_default().trim_end();
    header.rfind(['|', '>']).map_or("", |at| &header[at + 1..])
}
