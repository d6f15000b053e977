//! A picture that needs no other program: boxes, curves, and nothing that a browser would execute.

use std::fmt::Write as _;

use crate::Workflow;
use crate::workflow::{Action, Stage};

use super::labels::{kind, marks, shortened, title, xml};
use super::layout::{Layout, Node};

const BOX_HEIGHT: i64 = 46;
const LAYER: i64 = 92;
const GAP: i64 = 24;
const MARGIN: i64 = 20;
const HEADING: i64 = 28;

const STYLE: &str = "<style>\
text{font-family:system-ui,sans-serif;font-size:13px;fill:#1f2933}\
.k{font-size:11px;fill:#52606d}.h{font-weight:600}\
rect{fill:#fff;stroke:#7b8794}.parks{stroke-dasharray:4 3}\
path{fill:none;stroke:#9aa5b1;stroke-width:1.4}\
@media(prefers-color-scheme:dark){text{fill:#e4e7eb}.k{fill:#9aa5b1}rect{fill:#1f2933}}\
</style>";

pub fn svg(workflow: &Workflow) -> String {
    let mut body = String::new();
    let mut top = MARGIN;
    let mut width = 200;
    for stage in Stage::ALL.iter().copied() {
        if workflow.stage(stage).is_empty() {
            continue;
        }
        let heading = if stage == Stage::Main { &workflow.name } else { title(stage) };
        let _ = writeln!(body, "<text class=\"h\" x=\"{MARGIN}\" y=\"{}\">{}</text>", top + 12, xml(heading));
        top += HEADING;
        let (drawn, size) = section(workflow, stage, top);
        body.push_str(&drawn);
        width = width.max(size.0).max(heading.chars().count() as i64 * 8);
        top += size.1 + MARGIN;
    }
    let width = width + 2 * MARGIN;
    let name = xml(&workflow.name);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {top}\" width=\"{width}\" height=\"{top}\" \
         role=\"img\" aria-label=\"{name}\">\n<title>{name}</title>\n{STYLE}\n\
         <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" style=\"fill:#9aa5b1;stroke:none\"/></marker></defs>\n{body}</svg>\n"
    )
}

/// One stage, and its width and height.
fn section(workflow: &Workflow, stage: Stage, top: i64) -> (String, (i64, i64)) {
    let layout = Layout::new(workflow, stage);
    let lines: Vec<(String, String)> = layout.nodes.iter().map(|node| lines(workflow, *node)).collect();
    let widths: Vec<i64> = layout
        .nodes
        .iter()
        .zip(&lines)
        .map(|(node, (name, below))| match node {
            Node::Task(_) => (name.chars().count() as i64 * 8).max(below.chars().count() as i64 * 6) + 28,
            Node::Bend(_) => 8,
        })
        .collect();
    let left = layout.positions(&widths, GAP);
    let middle = |node: usize| MARGIN + left[node] + widths[node] / 2;
    let mut text = String::new();
    for (number, layer) in layout.layers.iter().enumerate() {
        let y = top + number as i64 * LAYER;
        for node in layer {
            let from_y = if matches!(layout.nodes[*node], Node::Bend(_)) {
                let x = middle(*node);
                let _ = writeln!(text, "<path d=\"M{x} {y}V{}\"/>", y + BOX_HEIGHT);
                y + BOX_HEIGHT
            } else {
                draw_box(
                    &mut text,
                    workflow,
                    layout.nodes[*node],
                    &lines[*node],
                    (MARGIN + left[*node], y),
                    widths[*node],
                );
                y + BOX_HEIGHT
            };
            for other in &layout.below[*node] {
                let (from, to) = (middle(*node), middle(*other));
                let end = y + LAYER;
                let half = (from_y + end) / 2;
                let marker = if matches!(layout.nodes[*other], Node::Task(_)) { " marker-end=\"url(#a)\"" } else { "" };
                let _ = writeln!(text, "<path d=\"M{from} {from_y}C{from} {half} {to} {half} {to} {end}\"{marker}/>");
            }
        }
    }
    let width = left.iter().zip(&widths).map(|(left, width)| left + width).max().unwrap_or(0);
    (text, (width, layout.layers.len() as i64 * LAYER - (LAYER - BOX_HEIGHT)))
}

fn lines(workflow: &Workflow, node: Node) -> (String, String) {
    let Node::Task(index) = node else { return (String::new(), String::new()) };
    let task = &workflow.tasks[index];
    let mut below = kind(task);
    for mark in marks(task) {
        below.push_str(" · ");
        below.push_str(&mark);
    }
    (shortened(&task.name, 40), below)
}

fn draw_box(
    text: &mut String,
    workflow: &Workflow,
    node: Node,
    (name, below): &(String, String),
    (x, y): (i64, i64),
    width: i64,
) {
    let Node::Task(index) = node else { return };
    let task = &workflow.tasks[index];
    let class = if task.action.parks() { " class=\"parks\"" } else { "" };
    let radius = if matches!(task.action, Action::Approval(_) | Action::Wait(_)) { 20 } else { 6 };
    if task.foreach.is_some() {
        // A second sheet behind the first: it is done many times.
        let _ = writeln!(
            text,
            "<rect x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"{radius}\"/>",
            x + 4,
            y - 4
        );
    }
    let _ = writeln!(
        text,
        "<g><title>{}</title><rect{class} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"{radius}\"/>\
         <text x=\"{}\" y=\"{}\">{}</text><text class=\"k\" x=\"{}\" y=\"{}\">{}</text></g>",
        xml(task.description.as_deref().unwrap_or(&task.name)),
        x + 14,
        y + 20,
        xml(name),
        x + 14,
        y + 36,
        xml(below),
    );
}
