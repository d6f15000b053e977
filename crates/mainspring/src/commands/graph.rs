//! `mainspring graph`: a picture of a workflow.

use clap::{Args, ValueEnum};
use mainspring_core::graph::{self, Ink, Style};

use crate::failure::{Exit, Result};
use crate::output::{Output, Paint, columns, speaks_utf8};
use crate::source;

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The workflow file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// What to draw
    #[arg(long, value_enum, default_value_t = Kind::Text, value_name = "FORMAT")]
    format: Kind,
    /// Every task, also of a large workflow (text)
    #[arg(long)]
    all: bool,
    /// Only ASCII characters (text) [default: unless the locale is UTF-8]
    #[arg(long)]
    ascii: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Boxes and lines for a terminal
    Text,
    /// Graphviz
    Dot,
    /// Mermaid, as Markdown renderers draw it
    Mermaid,
    /// A picture for a browser
    Svg,
}

pub(crate) fn graph(args: &GraphArgs, out: &Output) -> Result {
    let (workflow, _) = source::parsed(out, &args.file)?;
    match args.format {
        Kind::Dot => out.raw(&graph::dot(&workflow)),
        Kind::Mermaid => out.raw(&graph::mermaid(&workflow)),
        Kind::Svg => out.raw(&graph::svg(&workflow)),
        Kind::Text => {
            let palette = out.palette();
            let style = Style { columns: columns(), ascii: args.ascii || !speaks_utf8(), all: args.all };
            let mut text = String::new();
            for line in graph::text(&workflow, style) {
                for (ink, piece) in line {
                    match paint(ink) {
                        Some(paint) => text.push_str(&palette.paint(paint, piece)),
                        None => text.push_str(&piece),
                    }
                }
                text.push('\n');
            }
            out.raw(&text);
        }
    }
    Ok(Exit::Success)
}

fn paint(ink: Ink) -> Option<Paint> {
    match ink {
        Ink::Plain => None,
        Ink::Frame => Some(Paint::Dim),
        Ink::Name | Ink::Title => Some(Paint::Bold),
        Ink::Kind => Some(Paint::Cyan),
        Ink::Mark => Some(Paint::Yellow),
    }
}
