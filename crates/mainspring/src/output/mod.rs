//! The one way to standard output and standard error.
//!
//! A reader that goes away (`| head`) is no error: what follows is dropped, and code that prints without end asks
//! [`Output::is_gone`].

mod clock;
mod excerpt;
mod table;
mod text;
mod yaml;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use serde::Serialize;

pub(crate) use clock::local_text;
pub(crate) use excerpt::{excerpt, excerpt_of_warning};
pub(crate) use table::Table;
pub(crate) use text::{clip, plain, seconds, width};

use crate::failure::Failure;

/// The format of records where `-o` is not given.
const FORMAT_VARIABLE: &str = "MAINSPRING_OUTPUT_FORMAT";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
    Cyan,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Blue => "34",
            Self::Cyan => "36",
        }
    }
}

/// Whether and how a text is coloured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    colored: bool,
}

impl Palette {
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colored: false };

    pub(crate) fn paint(self, paint: Paint, text: impl Display) -> String {
        if self.colored { format!("\x1b[{}m{text}\x1b[0m", paint.code()) } else { text.to_string() }
    }
}

#[derive(Debug)]
pub(crate) struct Output {
    /// As asked for; `None` leaves it to the command.
    pub(crate) format: Option<Format>,
    pub(crate) quiet: bool,
    color: Color,
    gone: AtomicBool,
}

impl Output {
    pub(crate) fn new(format: Option<Format>, color: Color, quiet: bool) -> Self {
        Self { format, quiet, color, gone: AtomicBool::new(false) }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    pub(crate) fn palette(&self) -> Palette {
        Palette { colored: self.colored(self.is_terminal()) }
    }

    /// Whether standard output may be coloured.
    pub(crate) fn is_colored(&self) -> bool {
        self.colored(self.is_terminal())
    }

    pub(crate) fn error_palette(&self) -> Palette {
        Palette { colored: self.colored(io::stderr().is_terminal()) }
    }

    fn colored(&self, terminal: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
                terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }

    /// The format of commands that show records. What is shown does not depend on where it goes: a table unless another
    /// format is asked for, by `-o` or for a whole script by MAINSPRING_OUTPUT_FORMAT.
    pub(crate) fn record_format(&self) -> Format {
        let named = || Format::from_str(&std::env::var(FORMAT_VARIABLE).ok()?, true).ok();
        self.format.or_else(named).unwrap_or(Format::Table)
    }

    /// Standard output has no reader any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(crate) fn line(&self, text: impl Display) {
        let mut line = text.to_string();
        line.push('\n');
        self.raw(&line);
    }

    /// Writes and flushes at once.
    pub(crate) fn raw(&self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn bytes(&self, bytes: &[u8]) {
        if self.is_gone() {
            return;
        }
        let mut stdout = io::stdout().lock();
        if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
            self.gone.store(true, Ordering::Relaxed);
        }
    }

    /// One value in the given format; a table is the caller's affair.
    pub(crate) fn value(&self, format: Format, value: &impl Serialize) {
        // Neither fails: keys are texts, and nothing but memory is written to.
        match format {
            Format::Yaml => self.raw(&yaml::write(&serde_json::to_value(value).unwrap_or_default())),
            Format::Json | Format::Table => self.line(serde_json::to_string(value).unwrap_or_default()),
        }
    }

    /// A remark on standard error, unless it is to be quiet.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            to_stderr(&format!("{text}\n"));
        }
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        let palette = self.error_palette();
        let mut text = format!("{} {}\n", palette.paint(Paint::Red, "error:"), failure.message);
        if let Some(remedy) = &failure.remedy {
            text.push_str(&format!("  {} {remedy}\n", palette.paint(Paint::Cyan, "help:")));
        }
        to_stderr(&text);
    }

    /// Text for standard error as it is.
    pub(crate) fn complaint(&self, text: &str) {
        to_stderr(text);
    }
}

/// The columns of the terminal, 80 if they are not known.
pub(crate) fn columns() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0).max(20))
}

/// The rows of the terminal, 24 if they are not known.
pub(crate) fn rows() -> usize {
    terminal_size::terminal_size().map_or(24, |(_, height)| usize::from(height.0).max(5))
}

/// Whether the terminal's locale has more than ASCII.
pub(crate) fn speaks_utf8() -> bool {
    let set = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

fn to_stderr(text: &str) {
    // There is no place left to report that standard error is closed.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
