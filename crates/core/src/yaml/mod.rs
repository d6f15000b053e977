//! Text to a tree of nodes that know their place, within budgets.
//!
//! The tree is an arena: an alias is a second reference to the same node, so a bomb costs no memory; what it would
//! cost to walk is counted and bounded. Tags, merge keys, duplicate keys, keys that are no scalars, and more than
//! one document are errors. JSON is YAML, but has a reader of its own: YAML's looks far ahead in it for a key.

mod builder;
mod events;
mod json;

use std::borrow::Cow;

use crate::diagnostic::{Diagnostics, Place, Report};

/// The longest text that is read at all.
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;

pub(crate) type NodeId = u32;

#[derive(Debug)]
pub(crate) struct Tree<'s> {
    source: &'s str,
    is_json: bool,
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
    /// Written as JSON, most likely by a program.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

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
    let built = json::read(source, &mut report);
    let is_json = built.is_ok();
    let built = built.or_else(|_| events::read(source, &mut report));
    let tree = built.ok().and_then(|(nodes, root)| Some(Tree { source, is_json, nodes, root: root? }));
    report.finish(tree)
}

fn find_control_character(source: &str) -> Option<Place> {
    let bad = |byte: u8| byte < 0x20 && !matches!(byte, b'\n' | b'\t' | b'\r') || byte == 0x7f;
    let at = source.bytes().position(bad)?;
    let line_start = source[..at].rfind('\n').map_or(0, |at| at + 1);
    let line = source[..at].bytes().filter(|byte| *byte == b'\n').count() as u32 + 1;
    Some(Place { line, column: source[line_start..at].chars().count() as u32 + 1, length: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that is in a tree, with places.
    fn shown(source: &str) -> Result<String, String> {
        let tree = parse(source).map_err(|errors| errors.to_string())?;
        Ok(show(&tree, tree.root()))
    }

    fn show(tree: &Tree<'_>, id: NodeId) -> String {
        let node = tree.node(id);
        let inner = match &node.kind {
            Kind::Scalar { text, style } => format!("{text}{}", if *style == Style::Plain { "" } else { "'" }),
            Kind::Sequence(items) => format!("{:?}", items.iter().map(|item| show(tree, *item)).collect::<Vec<_>>()),
            Kind::Mapping(entries) => {
                format!(
                    "{:?}",
                    entries.iter().map(|(key, value)| (show(tree, *key), show(tree, *value))).collect::<Vec<_>>()
                )
            }
        };
        format!("{}:{} {inner}", node.place.line, node.place.column)
    }

    /// Both readers see the same in JSON.
    #[test]
    fn json_is_read_like_yaml() {
        for source in [
            "{}",
            r#"{"a": 1}"#,
            r#"{"a": [], "b": {}, "c": [1, [2], {"d": null}], "e": "x\n\u00e9\"", "ä": -1.5e3}"#,
            "\n{\n  \"a\": true,\n  \"b\": [\n    \"x\",\n    false\n  ]\n}\n",
        ] {
            let mut report = Report::default();
            let (nodes, root) = json::read(source, &mut report).ok().expect("is JSON");
            let by_json = Tree { source, is_json: true, nodes, root: root.unwrap() };
            let (nodes, root) = events::read(source, &mut report).ok().expect("is YAML");
            let by_yaml = Tree { source, is_json: false, nodes, root: root.unwrap() };
            assert_eq!(show(&by_json, by_json.root()), show(&by_yaml, by_yaml.root()), "{source}");
        }
    }

    #[test]
    fn what_is_not_json_is_left_to_yaml() {
        for source in
            ["{a: 1}", r#"{"a": 1,}"#, r#"{"a": 1} x"#, r#"{"a" 1}"#, r#"{"a": 01}"#, "{\"a\": 'x'}", "{", "{]"]
        {
            assert!(json::read(source, &mut Report::default()).is_err(), "{source}");
        }
        assert_eq!(shown("{a: 1, b: 'x'}").unwrap(), r#"1:1 [("1:2 a", "1:5 1"), ("1:8 b", "1:11 x'")]"#);
        assert_eq!(shown(r#"{"a": 1, "a": 2}"#).unwrap_err(), "1:10: the key `a` appears twice");
    }
}
