//! Text to a tree of nodes that know their place, within budgets.
//!
//! The tree is an arena: an alias is a second reference to the same node, so a bomb costs no memory; what it would
//! cost to walk is counted and bounded. Tags, merge keys, duplicate keys, keys that are no scalars, and more than
//! one document are errors. JSON is read by the same door, since it is YAML.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::diagnostic::{Diagnostics, Place, Report, is_invisible, quoted};

/// The longest text that is read at all.
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;
const MAX_DEPTH: usize = 64;
/// Nodes as written.
const MAX_NODES: u64 = 4_000_000;
/// What the aliases would add if they were written out: a unit per node and per 64 bytes of text.
const MAX_ALIAS_COST: u64 = 500_000;

pub(crate) type NodeId = u32;

#[derive(Debug)]
pub(crate) struct Tree<'s> {
    source: &'s str,
    nodes: Vec<Node<'s>>,
    root: NodeId,
}

#[derive(Debug)]
pub(crate) struct Node<'s> {
    pub(crate) kind: Kind<'s>,
    pub(crate) place: Place,
}

#[derive(Debug)]
pub(crate) enum Kind<'s> {
    Scalar { text: Cow<'s, str>, style: Style },
    Sequence(Vec<NodeId>),
    Mapping(Vec<(NodeId, NodeId)>),
}

/// How a scalar was written: only plain ones can be numbers, booleans or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Quoted,
    Block,
}

impl<'s> Tree<'s> {
    pub(crate) fn root(&self) -> NodeId {
        self.root
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node<'s> {
        &self.nodes[id as usize]
    }

    /// The text of a key or another node known to be a scalar.
    pub(crate) fn scalar(&self, id: NodeId) -> &str {
        scalar(&self.nodes, id)
    }

    /// Where a byte of a scalar's decoded text stands in the source, as well as folding and escapes allow.
    pub(crate) fn locate(&self, id: NodeId, offset: usize, length: usize) -> Place {
        let node = self.node(id);
        let Kind::Scalar { text, style } = &node.kind else { return node.place };
        let before = text.get(..offset).unwrap_or(text);
        let length = u32::try_from(length).unwrap_or(u32::MAX).max(1);
        let lines_before = before.matches('\n').count();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let wanted = text[line_start..].lines().next().unwrap_or("");
        let in_line = before[line_start..].chars().count() as u32;
        if *style != Style::Block && lines_before == 0 {
            let quote = u32::from(*style == Style::Quoted);
            return Place { line: node.place.line, column: node.place.column + quote + in_line, length };
        }
        // A block's content begins on the line after its `|`; saphyr's mark may be either of the two.
        let first = node.place.line as usize - 1;
        self.source
            .lines()
            .enumerate()
            .skip(first + lines_before)
            .take(3)
            .find_map(|(number, line)| {
                let column = line.find(wanted).filter(|_| !wanted.is_empty())?;
                let column = line[..column].chars().count() as u32 + in_line + 1;
                Some(Place { line: number as u32 + 1, column, length })
            })
            .unwrap_or(node.place)
    }
}

fn scalar<'n>(nodes: &'n [Node<'_>], id: NodeId) -> &'n str {
    match &nodes[id as usize].kind {
        Kind::Scalar { text, .. } => text,
        _ => "",
    }
}

/// Reads one document.
pub(crate) fn parse(source: &str) -> Result<Tree<'_>, Diagnostics> {
    let mut report = Report::default();
    if source.len() > MAX_BYTES {
        report.add(Place::default(), "", format!("the text is {} bytes long, more than 16 MiB", source.len()));
        return report.finish(None);
    }
    if let Some(place) = find_control_character(source) {
        report.add(place, "", "the text holds a control character, which has no place in a workflow");
        return report.finish(None);
    }
    if source.trim().is_empty() {
        report.add_with_help(Place::default(), "", "the text is empty", "the smallest workflow is `name: …`");
        return report.finish(None);
    }
    let mut builder = Builder::new(source, &mut report);
    let root = builder.read();
    let nodes = builder.nodes;
    let tree = root.map(|root| Tree { source, nodes, root });
    report.finish(tree)
}

fn find_control_character(source: &str) -> Option<Place> {
    let bad = |byte: u8| byte < 0x20 && !matches!(byte, b'\n' | b'\t' | b'\r') || byte == 0x7f;
    let at = source.bytes().position(bad)?;
    let line_start = source[..at].rfind('\n').map_or(0, |at| at + 1);
    let line = source[..at].bytes().filter(|byte| *byte == b'\n').count() as u32 + 1;
    Some(Place { line, column: source[line_start..at].chars().count() as u32 + 1, length: 1 })
}

/// A collection under construction.
struct Open {
    id: NodeId,
    anchor: usize,
    /// Of a mapping: the key whose value comes next.
    key: Option<NodeId>,
    cost: u64,
}

struct Builder<'s, 'r> {
    source: &'s str,
    report: &'r mut Report,
    nodes: Vec<Node<'s>>,
    stack: Vec<Open>,
    anchors: HashMap<usize, (NodeId, u64)>,
    alias_cost: u64,
    root: Option<NodeId>,
}

/// Reading cannot go on; the report says why.
struct Stop;

impl<'s, 'r> Builder<'s, 'r> {
    fn new(source: &'s str, report: &'r mut Report) -> Self {
        Self {
            source,
            report,
            // A guess; growing by doubling would touch twice the memory for a large text.
            nodes: Vec::with_capacity(source.len() / 10),
            stack: Vec::new(),
            anchors: HashMap::new(),
            alias_cost: 0,
            root: None,
        }
    }

