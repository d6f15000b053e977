//! Which task stands in which layer, in which order, and how far from the left.
//!
//! Layers follow the longest path. An edge over several layers is carried by bends, one per layer and source, so
//! that it is drawn around what lies between. The order within a layer follows the mean of the neighbours; the
//! positions are the nearest ones to the neighbours' middles that keep the order and the gaps.

use crate::Workflow;
use crate::dag;
use crate::workflow::Stage;

/// More bends than this are not drawn: such a picture is read by its layers.
const MAX_BENDS: usize = 200_000;
const SWEEPS: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// An index of the workflow's tasks.
    Task(usize),
    /// Carries the edges of this task past a layer.
    Bend(usize),
}

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) nodes: Vec<Node>,
    /// Nodes by layer, from left to right.
    pub(super) layers: Vec<Vec<usize>>,
    /// For every node the nodes of the next layer it leads to.
    pub(super) below: Vec<Vec<usize>>,
    above: Vec<Vec<usize>>,
}

/// The tasks of a stage by layer, in the order written.
pub(super) fn layers(workflow: &Workflow, stage: Stage) -> Vec<Vec<usize>> {
    let range = workflow.stage(stage);
    let first = range.start;
    let count = range.len();
    let needs: Vec<Vec<i32>> =
        range.map(|index| workflow.tasks[index].needs.iter().map(|need| need - first as i32).collect()).collect();
    let order = dag::order(|node| &needs[node], &dag::dependents(count, |node| &needs[node]));
    let depth = order.levels.iter().max().map_or(0, |deepest| *deepest as usize + 1);
    let mut layers = vec![Vec::new(); depth];
    for (node, level) in order.levels.iter().enumerate() {
        layers[*level as usize].push(first + node);
    }
    layers
}

impl Layout {
    pub(super) fn new(workflow: &Workflow, stage: Stage) -> Self {
        let by_layer = layers(workflow, stage);
        let first = workflow.stage(stage).start;
        let mut nodes = Vec::new();
        let mut level = Vec::new();
        for index in workflow.stage(stage) {
            nodes.push(Node::Task(index));
            level.push(0);
        }
        for (number, layer) in by_layer.iter().enumerate() {
            for index in layer {
                level[index - first] = number;
            }
        }
        let mut layout = Self {
            layers: by_layer.iter().map(|layer| layer.iter().map(|index| index - first).collect()).collect(),
            below: vec![Vec::new(); nodes.len()],
            above: vec![Vec::new(); nodes.len()],
            nodes,
        };
        layout.connect(workflow, first, &level);
        layout.arrange();
        layout
    }

    fn connect(&mut self, workflow: &Workflow, first: usize, level: &[usize]) {
        let count = level.len();
        let spans: usize = (0..count)
            .map(|node| {
                let dependents = &workflow.tasks[first + node].dependents;
                dependents.iter().map(|other| level[*other as usize - first] - level[node] - 1).max().unwrap_or(0)
            })
            .sum();
        for node in 0..count {
            let mut carriers = vec![node];
            let mut dependents: Vec<usize> =
                workflow.tasks[first + node].dependents.iter().map(|other| *other as usize - first).collect();
            dependents.sort_by_key(|other| level[*other]);
            for other in dependents {
                let span = level[other] - level[node] - 1;
                while carriers.len() <= span && spans <= MAX_BENDS {
                    let bend = self.nodes.len();
                    self.nodes.push(Node::Bend(first + node));
                    self.below.push(Vec::new());
                    self.above.push(Vec::new());
                    self.layers[level[node] + carriers.len()].push(bend);
                    self.join(carriers[carriers.len() - 1], bend);
                    carriers.push(bend);
                }
                if let Some(carrier) = carriers.get(span) {
                    self.join(*carrier, other);
                }
            }
        }
    }

    fn join(&mut self, from: usize, to: usize) {
        self.below[from].push(to);
        self.above[to].push(from);
    }

