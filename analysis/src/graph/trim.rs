//! Which part of a graph is shown.

use super::{Change, Changes, Edge, Frames, Graph, Node, count, shown};
use crate::profile::Profile;
use std::cmp::{Ordering, Reverse};

/// How much of a graph is shown.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// At most so many nodes; 0 for all.
    pub nodes: usize,
    /// Leave out nodes with less than this share of the value.
    pub node_fraction: f64,
    /// Leave out edges with less than this share of the value.
    pub edge_fraction: f64,
    /// Leave out nodes whose value is below 0.
    pub drop_negative: bool,
    /// Of a comparison, leave out nodes if their difference is within noise.
    pub only_significant: bool,
    /// Order by the cumulative value, not by the flat one.
    pub by_cum: bool,
}

/// A graph in order, and what was left out.
#[derive(Debug, Default)]
pub struct Trimmed {
    /// What is left, in the order in which it is shown.
    pub graph: Graph,
    /// Nodes that have less than `node_cutoff`.
    pub dropped_nodes: usize,
    /// Edges that have less than `edge_cutoff`.
    pub dropped_edges: usize,
    /// Nodes left out since their value is below 0.
    pub negative_nodes: usize,
    /// Nodes left out since their difference is within noise.
    pub insignificant_nodes: usize,
    /// Nodes that were left before only so many were taken.
    pub nodes_before_count: usize,
    /// The least cumulative value of a node that is kept, but for 0.
    pub node_cutoff: i64,
    /// The least value of an edge that is kept, but for 0.
    pub edge_cutoff: i64,
}

impl Trim {
    /// All of it, by flat value.
    pub const ALL: Self = Self {
        nodes: 0,
        node_fraction: 0.0,
        edge_fraction: 0.0,
        drop_negative: false,
        only_significant: false,
        by_cum: false,
    };

    /// The nodes that are shown, without edges.
    pub fn values(&self, profile: &Profile) -> Trimmed {
        let graph = Graph::values(profile);
        let mut trimmed = self.sift(graph);
        self.take_in_order(&mut trimmed.graph.nodes);
        trimmed
    }

    /// The nodes that are shown, and the edges between them, heaviest first. Where nodes between two of them are left out,
    /// a residual edge connects those.
    pub fn calls(&self, profile: &Profile) -> Trimmed {
        let frames = Frames::new(profile);
        let mut trimmed = self.sift(Graph::of(profile, &frames, false));
        self.take_in_order(&mut trimmed.graph.nodes);
        trimmed.connect(profile, &frames);
        trimmed
    }

    /// The same for a picture: the nodes with the highest scores (see `Graph::scores`), without redundant edges. Of functions
    /// that only call each other, few are shown.
    pub fn picture(&self, profile: &Profile) -> Trimmed {
        let frames = Frames::new(profile);
        let mut trimmed = self.sift(Graph::of(profile, &frames, false));
        trimmed.graph.connect(profile, &frames);
        let scores = trimmed.graph.scores();
        let mut nodes: Vec<_> = scores.into_iter().zip(std::mem::take(&mut trimmed.graph.nodes)).collect();
        nodes.sort_by(|(one_score, one), (other_score, other)| {
            (Reverse(one_score.saturating_abs()).cmp(&Reverse(other_score.saturating_abs())))
                .then_with(|| one.place.cmp(&other.place))
        });
        self.truncate(&mut nodes);
        trimmed.graph.nodes = nodes.into_iter().map(|(_, node)| node).collect();
        trimmed.connect(profile, &frames);
        trimmed.drop_redundant_edges();
        trimmed
    }

    /// The change of the value that rows are ordered by.
    pub fn change(&self, changes: &Changes) -> Change {
        if self.by_cum { changes.cum } else { changes.flat }
    }

    /// Puts rows in order, and takes the first.
    fn take_in_order(&self, nodes: &mut Vec<Node>) {
        nodes.sort_by(|one, other| self.order(one, other));
        self.truncate(nodes);
    }

    fn truncate<T>(&self, nodes: &mut Vec<T>) {
        if self.nodes != 0 {
            nodes.truncate(self.nodes);
        }
    }

    /// Leaves out what is too light, or not wanted.
    fn sift(&self, graph: Graph) -> Trimmed {
        let mut trimmed = Trimmed { graph, ..Trimmed::default() };
        let nodes = &mut trimmed.graph.nodes;
        if self.drop_negative {
            let before = nodes.len();
            nodes.retain(|node| node.flat > 0 || (node.flat == 0 && node.cum >= 0));
            trimmed.negative_nodes = before - nodes.len();
        }
        if self.only_significant {
            let before = nodes.len();
            nodes.retain(|node| node.changes.is_none_or(|changes| self.change(&changes).is_significant()));
            trimmed.insignificant_nodes = before - nodes.len();
        }
        // Of a comparison it is the base's: the sum of differences may be next to nothing.
        let value = |node: &Node| node.changes.map_or(node.flat, |changes| changes.flat.old);
        let total = nodes.iter().fold(0_i64, |sum, node| sum.saturating_add(value(node)));
        trimmed.node_cutoff = share(total, self.node_fraction);
        trimmed.edge_cutoff = share(total, self.edge_fraction);
        let before = nodes.len();
        nodes.retain(|node| node.cum.saturating_abs() >= trimmed.node_cutoff);
        trimmed.dropped_nodes = before - nodes.len();
        trimmed.nodes_before_count = nodes.len();
        trimmed
    }

