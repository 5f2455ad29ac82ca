//! Values by function (or line, file, address, as the profile has been [made coarse](crate::granularity)), and which calls
//! which.
//!
//! The work is linear in the frames of all samples: what a sample has met already is told by its number, left in the node or
//! edge, and not by a set.

mod frames;
mod place;
mod trim;

pub use place::Place;
pub use trim::{Trim, Trimmed};

pub(crate) use frames::Frames;

use crate::profile::Profile;
use std::collections::HashMap;

/// A row of a report.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it stands for.
    pub place: Place,
    /// The value of the samples that it is innermost in.
    pub flat: i64,
    /// The value of the samples that it is anywhere in, each counted once.
    pub cum: i64,
    /// Whether its code stands inside its callers'.
    pub inlined: Inlined,
    /// Its number in [`Frames`].
    pub(crate) number: u32,
}

/// Whether a function was called, or its code stands inside its callers'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inlined {
    /// Always called.
    #[default]
    Never,
    /// Here and there.
    Partly,
    /// In all samples.
    Always,
}

/// One node above another in samples.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Place of the caller in [`Graph::nodes`].
    pub caller: usize,
    /// Place of the function called.
    pub callee: usize,
    /// The value of the samples in which the one calls the other, each counted once.
    pub value: i64,
    /// Between them are functions that are not shown.
    pub is_residual: bool,
    /// In all samples the callee's code stands inside the caller's.
    pub is_inlined: bool,
}

/// The nodes, and the edges where they were asked for.
#[derive(Debug, Default)]
pub struct Graph {
    /// All nodes that a sample has, in no order that means anything.
    pub nodes: Vec<Node>,
    /// All edges; those of a function to itself are left out.
    pub edges: Vec<Edge>,
    /// The value of samples that have no call chain at all, which are in no node.
    pub without_chain: i64,
}

/// The parts of a graph that are counted while samples are gone through.
struct Counts {
    flat: Vec<i64>,
    cum: Vec<i64>,
    /// The last sample that added to `cum`, counted from 1.
    seen: Vec<u32>,
    edges: Vec<Edge>,
    edge_seen: Vec<u32>,
    edge_places: HashMap<(u32, u32), u32>,
    without_chain: i64,
}

impl Graph {
    /// Values of the sample type that reports show, without edges.
    pub fn values(profile: &Profile) -> Self {
        let frames = Frames::new(profile);
        count(profile, &frames, None, false).into_graph(profile, &frames)
    }

    /// Values and edges of the sample type that reports show.
    pub fn calls(profile: &Profile) -> Self {
        let frames = Frames::new(profile);
        count(profile, &frames, None, true).into_graph(profile, &frames)
    }
}

/// Goes through the samples. `kept` tells the nodes that there are; frames of others are passed over.
fn count(profile: &Profile, frames: &Frames, kept: Option<&[bool]>, with_edges: bool) -> Counts {
    let nodes = frames.places.len();
    let mut counts = Counts {
        flat: vec![0; nodes],
        cum: vec![0; nodes],
        seen: vec![0; nodes],
        edges: Vec::new(),
        edge_seen: Vec::new(),
        edge_places: HashMap::new(),
        without_chain: 0,
    };
    let sample_type = profile.default_type;
    // Counted from 1, since 0 marks what no sample has met. After 2^32 samples numbers come again, far apart.
    let mut number = 0_u32;
    for sample in profile.samples.iter() {
        let value = sample.values[sample_type];
        if value == 0 {
            continue;
        }
        number = number.checked_add(1).unwrap_or(1);
        if sample.chain.is_empty() {
            counts.without_chain = counts.without_chain.saturating_add(value);
        }
        if with_edges {
            counts.add_chain(sample.chain.iter().map(|&id| frames.of(id)), kept, value, number);
            continue;
        }
        for &location in sample.chain {
            for &node in frames.of(location) {
                let node = node as usize;
                if counts.seen[node] != number {
                    counts.seen[node] = number;
                    counts.cum[node] = counts.cum[node].saturating_add(value);
                }
            }
        }
        if let Some(&location) = sample.chain.first() {
            let innermost = frames.of(location)[0] as usize;
            counts.flat[innermost] = counts.flat[innermost].saturating_add(value);
        }
    }
    counts
}

