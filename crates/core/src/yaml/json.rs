//! JSON with places. Anything that is not JSON is left to the YAML reader, which has the better complaints.

use std::borrow::Cow;

use crate::diagnostic::{Place, Report};

use super::builder::{Builder, Stop};
use super::{Kind, Node, NodeId, Style};

/// `Err` when the text is not JSON; then nothing was reported.
pub(super) fn read<'s>(source: &'s str, report: &mut Report) -> Result<(Vec<Node<'s>>, Option<NodeId>), Stop> {
    if !source.trim_start().starts_with('{') {
        return Err(Stop);
    }
    let mut found = Report::default();
    let mut reader =
        Reader { source, at: 0, line: 1, line_start: 0, open: Vec::new(), builder: Builder::new(source, &mut found) };
    if reader.run().is_none() {
        return Err(Stop);
    }
    let built = reader.builder.finish();
    *report = found;
    Ok(built)
}

struct Reader<'s, 'r> {
    source: &'s str,
    at: usize,
    line: u32,
    line_start: usize,
    /// The closing brackets that are owed.
    open: Vec<u8>,
    builder: Builder<'s, 'r>,
}

impl Reader<'_, '_> {
    /// `None`: not JSON, or refused.
    fn run(&mut self) -> Option<()> {
        loop {
            self.value()?;
            // Behind a value: close what ends here, go on behind a comma, or be done.
            loop {
                let Some(close) = self.open.last().copied() else {
                    return self.peek().is_none().then_some(());
                };
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        self.key()?;
                        break;
                    }
                    byte if byte == close => self.close()?,
                    _ => return None,
                }
            }
        }
    }

    /// A scalar, an empty collection, or the way down to the first scalar of a collection.
    fn value(&mut self) -> Option<()> {
        loop {
            match self.peek()? {
                b'{' => self.open(Kind::Mapping(Vec::new()), b'}')?,
                b'[' => self.open(Kind::Sequence(Vec::new()), b']')?,
                b'"' => return self.string(),
                _ => return self.word(),
            }
            if self.peek()? == *self.open.last()? {
                return self.close();
            }
            self.key()?;
        }
    }

    fn open(&mut self, kind: Kind<'static>, close: u8) -> Option<()> {
        self.builder.open(kind, 0, self.place(1)).ok()?;
        self.open.push(close);
        self.at += 1;
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        self.open.pop();
        self.at += 1;
        self.builder.close().ok()
    }

    /// In a mapping: `"key":`.
    fn key(&mut self) -> Option<()> {
        if *self.open.last()? == b'}' {
            (self.peek()? == b'"').then_some(())?;
            self.string()?;
            (self.peek()? == b':').then_some(())?;
            self.at += 1;
        }
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        let rest = &self.source.as_bytes()[self.at..];
        let mut end = 1;
        while *rest.get(end)? != b'"' {
            end += if rest[end] == b'\\' { 2 } else { 1 };
        }
        let written = self.source.get(self.at..=self.at + end)?;
        let text = if written.contains(['\\', '\n', '\r', '\t']) {
            Cow::Owned(serde_json::from_str::<String>(written).ok()?)
        } else {
            Cow::Borrowed(&written[1..end])
        };
        self.builder.scalar(text, Style::Quoted, 0, self.place(end + 1)).ok()?;
        self.at += end + 1;
        Some(())
    }

    /// `true`, `false`, `null` or a number.
    fn word(&mut self) -> Option<()> {
        let rest = &self.source[self.at..];
        let length =
            rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')).count();
        let word = &rest[..length];
        serde_json::from_str::<serde_json::Value>(word).ok()?;
        self.builder.scalar(Cow::Borrowed(word), Style::Plain, 0, self.place(length)).ok()?;
        self.at += length;
        Some(())
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.source.as_bytes().get(self.at)?;
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.line_start = self.at + 1;
                }
                b' ' | b'\t' | b'\r' => {}
                other => return Some(other),
            }
            self.at += 1;
        }
    }

    fn place(&self, length: usize) -> Place {
        // On a line of megabytes, counting characters for every value would take for ever.
        const COUNTED: usize = 4_096;
        let before = self.at - self.line_start;
        let column = if before <= COUNTED { self.source[self.line_start..self.at].chars().count() } else { before };
        Place { line: self.line, column: column as u32 + 1, length: length.min(u32::MAX as usize) as u32 }
    }
}
