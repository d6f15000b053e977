//! As much of Python as a file of declarations needs: statements, calls with their arguments, texts.

/// A call as written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) positional: Vec<String>,
    pub(super) named: Vec<(String, String)>,
}

impl Call {
    /// An argument that is a plain text.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.named.iter().find(|(key, _)| key == name).and_then(|(_, value)| text(value))
    }
}

/// What stands on one level: brackets, texts and comments seen through.
struct Scan<'s> {
    rest: &'s str,
    depth: usize,
}

enum Piece<'s> {
    Text(&'s str),
    Comment,
    Character(char),
}

impl<'s> Scan<'s> {
    fn new(rest: &'s str) -> Self {
        Self { rest, depth: 0 }
    }

    fn next(&mut self) -> Option<Piece<'s>> {
        let first = self.rest.chars().next()?;
        let length = match first {
            '"' | '\'' => text_length(self.rest),
            '#' => self.rest.find('\n').unwrap_or(self.rest.len()),
            _ => first.len_utf8(),
        };
        let (piece, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(match first {
            '"' | '\'' => Piece::Text(piece),
            '#' => Piece::Comment,
            _ => {
                match first {
                    '(' | '[' | '{' => self.depth += 1,
                    ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                Piece::Character(first)
            }
        })
    }
}

/// The length of the text that begins here, quotes included; the rest if it never ends.
fn text_length(source: &str) -> usize {
    let quote = &source[..1];
    let triple = quote.repeat(3);
    let end = if source.starts_with(&triple) { triple.as_str() } else { quote };
    let mut at = end.len();
    while at < source.len() {
        if source[at..].starts_with(end) {
            return at + end.len();
        }
        let mut characters = source[at..].chars();
        let first = characters.next().unwrap_or(' ');
        at += first.len_utf8();
        if first == '\\' {
            at += characters.next().map_or(0, char::len_utf8);
        }
    }
    source.len()
}

/// Lines, joined where a bracket or a backslash goes on; comments left out.
pub(super) fn statements(source: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut current = String::new();
    let mut scan = Scan::new(source);
    while let Some(piece) = scan.next() {
        match piece {
            Piece::Text(text) => current.push_str(text),
            Piece::Comment => {}
            Piece::Character('\n') if scan.depth > 0 => current.push(' '),
            Piece::Character('\n') if current.ends_with('\\') => _ = current.pop(),
            Piece::Character('\n') => all.push(std::mem::take(&mut current)),
            Piece::Character(one) => current.push(one),
        }
    }
    all.push(current);
    all.retain(|statement| !statement.trim().is_empty());
    all
}

/// `name(arguments)` as a whole; `with` may name it behind.
pub(super) fn call(source: &str) -> Option<(String, Call)> {
    let source = source.trim();
    let open = source.find('(')?;
    let name = source[..open].trim();
    let is_name = !name.is_empty() && name.chars().all(|one| one.is_alphanumeric() || matches!(one, '_' | '.'));
    if !is_name {
        return None;
    }
    let mut scan = Scan::new(&source[open..]);
    while scan.next().is_some() {
        if scan.depth == 0 {
            break;
        }
    }
    let close = source.len() - scan.rest.len();
    let behind = scan.rest.trim();
    if !(behind.is_empty() || behind.starts_with("as ")) || scan.depth > 0 {
        return None;
    }
    let mut read = Call::default();
    for argument in split(&source[open + 1..close - 1]) {
        match argument.split_once('=') {
            Some((key, value)) if is_key(key.trim()) && !value.starts_with('=') => {
                read.named.push((key.trim().to_owned(), value.trim().to_owned()));
            }
            _ => read.positional.push(argument),
        }
    }
    Some((name.to_owned(), read))
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|one| one.is_alphanumeric() || one == '_')
}

/// Arguments, without those that are empty.
fn split(source: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut current = String::new();
    let mut scan = Scan::new(source);
    while let Some(piece) = scan.next() {
        match piece {
            Piece::Text(text) => current.push_str(text),
            Piece::Comment => {}
            Piece::Character(',') if scan.depth == 0 => all.push(std::mem::take(&mut current)),
            Piece::Character(one) => current.push(one),
        }
    }
    all.push(current);
    all.into_iter().map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect()
}

/// The value of a text that stands alone, perhaps raw; of a formatted one only Python knows it.
pub(super) fn text(source: &str) -> Option<String> {
    let source = source.trim();
    let (is_raw, quoted) = match source.strip_prefix(['r', 'R']) {
        Some(rest) if rest.starts_with(['"', '\'']) => (true, rest),
        _ => (false, source),
    };
    if !quoted.starts_with(['"', '\'']) || text_length(quoted) != quoted.len() {
        return None;
    }
    let width = if quoted.starts_with("\"\"\"") || quoted.starts_with("'''") { 3 } else { 1 };
    let inside = quoted.get(width..quoted.len().checked_sub(width)?)?;
    if is_raw {
        return Some(inside.to_owned());
    }
    let mut value = String::new();
    let mut characters = inside.chars();
    while let Some(one) = characters.next() {
        match (one, one == '\\') {
            (_, false) => value.push(one),
            _ => match characters.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some('\n') | None => {}
                Some(escaped @ ('\\' | '"' | '\'')) => value.push(escaped),
                Some(other) => value.extend(['\\', other]),
            },
        }
    }
    Some(value)
}

/// One name, or those of a list.
pub(super) fn names(source: &str) -> Vec<String> {
    let source = source.trim().trim_start_matches(['[', '(']).trim_end_matches([']', ')']);
    source.split(',').map(|one| one.trim().to_owned()).filter(|one| is_key(one)).collect()
}