impl Counts {
    /// Adds the value of one sample to its nodes and edges, from the outermost frame inwards.
    fn add_chain<'a>(
        &mut self,
        chain: impl DoubleEndedIterator<Item = &'a [u32]>,
        kept: Option<&[bool]>,
        value: i64,
        number: u32,
    ) {
        let mut caller: Option<u32> = None;
        let mut is_residual = false;
        for nodes in chain.rev() {
            for (depth, &node) in nodes.iter().enumerate().rev() {
                if kept.is_some_and(|kept| !kept[node as usize]) {
                    is_residual = true;
                    continue;
                }
                let place = node as usize;
                if self.seen[place] != number {
                    self.seen[place] = number;
                    self.cum[place] = self.cum[place].saturating_add(value);
                }
                if let Some(caller) = caller.filter(|&caller| caller != node) {
                    self.add_edge(caller, node, value, number, is_residual, depth + 1 != nodes.len());
                }
                caller = Some(node);
                is_residual = false;
            }
        }
        if let Some(innermost) = caller.filter(|_| !is_residual) {
            let flat = &mut self.flat[innermost as usize];
            *flat = flat.saturating_add(value);
        }
    }

    fn add_edge(&mut self, caller: u32, callee: u32, value: i64, number: u32, residual: bool, inlined: bool) {
        let place = *self.edge_places.entry((caller, callee)).or_insert_with(|| {
            let (caller, callee) = (caller as usize, callee as usize);
            self.edges.push(Edge { caller, callee, value: 0, is_residual: false, is_inlined: true });
            self.edge_seen.push(0);
            u32::try_from(self.edges.len() - 1).expect("fewer edges than frames in memory")
        }) as usize;
        let edge = &mut self.edges[place];
        if self.edge_seen[place] != number {
            self.edge_seen[place] = number;
            edge.value = edge.value.saturating_add(value);
        }
        edge.is_residual |= residual;
        edge.is_inlined &= inlined;
    }

    /// The graph, without nodes that no sample has, or whose samples make up for each other.
    fn into_graph(self, profile: &Profile, frames: &Frames) -> Graph {
        let inlined = inlined(profile, frames);
        let mut graph = Graph { without_chain: self.without_chain, ..Graph::default() };
        let mut moved = vec![usize::MAX; frames.places.len()];
        for (node, place) in frames.places.iter().enumerate() {
            let (flat, cum) = (self.flat[node], self.cum[node]);
            if flat != 0 || cum != 0 {
                moved[node] = graph.nodes.len();
                let number = u32::try_from(node).expect("nodes are numbered in 32 bits");
                graph.nodes.push(Node { place: place.clone(), flat, cum, inlined: inlined[node], number });
            }
        }
        graph.edges = self.edges;
        graph.edges.retain_mut(|edge| {
            (edge.caller, edge.callee) = (moved[edge.caller], moved[edge.callee]);
            edge.caller != usize::MAX && edge.callee != usize::MAX
        });
        graph
    }
}

/// For each node whether it is inlined in the locations that a sample has.
fn inlined(profile: &Profile, frames: &Frames) -> Vec<Inlined> {
    let mut is_used = vec![false; profile.locations.len()];
    for sample in profile.samples.iter() {
        for &location in sample.chain {
            is_used[location.index()] = true;
        }
    }
    let mut met: Vec<Option<Inlined>> = vec![None; frames.places.len()];
    for (place, _) in is_used.iter().enumerate().filter(|&(_, is_used)| *is_used) {
        let nodes = frames.of(crate::profile::LocationId::at(place));
        for (depth, &node) in nodes.iter().enumerate() {
            let here = if depth + 1 == nodes.len() { Inlined::Never } else { Inlined::Always };
            let met = &mut met[node as usize];
            *met = Some(if met.is_some_and(|met| met != here) { Inlined::Partly } else { here });
        }
    }
    met.into_iter().map(Option::unwrap_or_default).collect()
}
