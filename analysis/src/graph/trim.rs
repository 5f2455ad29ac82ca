//! Selection of the part of a graph to show.

use super::{Change, Changes, Edge, Frames, Graph, Node, count, shown};
use crate::profile::Profile;
use std::cmp::{Ordering, Reverse};

/// Limits of the part to show.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// Maximum number of nodes; 0 for all.
    pub nodes: usize,
    /// Hide nodes with a smaller share of the value.
    pub node_fraction: f64,
    /// Hide edges with a smaller share of the value.
    pub edge_fraction: f64,
    /// Hide nodes with a negative value.
    pub drop_negative: bool,
    /// In a comparison, hide nodes with a difference within noise.
    pub only_significant: bool,
    /// Order by the cumulative value instead of the flat one.
    pub by_cum: bool,
}

/// A sorted part of a graph, and counts of hidden items.
#[derive(Debug, Default)]
pub struct Trimmed {
    /// The remaining nodes and edges, in order.
    pub graph: Graph,
    /// Number of nodes below `node_cutoff`.
    pub dropped_nodes: usize,
    /// Number of edges below `edge_cutoff`.
    pub dropped_edges: usize,
    /// Number of nodes hidden for a negative value.
    pub negative_nodes: usize,
    /// Number of nodes hidden for a difference within noise.
    pub insignificant_nodes: usize,
    /// Number of nodes before the limit [`Trim::nodes`] was applied.
    pub nodes_before_count: usize,
    /// The least cumulative value of a shown node, except 0.
    pub node_cutoff: i64,
    /// The least value of a shown edge, except 0.
    pub edge_cutoff: i64,
}

impl Trim {
    /// No limits, ordered by flat value.
    pub const ALL: Self = Self {
        nodes: 0,
        node_fraction: 0.0,
        edge_fraction: 0.0,
        drop_negative: false,
        only_significant: false,
        by_cum: false,
    };

    /// Returns the nodes to show, without edges.
    pub fn values(&self, profile: &Profile) -> Trimmed {
        let graph = Graph::values(profile);
        let mut trimmed = self.sift(graph);
        self.take_in_order(&mut trimmed.graph.nodes);
        trimmed
    }

    /// Returns the nodes to show and their edges, heaviest first; residual edges skip hidden nodes.
    pub fn calls(&self, profile: &Profile) -> Trimmed {
        let frames = Frames::new(profile);
        let mut trimmed = self.sift(Graph::of(profile, &frames, false));
        self.take_in_order(&mut trimmed.graph.nodes);
        trimmed.connect(profile, &frames);
        trimmed
    }

    /// As [`calls`](Self::calls), for a picture: the nodes with the highest scores (see
    /// `Graph::scores`), without redundant edges.
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

    /// Returns the change of the value that rows are ordered by.
    pub fn change(&self, changes: &Changes) -> Change {
        if self.by_cum { changes.cum } else { changes.flat }
    }

    fn take_in_order(&self, nodes: &mut Vec<Node>) {
        nodes.sort_by(|one, other| self.order(one, other));
        self.truncate(nodes);
    }

    fn truncate<T>(&self, nodes: &mut Vec<T>) {
        if self.nodes != 0 {
            nodes.truncate(self.nodes);
        }
    }

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
        // The base's value in a comparison: the sum of differences may be near zero.
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

    /// Compares rows by the chosen value, largest first, then the other, then name: never equal.
    pub fn order(&self, one: &Node, other: &Node) -> Ordering {
        let key = |node: &Node| {
            let (flat, cum) = (node.flat.saturating_abs(), node.cum.saturating_abs());
            Reverse(if self.by_cum { (cum, flat) } else { (flat, cum) })
        };
        key(one).cmp(&key(other)).then_with(|| one.place.cmp(&other.place))
    }
}

impl Graph {
    /// Counts the edges between the nodes; a residual edge replaces a path through hidden nodes.
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

    /// Computes scores: cumulative value times entropy, plus flat value. The entropy is that of the
    /// callers' shares plus that of the shares of callees and the node; one bit without edges.
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

/// Returns the entropy, in bits, of the values of edges and a node's own value.
#[expect(clippy::cast_precision_loss, reason = "an order, as pprof has it")]
fn entropy(edges: &[i64], own: i64) -> f64 {
    let values = || edges.iter().map(|&value| (value as f64).abs());
    let total = own as f64 + values().sum::<f64>();
    let bits =
        |value: f64| if value > 0.0 && total != 0.0 { -value / total * (value / total).log2() } else { 0.0 };
    values().map(bits).sum::<f64>() + bits(own as f64)
}

/// Returns a share of the total, rounded down, as in pprof.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a share of an i64 fits one"
)]
fn share(total: i64, fraction: f64) -> i64 {
    ((total as f64 * fraction) as i64).saturating_abs()
}

impl Trimmed {
    /// Counts the edges between the nodes, hides light ones, and sorts the others, heaviest first.
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

    /// Drops residual edges beside another path, as pprof does, unless heavier than a direct call.
    fn drop_redundant_edges(&mut self) {
        let edges = &self.graph.edges;
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); self.graph.nodes.len()];
        for (place, edge) in edges.iter().enumerate() {
            callers[edge.callee].push(place);
        }
        let mut is_dropped = vec![false; edges.len()];
        for callee in (0..self.graph.nodes.len()).rev() {
            // Lightest first: edges are sorted heaviest first.
            for &place in callers[callee].iter().rev().take_while(|&&place| edges[place].is_residual) {
                is_dropped[place] = is_reached_otherwise(edges, &callers, &is_dropped, place);
            }
        }
        let mut is_dropped = is_dropped.into_iter();
        self.graph.edges.retain(|_| is_dropped.next() != Some(true));
    }
}

/// Whether another path leads from the caller of an edge to its callee.
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
