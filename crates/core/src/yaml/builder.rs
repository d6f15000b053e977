//! Puts nodes together and keeps the budgets, for every reader of the text.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::diagnostic::{Place, Report, is_invisible, quoted};

use super::{Kind, Node, NodeId, Style};

const MAX_DEPTH: usize = 64;
/// Nodes as written: a hundred thousand tasks with ten needs each, and some.
const MAX_NODES: u64 = 2_000_000;
/// Keys of one mapping: twice the tasks of a large workflow.
const MAX_KEYS: usize = 200_000;
/// What the aliases would add if they were written out: a unit per node and per 64 bytes of text.
const MAX_ALIAS_COST: u64 = 500_000;

/// A collection under construction.
struct Open {
    id: NodeId,
    anchor: usize,
    /// Of a mapping: the key whose value comes next.
    key: Option<NodeId>,
    cost: u64,
}

pub(super) struct Builder<'s, 'r> {
    report: &'r mut Report,
    nodes: Vec<Node<'s>>,
    stack: Vec<Open>,
    anchors: HashMap<usize, (NodeId, u64)>,
    alias_cost: u64,
    root: Option<NodeId>,
}

/// Reading cannot go on; the report says why.
pub(super) struct Stop;

impl<'s, 'r> Builder<'s, 'r> {
    pub(super) fn new(source: &'s str, report: &'r mut Report) -> Self {
        Self {
            report,
            // A guess; growing by doubling would touch twice the memory for a large text.
            nodes: Vec::with_capacity(source.len() / 10),
            stack: Vec::new(),
            anchors: HashMap::new(),
            alias_cost: 0,
            root: None,
        }
    }

    pub(super) fn finish(self) -> (Vec<Node<'s>>, Option<NodeId>) {
        (self.nodes, self.root)
    }

    pub(super) fn has_many_problems(&self) -> bool {
        self.report.is_full()
    }

    pub(super) fn scalar(&mut self, text: Cow<'s, str>, style: Style, anchor: usize, place: Place) -> Result<(), Stop> {
        if text.contains('\0') {
            return self.refuse(place, "a text holds a NUL character");
        }
        let cost = 1 + text.len() as u64 / 64;
        let id = self.add(Kind::Scalar { text, style }, place)?;
        self.anchor(anchor, id, cost);
        self.attach(id, cost)
    }

    pub(super) fn close(&mut self) -> Result<(), Stop> {
        let Some(open) = self.stack.pop() else { return Ok(()) };
        self.check_duplicates(open.id);
        self.anchor(open.anchor, open.id, open.cost);
        self.attach(open.id, open.cost)
    }

    pub(super) fn alias(&mut self, anchor: usize, place: Place) -> Result<(), Stop> {
        let Some((id, cost)) = self.anchors.get(&anchor).copied() else {
            return self.refuse(place, "an alias stands inside the value it refers to");
        };
        self.alias_cost += cost;
        if self.alias_cost > MAX_ALIAS_COST {
            return self.refuse(place, "the aliases up to here expand to more than a workflow may hold");
        }
        self.attach(id, cost)
    }

    pub(super) fn refuse_with_help(&mut self, place: Place, message: String, help: Option<String>) -> Result<(), Stop> {
        self.report.push(place, "", message, help);
        Err(Stop)
    }

    pub(super) fn refuse(&mut self, place: Place, message: &str) -> Result<(), Stop> {
        self.report.add(place, "", message);
        Err(Stop)
    }

    fn add(&mut self, kind: Kind<'s>, place: Place) -> Result<NodeId, Stop> {
        if self.nodes.len() as u64 >= MAX_NODES {
            self.refuse(place, "the text holds more than 2,000,000 values")?;
        }
        self.nodes.push(Node { kind, place });
        Ok(self.nodes.len() as NodeId - 1)
    }

    pub(super) fn open(&mut self, kind: Kind<'s>, anchor: usize, place: Place) -> Result<(), Stop> {
        if self.stack.len() >= MAX_DEPTH {
            return self.refuse(place, "values are nested more than 64 deep");
        }
        let id = self.add(kind, place)?;
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
            (Kind::Mapping(entries), None) if entries.len() >= MAX_KEYS => {
                let place = self.nodes[id as usize].place;
                return self.refuse(place, "a mapping holds more than 200,000 keys");
            }
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
                entries[..number].iter().any(|(other, _)| super::scalar(&self.nodes, *other) == text)
            };
            if again && !self.report.is_full() {
                self.report.add(*place, "", format!("the key {} appears twice", quoted(text)));
            }
        }
    }
}
