//! The drawing for a terminal: boxes and edges where they fit, layers as a list where they do not.

use crate::Workflow;
use crate::workflow::Stage;

use super::canvas::{Canvas, DOWN, Ink, LEFT, Line, RIGHT, UP};
use super::labels::{kind, marks, shortened, title};
use super::layout::{Layout, Node};
use super::listing;
use super::routes::{Bundle, assign};

/// More tasks than this are no picture any more.
const MOST_BOXES: usize = 60;
const GAP: i64 = 2;
const BOX_HEIGHT: usize = 4;
const LONGEST_NAME: usize = 34;

#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// How wide a line may be.
    pub columns: usize,
    /// Only ASCII characters.
    pub ascii: bool,
    /// Every task, however many there are.
    pub all: bool,
}

/// The whole workflow, stage by stage.
pub fn text(workflow: &Workflow, style: Style) -> Vec<Line> {
    let mut lines = vec![heading(workflow, style)];
    for stage in Stage::ALL.iter().copied() {
        let range = workflow.stage(stage);
        if range.is_empty() {
            continue;
        }
        lines.push(Line::new());
        if stage != Stage::Main {
            lines.push(vec![(Ink::Title, title(stage).to_owned())]);
        }
        let boxes = if range.len() <= MOST_BOXES { boxes(workflow, stage, style) } else { None };
        lines.extend(boxes.unwrap_or_else(|| listing::list(workflow, stage, style)));
    }
    lines
}

fn heading(workflow: &Workflow, style: Style) -> Line {
    let dash = if style.ascii { "-" } else { "·" };
    let count = workflow.tasks.len();
    let tasks = if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") };
    let mut line = vec![(Ink::Title, shortened(&workflow.name, style.columns.saturating_sub(20).max(8)))];
    line.push((Ink::Plain, format!(" {dash} {tasks}")));
    line
}

/// A box as it will be drawn.
struct Label {
    name: String,
    below: String,
    has_marks: bool,
}

fn label(workflow: &Workflow, index: usize, style: Style) -> Label {
    let task = &workflow.tasks[index];
    let separator = if style.ascii { " - " } else { " · " };
    let marks = marks(task);
    let mut below = kind(task);
    for mark in &marks {
        below.push_str(separator);
        below.push_str(mark);
    }
    Label { name: shortened(&task.name, LONGEST_NAME), below, has_marks: !marks.is_empty() }
}

/// Boxes joined by edges; `None` if they do not fit or if edges could be mistaken for each other.
fn boxes(workflow: &Workflow, stage: Stage, style: Style) -> Option<Vec<Line>> {
    let layout = Layout::new(workflow, stage);
    let labels: Vec<Option<Label>> = layout
        .nodes
        .iter()
        .map(|node| match node {
            Node::Task(index) => Some(label(workflow, *index, style)),
            Node::Bend(_) => None,
        })
        .collect();
    let widths: Vec<i64> = labels
        .iter()
        .map(|label| match label {
            Some(label) => (label.name.chars().count().max(label.below.chars().count()) + 4) as i64,
            None => 1,
        })
        .collect();
    let left = layout.positions(&widths, GAP);
    let width = left.iter().zip(&widths).map(|(left, width)| left + width).max()?;
    if width > style.columns as i64 {
        return None;
    }
    let middle = |node: usize| left[node] + widths[node] / 2;
    let mut gaps = Vec::new();
    for layer in &layout.layers {
        let mut bundles: Vec<Bundle> = layer
            .iter()
            .filter(|node| !layout.below[**node].is_empty())
            .map(|node| Bundle::new(middle(*node), layout.below[*node].iter().map(|other| middle(*other)).collect()))
            .collect();
        let tracks = assign(&mut bundles)?;
        gaps.push((bundles, tracks));
    }
    // A gap is its tracks, a line before them, and one for the arrows.
    let gap_height = |tracks: usize| if tracks == 0 { 1 } else { tracks + 1 };
    let last = layout.layers.len() - 1;
    let height =
        layout.layers.len() * BOX_HEIGHT + gaps[..last].iter().map(|(_, tracks)| gap_height(*tracks)).sum::<usize>();
    let mut canvas = Canvas::new(width as usize, height, style.ascii);
    let mut top = 0;
    for (number, layer) in layout.layers.iter().enumerate() {
        for node in layer {
            let column = left[*node] as usize;
            match &labels[*node] {
                Some(label) => {
                    draw_box(&mut canvas, top, column, widths[*node] as usize, label);
                    if !layout.below[*node].is_empty() {
                        canvas.join(top + BOX_HEIGHT - 1, middle(*node) as usize, DOWN);
                    }
                }
                None => (top..top + BOX_HEIGHT).for_each(|row| canvas.join(row, column, UP | DOWN)),
            }
        }
        top += BOX_HEIGHT;
        if number < last {
            let (bundles, tracks) = &gaps[number];
            let rows = gap_height(*tracks);
            draw_gap(&mut canvas, top, rows, bundles);
            for node in layout.layers[number + 1].iter().filter(|node| labels[**node].is_some()) {
                canvas.arrow(top + rows - 1, middle(*node) as usize);
            }
            top += rows;
        }
    }
    Some(canvas.lines())
}

fn draw_box(canvas: &mut Canvas, top: usize, left: usize, width: usize, label: &Label) {
    canvas.frame(top, left, width, BOX_HEIGHT);
    canvas.write(top + 1, left + 2, &label.name, Ink::Name);
    canvas.write(top + 2, left + 2, &label.below, if label.has_marks { Ink::Mark } else { Ink::Kind });
}

/// First the vertical lines, then the horizontal ones over them: where they pass, the vertical one stays whole.
fn draw_gap(canvas: &mut Canvas, top: usize, rows: usize, bundles: &[Bundle]) {
    let bottom = top + rows;
    for bundle in bundles {
        let turn = bundle.track.map_or(bottom, |track| top + track);
        (top..turn).for_each(|row| canvas.join(row, bundle.from as usize, UP | DOWN));
        for column in &bundle.to {
            (turn + 1..bottom).for_each(|row| canvas.join(row, *column as usize, UP | DOWN));
        }
    }
    for bundle in bundles {
        let Some(track) = bundle.track else { continue };
        let row = top + track;
        let (left, right) = (bundle.left(), bundle.right());
        for column in left..=right {
            let mut directions = 0;
            directions |= if column > left { LEFT } else { 0 };
            directions |= if column < right { RIGHT } else { 0 };
            directions |= if column == bundle.from { UP } else { 0 };
            directions |= if bundle.to.contains(&column) { DOWN } else { 0 };
            let is_passing = directions & (UP | DOWN) == 0
                && bundles.iter().any(|other| other != bundle && passes(other, column, track));
            match is_passing {
                true => canvas.cross(row, column as usize),
                false => canvas.join(row, column as usize, directions),
            }
        }
    }
}

/// Whether a bundle has a vertical line in this column at this track.
fn passes(bundle: &Bundle, column: i64, track: usize) -> bool {
    match bundle.track {
        None => bundle.from == column,
        Some(own) => bundle.from == column && track < own || bundle.to.contains(&column) && track > own,
    }
}