    /// Orders each layer by the mean place of its neighbours, downwards and upwards in turn; keeps the best.
    fn arrange(&mut self) {
        let edges: usize = self.below.iter().map(Vec::len).sum();
        let sweeps = if edges > 50_000 { 2 } else { SWEEPS };
        let mut best = (self.crossings(), self.layers.clone());
        let mut place = vec![0.0_f64; self.nodes.len()];
        self.note_places(&mut place);
        for sweep in 0..sweeps {
            if best.0 == 0 {
                break;
            }
            let down = sweep % 2 == 0;
            for step in 1..self.layers.len() {
                let layer = if down { step } else { self.layers.len() - 1 - step };
                let neighbours = if down { &self.above } else { &self.below };
                let mean = |node: usize| match neighbours[node].len() {
                    0 => place[node],
                    count => neighbours[node].iter().map(|other| place[*other]).sum::<f64>() / count as f64,
                };
                let mut keyed: Vec<(f64, usize)> = self.layers[layer].iter().map(|node| (mean(*node), *node)).collect();
                keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
                self.layers[layer] = keyed.into_iter().map(|(_, node)| node).collect();
                for (number, node) in self.layers[layer].iter().enumerate() {
                    place[*node] = number as f64;
                }
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    fn note_places(&self, place: &mut [f64]) {
        for layer in &self.layers {
            for (number, node) in layer.iter().enumerate() {
                place[*node] = number as f64;
            }
        }
    }

    /// Pairs of edges that cross, counted by a sum over a tree of counts.
    fn crossings(&self) -> u64 {
        let mut place = vec![0_usize; self.nodes.len()];
        for layer in &self.layers {
            for (number, node) in layer.iter().enumerate() {
                place[*node] = number;
            }
        }
        let mut total = 0;
        for layer in &self.layers {
            let mut ends: Vec<usize> = Vec::new();
            for node in layer {
                let mut targets: Vec<usize> = self.below[*node].iter().map(|other| place[*other]).collect();
                targets.sort_unstable();
                ends.extend(targets);
            }
            let width = ends.iter().max().map_or(0, |most| most + 1);
            let mut tree = vec![0_u64; width + 1];
            for (seen, end) in ends.iter().enumerate() {
                let mut not_right = 0;
                let mut at = end + 1;
                while at > 0 {
                    not_right += tree[at];
                    at &= at - 1;
                }
                total += seen as u64 - not_right;
                let mut at = end + 1;
                while at <= width {
                    tree[at] += 1;
                    at += at & at.wrapping_neg();
                }
            }
        }
        total
    }

    /// The left edge of every node, the leftmost at 0, for nodes of these widths with `gap` between two.
    pub(super) fn positions(&self, widths: &[i64], gap: i64) -> Vec<i64> {
        let mut left = vec![0.0_f64; self.nodes.len()];
        for layer in &self.layers {
            let mut at = 0;
            for node in layer {
                left[*node] = at as f64;
                at += widths[*node] + gap;
            }
        }
        for sweep in 0..8 {
            let down = sweep % 2 == 0;
            for step in 0..self.layers.len() {
                let layer = if down { step } else { self.layers.len() - 1 - step };
                let neighbours = if down { &self.above } else { &self.below };
                self.place_layer(layer, neighbours, widths, gap, &mut left);
            }
        }
        let least = left.iter().copied().fold(f64::INFINITY, f64::min);
        left.iter().map(|x| (x - least).round() as i64).collect()
    }

    /// The nearest positions to what each node of a layer wishes that keep order and gaps: pools of neighbours that
    /// would overlap share the mean of their wishes.
    fn place_layer(&self, layer: usize, neighbours: &[Vec<usize>], widths: &[i64], gap: i64, left: &mut [f64]) {
        let mut pools: Vec<(f64, f64, usize)> = Vec::new();
        let mut offset = 0_i64;
        let mut offsets = Vec::with_capacity(self.layers[layer].len());
        for node in &self.layers[layer] {
            let middle = |other: usize| left[other] + (widths[other] / 2) as f64;
            let wish = match neighbours[*node].len() {
                0 => left[*node],
                count => {
                    neighbours[*node].iter().map(|other| middle(*other)).sum::<f64>() / count as f64
                        - (widths[*node] / 2) as f64
                }
            };
            offsets.push(offset);
            // A straight line through the layers is worth more than a box in the middle.
            let weight = if matches!(self.nodes[*node], Node::Bend(_)) { 4.0 } else { 1.0 };
            pools.push((wish - offset as f64, weight, 1));
            while let [.., one, other] = pools.as_slice() {
                if one.0 <= other.0 {
                    break;
                }
                let weight = one.1 + other.1;
                let merged = ((one.0 * one.1 + other.0 * other.1) / weight, weight, one.2 + other.2);
                pools.truncate(pools.len() - 2);
                pools.push(merged);
            }
            offset += widths[*node] + gap;
        }
        let bases = pools.iter().flat_map(|(base, _, count)| std::iter::repeat_n(base.round(), *count));
        for ((node, base), offset) in self.layers[layer].iter().zip(bases).zip(offsets) {
            left[*node] = base + offset as f64;
        }
    }
}