    fn read(&mut self) -> Option<NodeId> {
        let mut documents = 0;
        for event in Parser::new_from_str(self.source) {
            let step = match event {
                Ok((Event::DocumentStart(_), span)) => {
                    documents += 1;
                    if documents > 1 {
                        self.refuse(span, "a second document begins here, but a workflow is one document")
                    } else {
                        Ok(())
                    }
                }
                Ok((event, span)) => self.event(event, span),
                Err(error) => {
                    let mark = error.marker();
                    let place = Place { line: mark.line() as u32, column: mark.col() as u32 + 1, length: 1 };
                    self.report.add(place, "", format!("not valid YAML: {}", error.info()));
                    Err(Stop)
                }
            };
            if step.is_err() || self.report.is_full() {
                return None;
            }
        }
        self.root
    }

    fn event(&mut self, event: Event<'s>, span: Span) -> Result<(), Stop> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), span)?;
                if text.contains('\0') {
                    return self.refuse(span, "a text holds a NUL character");
                }
                let cost = 1 + text.len() as u64 / 64;
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
                    ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
                };
                let id = self.add(Kind::Scalar { text, style }, span)?;
                self.anchor(anchor, id, cost);
                self.attach(id, cost)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), span)?;
                self.open(Kind::Sequence(Vec::new()), anchor, span)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), span)?;
                self.open(Kind::Mapping(Vec::new()), anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.stack.pop() else { return Ok(()) };
                self.check_duplicates(open.id);
                self.anchor(open.anchor, open.id, open.cost);
                self.attach(open.id, open.cost)
            }
            Event::Alias(anchor) => {
                let Some((id, cost)) = self.anchors.get(&anchor).copied() else {
                    return self.refuse(span, "an alias stands inside the value it refers to");
                };
                self.alias_cost += cost;
                if self.alias_cost > MAX_ALIAS_COST {
                    return self.refuse(span, "the aliases up to here expand to more than a workflow may hold");
                }
                self.attach(id, cost)
            }
            _ => Ok(()),
        }
    }

    fn refuse(&mut self, span: Span, message: &str) -> Result<(), Stop> {
        self.report.add(place(span), "", message);
        Err(Stop)
    }

    fn refuse_tag(&mut self, tagged: bool, span: Span) -> Result<(), Stop> {
        if tagged { self.refuse(span, "YAML tags (`!…`) are not supported") } else { Ok(()) }
    }

    fn add(&mut self, kind: Kind<'s>, span: Span) -> Result<NodeId, Stop> {
        if self.nodes.len() as u64 >= MAX_NODES {
            self.refuse(span, "the text holds more than 4,000,000 values")?;
        }
        self.nodes.push(Node { kind, place: place(span) });
        Ok(self.nodes.len() as NodeId - 1)
    }

    fn open(&mut self, kind: Kind<'s>, anchor: usize, span: Span) -> Result<(), Stop> {
        if self.stack.len() >= MAX_DEPTH {
            return self.refuse(span, "values are nested more than 64 deep");
        }
        let id = self.add(kind, span)?;
        self.stack.push(Open { id, anchor, key: None, cost: 1 });
        Ok(())
    }

    fn anchor(&mut self, anchor: usize, id: NodeId, cost: u64) {
        if anchor != 0 {
            self.anchors.insert(anchor, (id, cost));
        }
    }

    fn attach(&mut self, id: NodeId, cost: u64) -> Result<(), Stop> {
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(id);
            return Ok(());
        };
        open.cost += cost;
        let parent = open.id as usize;
        match (&mut self.nodes[parent].kind, open.key.take()) {
            (Kind::Sequence(items), _) => items.push(id),
            (Kind::Mapping(entries), Some(key)) => entries.push((key, id)),
            (_, _) => {
                open.key = Some(id);
                return self.check_key(id);
            }
        }
        Ok(())
    }

    fn check_key(&mut self, id: NodeId) -> Result<(), Stop> {
        let node = &self.nodes[id as usize];
        let place = node.place;
        let (message, help) = match &node.kind {
            Kind::Scalar { text, style: Style::Plain } if text == "<<" => {
                ("merge keys (`<<`) are not supported".to_owned(), Some("use an alias for the whole value".to_owned()))
            }
            Kind::Scalar { text, .. } if text.chars().any(|one| one.is_control() || is_invisible(one)) => {
                (format!("the key {} holds a control or invisible character", quoted(text)), None)
            }
            Kind::Scalar { .. } => return Ok(()),
            _ => ("a key must be a plain name, not a list or a mapping".to_owned(), None),
        };
        self.report.push(place, "", message, help);
        Err(Stop)
    }

    fn check_duplicates(&mut self, id: NodeId) {
        let Kind::Mapping(entries) = &self.nodes[id as usize].kind else { return };
        // Most mappings are small, and there may be a hundred thousand of them.
        const SMALL: usize = 12;
        let mut seen = HashSet::with_capacity(if entries.len() > SMALL { entries.len() } else { 0 });
        for (number, (key, _)) in entries.iter().enumerate() {
            let Node { kind: Kind::Scalar { text, .. }, place } = &self.nodes[*key as usize] else { continue };
            let again = if entries.len() > SMALL {
                !seen.insert(text.as_ref())
            } else {
                entries[..number].iter().any(|(other, _)| scalar(&self.nodes, *other) == text)
            };
            if again && !self.report.is_full() {
                self.report.add(*place, "", format!("the key {} appears twice", quoted(text)));
            }
        }
    }
}

fn place(span: Span) -> Place {
    let length =
        if span.end.line() == span.start.line() { span.end.col().saturating_sub(span.start.col()).max(1) } else { 1 };
    let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Place { line: narrow(span.start.line()), column: narrow(span.start.col() + 1), length: narrow(length) }
}
