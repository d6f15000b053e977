//! Follows the quoting of a Bourne shell script, to know what surrounds a place in it.
//!
//! This is no parser: it knows quotes, expansions, comments and here-documents. A `case` pattern inside `$(…)`
//! ends the substitution too early for it, which costs a wrong quote at worst.

/// What surrounds the place that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    Bare,
    Double,
    Single,
    Comment,
    Heredoc,
    QuotedHeredoc,
    Arithmetic,
    /// Behind a backslash.
    Escaped,
}

/// What is open, innermost last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Open {
    Double,
    /// `'…'`; `$'…'` when `escapes`.
    Single {
        escapes: bool,
    },
    /// `$(…)` or `(…)`, with what it counts: parentheses.
    Parentheses,
    Backtick,
    /// `${…}`
    Braces,
    /// `$((…))` or `((…))`, with the depth of parentheses inside.
    Arithmetic {
        depth: usize,
    },
    Comment,
    Heredoc {
        delimiter: String,
        quoted: bool,
        strip_tabs: bool,
    },
}

/// Follows a script's quoting. It reads the script in pieces, between the expressions.
#[derive(Debug, Default)]
pub(crate) struct Quotes {
    open: Vec<Open>,
    /// Here-documents announced on this line; their bodies begin on the next.
    announced: Vec<(String, bool, bool)>,
    /// The line read so far, while inside a here-document.
    line: String,
    /// Whether the next character begins a word, where `#` begins a comment.
    inside_word: bool,
    /// The piece read last ended with a backslash.
    escaped: bool,
}

impl Quotes {
    pub(crate) fn context(&self) -> Context {
        match self.open.last() {
            _ if self.escaped => Context::Escaped,
            Some(Open::Double) => Context::Double,
            Some(Open::Single { .. }) => Context::Single,
            Some(Open::Comment) => Context::Comment,
            Some(Open::Heredoc { quoted: true, .. }) => Context::QuotedHeredoc,
            Some(Open::Heredoc { .. }) => Context::Heredoc,
            Some(Open::Braces | Open::Arithmetic { .. }) => Context::Arithmetic,
            Some(Open::Parentheses | Open::Backtick) | None => Context::Bare,
        }
    }

    pub(crate) fn wrote_word(&mut self) {
        self.inside_word = true;
        // A line with an expression in it never ends a here-document.
        self.line.push('\u{0}');
    }

    pub(crate) fn read(&mut self, text: &str) {
        let characters: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < characters.len() {
            at += self.step(&characters[at..]);
        }
        self.escaped = at > characters.len();
    }

    /// Reads at least one character; says how many.
    fn step(&mut self, rest: &[char]) -> usize {
        let next = rest[0];
        let starts = |text: &str| text.chars().enumerate().all(|(index, wanted)| rest.get(index) == Some(&wanted));
        match self.open.last_mut() {
            Some(Open::Comment) => {
                if next == '\n' {
                    self.open.pop();
                    return self.bare(rest);
                }
                1
            }
            Some(Open::Single { escapes }) => {
                if *escapes && next == '\\' {
                    return 2;
                }
                if next == '\'' {
                    self.open.pop();
                }
                1
            }
            Some(Open::Heredoc { .. }) => self.heredoc(rest),
            Some(Open::Double) => match next {
                '\\' => 2,
                '"' => {
                    self.open.pop();
                    self.inside_word = true;
                    1
                }
                _ => self.expansion(rest).unwrap_or(1),
            },
            Some(Open::Braces) => match next {
                '\\' => 2,
                '}' => {
                    self.open.pop();
                    1
                }
                '"' => {
                    self.open.push(Open::Double);
                    1
                }
                _ => self.expansion(rest).unwrap_or(1),
            },
            Some(Open::Arithmetic { depth }) => match next {
                '(' => {
                    *depth += 1;
                    1
                }
                ')' if *depth > 0 => {
                    *depth -= 1;
                    1
                }
                ')' => {
                    self.open.pop();
                    if starts("))") { 2 } else { 1 }
                }
                _ => self.expansion(rest).unwrap_or(1),
            },
            Some(Open::Parentheses | Open::Backtick) | None => self.bare(rest),
        }
    }