    /// The order of rows: the largest first, by the value that is asked for, then by the other, then by name. No two rows
    /// are equal.
    pub fn order(&self, one: &Node, other: &Node) -> Ordering {
        let key = |node: &Node| {
            let (flat, cum) = (node.flat.saturating_abs(), node.cum.saturating_abs());
            Reverse(if self.by_cum { (cum, flat) } else { (flat, cum) })
        };
        key(one).cmp(&key(other)).then_with(|| one.place.cmp(&other.place))
    }
}

impl Graph {
    /// Counts the edges between its nodes. Where others are between two of them, a residual edge connects those.
    fn connect(&mut self, profile: &Profile, frames: &Frames) {
        let mut kept = vec![false; frames.places.len()];
        let mut places = vec![usize::MAX; frames.places.len()];
        for (place, node) in self.nodes.iter().enumerate() {
            kept[node.number as usize] = true;
            places[node.number as usize] = place;
        }
        self.edges = count(profile, frames, &shown(profile), Some(&kept), true).edges;
        for edge in &mut self.edges {
            (edge.caller, edge.callee) = (places[edge.caller], places[edge.callee]);
        }
    }

    /// The information in each node: its cumulative value times the entropy of its edges, plus its flat value. The entropy is
    /// that of its callers' shares, plus that of the shares of its callees and itself; it is one bit if there are none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "an order, as pprof has it"
    )]
    fn scores(&self) -> Vec<i64> {
        let none = || vec![Vec::new(); self.nodes.len()];
        let (mut from_callers, mut from_callees) = (none(), none());
        for edge in &self.edges {
            from_callers[edge.callee].push(edge.value);
            from_callees[edge.caller].push(edge.value);
        }
        let of = |(place, node): (usize, &Node)| {
            let side = |edges: &[i64], own| if edges.is_empty() { 1.0 } else { entropy(edges, own) };
            let bits = side(&from_callers[place], 0) + side(&from_callees[place], node.flat);
            ((bits * node.cum as f64) as i64).saturating_add(node.flat)
        };
        self.nodes.iter().enumerate().map(of).collect()
    }
}

/// The entropy, in bits, of what edges have beside a node's own value.
#[expect(clippy::cast_precision_loss, reason = "an order, as pprof has it")]
fn entropy(edges: &[i64], own: i64) -> f64 {
    let values = || edges.iter().map(|&value| (value as f64).abs());
    let total = own as f64 + values().sum::<f64>();
    let bits =
        |value: f64| if value > 0.0 && total != 0.0 { -value / total * (value / total).log2() } else { 0.0 };
    values().map(bits).sum::<f64>() + bits(own as f64)
}

/// A share of the total, rounded down, as pprof has it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a share of an i64 fits one"
)]
fn share(total: i64, fraction: f64) -> i64 {
    ((total as f64 * fraction) as i64).saturating_abs()
}

impl Trimmed {
    /// Counts the edges between the nodes, and leaves out light ones. The rest are in order, the heaviest first.
    fn connect(&mut self, profile: &Profile, frames: &Frames) {
        self.graph.connect(profile, frames);
        let before = self.graph.edges.len();
        self.graph.edges.retain(|edge| edge.value.saturating_abs() >= self.edge_cutoff);
        self.dropped_edges = before - self.graph.edges.len();
        let name = |place: usize| &self.graph.nodes[place].place;
        self.graph.edges.sort_by(|one, other| {
            (Reverse(one.value.saturating_abs()).cmp(&Reverse(other.value.saturating_abs())))
                .then_with(|| name(one.caller).cmp(name(other.caller)))
                .then_with(|| name(one.callee).cmp(name(other.callee)))
        });
    }

    /// Drops residual edges where the callee is reached from the caller by others: they say nothing new, and clutter a
    /// picture. As in pprof, one that is heavier than a call that is no residual stays.
    fn drop_redundant_edges(&mut self) {
        let edges = &self.graph.edges;
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); self.graph.nodes.len()];
        for (place, edge) in edges.iter().enumerate() {
            callers[edge.callee].push(place);
        }
        let mut is_dropped = vec![false; edges.len()];
        for callee in (0..self.graph.nodes.len()).rev() {
            // Lightest first; edges stand heaviest first.
            for &place in callers[callee].iter().rev().take_while(|&&place| edges[place].is_residual) {
                is_dropped[place] = is_reached_otherwise(edges, &callers, &is_dropped, place);
            }
        }
        let mut is_dropped = is_dropped.into_iter();
        self.graph.edges.retain(|_| is_dropped.next() != Some(true));
    }
}

/// Whether there is a way from the caller of an edge to its callee without it.
fn is_reached_otherwise(edges: &[Edge], callers: &[Vec<usize>], is_dropped: &[bool], without: usize) -> bool {
    let (from, to) = (edges[without].caller, edges[without].callee);
    let mut is_seen = vec![false; callers.len()];
    let mut open = vec![to];
    while let Some(callee) = open.pop() {
        for &place in callers[callee].iter().filter(|&&place| place != without && !is_dropped[place]) {
            let caller = edges[place].caller;
            if caller == from {
                return true;
            }
            if !std::mem::replace(&mut is_seen[caller], true) {
                open.push(caller);
            }
        }
    }
    false
}
