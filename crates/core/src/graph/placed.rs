//! Where everything of a workflow's picture lies, for programs that draw it themselves.

use crate::Workflow;
use crate::workflow::Stage;

use super::layout::{Layout, Node};

const BOX_HEIGHT: i64 = 40;
const LAYER: i64 = 84;
const GAP: i64 = 20;
const STAGE_GAP: i64 = 56;
const LETTER: i64 = 8;
/// The mark and the margins beside a name.
const BESIDE_NAME: i64 = 46;
const NARROWEST: i64 = 136;
const WIDEST: i64 = 240;
/// A bend is a point with room around it.
const BEND: i64 = 8;

/// A picture by numbers. Lengths are pixels at the usual size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Left edge, top edge and width of each task, in the order of the workflow.
    pub boxes: Vec<(i64, i64, i64)>,
    pub edges: Vec<PlacedEdge>,
    /// Height of every box.
    pub height: i64,
    /// Width and height of the whole.
    pub size: (i64, i64),
}

/// A dependency, and the points that it passes between the two boxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedEdge {
    pub from: usize,
    pub to: usize,
    pub bends: Vec<(i64, i64)>,
}

/// Lays a workflow out: its stages below each other, each from its first layer downwards.
pub fn placed(workflow: &Workflow) -> Placed {
    let mut picture =
        Placed { boxes: vec![(0, 0, 0); workflow.tasks.len()], edges: Vec::new(), height: BOX_HEIGHT, size: (0, 0) };
    let mut top = 0;
    for stage in Stage::ALL.iter().copied() {
        if workflow.stage(stage).is_empty() {
            continue;
        }
        if top > 0 {
            top += STAGE_GAP;
        }
        top = place_stage(workflow, stage, top, &mut picture);
    }
    picture.size.1 = top;
    picture
}

/// Places one stage below `top`; where it ends.
fn place_stage(workflow: &Workflow, stage: Stage, top: i64, picture: &mut Placed) -> i64 {
    let layout = Layout::new(workflow, stage);
    let widths: Vec<i64> = layout.nodes.iter().map(|node| width(workflow, *node)).collect();
    let left = layout.positions(&widths, GAP);
    let mut layer_of = vec![0_i64; layout.nodes.len()];
    for (number, layer) in layout.layers.iter().enumerate() {
        for node in layer {
            layer_of[*node] = number as i64;
        }
    }
    for (number, node) in layout.nodes.iter().enumerate() {
        let y = top + layer_of[number] * LAYER;
        picture.size.0 = picture.size.0.max(left[number] + widths[number]);
        match node {
            Node::Task(index) => picture.boxes[*index] = (left[number], y, widths[number]),
            Node::Bend(_) => {}
        }
    }
    let middle = |node: usize| (left[node] + widths[node] / 2, top + layer_of[node] * LAYER + BOX_HEIGHT / 2);
    for (number, node) in layout.nodes.iter().enumerate() {
        if let Node::Task(from) = node {
            follow(&layout, number, *from, &mut Vec::new(), &middle, &mut picture.edges);
        }
    }
    top + (layout.layers.len() as i64 - 1) * LAYER + BOX_HEIGHT
}

/// The edges that leave a node, through the bends that carry them.
fn follow(
    layout: &Layout,
    start: usize,
    from: usize,
    bends: &mut Vec<(i64, i64)>,
    middle: &dyn Fn(usize) -> (i64, i64),
    edges: &mut Vec<PlacedEdge>,
) {
    // Bends form a chain per task, so this walks without recursion: at each carrier, tasks end an edge.
    let mut at = start;
    loop {
        let mut next = None;
        for other in &layout.below[at] {
            match layout.nodes[*other] {
                Node::Task(to) => edges.push(PlacedEdge { from, to, bends: bends.clone() }),
                Node::Bend(_) => next = Some(*other),
            }
        }
        let Some(bend) = next else { break };
        bends.push(middle(bend));
        at = bend;
    }
}

fn width(workflow: &Workflow, node: Node) -> i64 {
    match node {
        Node::Task(index) => {
            let letters = workflow.tasks[index].name.chars().count() as i64;
            (letters * LETTER + BESIDE_NAME).clamp(NARROWEST, WIDEST)
        }
        Node::Bend(_) => BEND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_do_not_overlap_and_every_dependency_is_an_edge() {
        let text = "name: w\ntasks:\n  a: {run: echo}\n  b: {run: echo, needs: a}\n  c: {run: echo, needs: a}\n  d: {run: echo, needs: [b, c, a]}\n";
        let workflow = crate::parse(text).unwrap();
        let picture = placed(&workflow);
        let needs: usize = workflow.tasks.iter().map(|task| task.needs.len()).sum();
        assert_eq!(picture.edges.len(), needs);
        for (one, first) in picture.boxes.iter().enumerate() {
            for second in &picture.boxes[one + 1..] {
                let apart = first.1 != second.1 || first.0 + first.2 <= second.0 || second.0 + second.2 <= first.0;
                assert!(apart, "{first:?} {second:?}");
            }
        }
        let long = picture.edges.iter().find(|edge| edge.from == 0 && edge.to == 3).unwrap();
        assert_eq!(long.bends.len(), 1, "it passes the layer of b and c");
    }
}