    /// `$(…)`, `$((…))`, `${…}` and backticks, wherever the shell expands.
    fn expansion(&mut self, rest: &[char]) -> Option<usize> {
        let second = rest.get(1);
        match rest[0] {
            '$' if second == Some(&'(') && rest.get(2) == Some(&'(') => {
                self.open.push(Open::Arithmetic { depth: 0 });
                Some(3)
            }
            '$' if second == Some(&'(') => {
                self.open.push(Open::Parentheses);
                self.inside_word = false;
                Some(2)
            }
            '$' if second == Some(&'{') => {
                self.open.push(Open::Braces);
                Some(2)
            }
            '`' => {
                if self.open.last() == Some(&Open::Backtick) {
                    self.open.pop();
                } else {
                    self.open.push(Open::Backtick);
                }
                self.inside_word = false;
                Some(1)
            }
            _ => None,
        }
    }

    fn bare(&mut self, rest: &[char]) -> usize {
        let was_inside_word = std::mem::replace(&mut self.inside_word, true);
        match rest[0] {
            '\\' => 2,
            '\'' => {
                self.open.push(Open::Single { escapes: false });
                1
            }
            '"' => {
                self.open.push(Open::Double);
                1
            }
            '$' if rest.get(1) == Some(&'\'') => {
                self.open.push(Open::Single { escapes: true });
                2
            }
            '$' if rest.get(1) == Some(&'#') => 2,
            '#' if !was_inside_word => {
                self.open.push(Open::Comment);
                1
            }
            '(' => {
                self.inside_word = false;
                if rest.get(1) == Some(&'(') {
                    self.open.push(Open::Arithmetic { depth: 0 });
                    return 2;
                }
                self.open.push(Open::Parentheses);
                1
            }
            ')' => {
                self.inside_word = false;
                if self.open.last() == Some(&Open::Parentheses) {
                    self.open.pop();
                    self.inside_word = true;
                }
                1
            }
            '<' if rest.starts_with(&['<', '<', '<']) => 3,
            '<' if rest.get(1) == Some(&'<') => self.announce(rest),
            '\n' => {
                self.inside_word = false;
                self.begin_heredoc();
                1
            }
            character => match self.expansion(rest) {
                Some(length) => length,
                None => {
                    self.inside_word = !(character.is_whitespace() || matches!(character, ';' | '&' | '|' | '<' | '>'));
                    1
                }
            },
        }
    }

    /// `<<WORD`, `<<-WORD`, `<<'WORD'`.
    fn announce(&mut self, rest: &[char]) -> usize {
        let mut at = 2;
        let strip_tabs = rest.get(at) == Some(&'-');
        at += usize::from(strip_tabs);
        while rest.get(at).is_some_and(|character| matches!(character, ' ' | '\t')) {
            at += 1;
        }
        let mut delimiter = String::new();
        let mut quoted = false;
        let mut quote = None;
        while let Some(&character) = rest.get(at) {
            match (quote, character) {
                (Some(open), close) if open == close => quote = None,
                (Some(_), inner) => delimiter.push(inner),
                (None, '\'' | '"') => {
                    quoted = true;
                    quote = Some(character);
                }
                (None, '\\') => quoted = true,
                (None, end) if end.is_whitespace() || matches!(end, ';' | '&' | '|' | '<' | '>' | '(' | ')') => break,
                (None, inner) => delimiter.push(inner),
            }
            at += 1;
        }
        if !delimiter.is_empty() {
            self.announced.push((delimiter, quoted, strip_tabs));
        }
        at
    }

    fn begin_heredoc(&mut self) {
        if self.announced.is_empty() {
            return;
        }
        let (delimiter, quoted, strip_tabs) = self.announced.remove(0);
        self.line.clear();
        self.open.push(Open::Heredoc { delimiter, quoted, strip_tabs });
    }

    fn heredoc(&mut self, rest: &[char]) -> usize {
        let Some(Open::Heredoc { delimiter, quoted, strip_tabs }) = self.open.last() else { return 1 };
        match rest[0] {
            '\n' => {
                let line = if *strip_tabs { self.line.trim_start_matches('\t') } else { &self.line };
                if line == delimiter {
                    self.open.pop();
                    self.inside_word = false;
                    self.begin_heredoc();
                }
                self.line.clear();
                1
            }
            '\\' if !*quoted => {
                self.line.extend(rest.iter().take(2).filter(|character| **character != '\n'));
                2
            }
            character => {
                let quoted = *quoted;
                self.line.push(character);
                if quoted { 1 } else { self.expansion(rest).unwrap_or(1) }
            }
        }
    }
}
