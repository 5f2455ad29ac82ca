//! The call graph, and values by function (or by another [granularity](crate::granularity)).
//!
//! The work is linear in the frames of all samples: a node or edge stores the number of the last
//! sample that was added, so no set of visited nodes is needed.

mod calls;
mod change;
mod frames;
mod place;
mod trim;

pub use calls::{Call, CallTree};
pub use change::{Change, Changes, Sides};
pub use place::Place;
pub use trim::{Trim, Trimmed};

pub(crate) use frames::Frames;
pub(crate) use place::clean_path;

use crate::profile::{Profile, SampleRef};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// A node of the graph, or a row of a report.
#[derive(Clone, Debug)]
pub struct Node {
    /// The function, line, file or address.
    pub place: Place,
    /// The value of samples with this innermost frame.
    pub flat: i64,
    /// The value of samples that contain it, each counted once.
    pub cum: i64,
    /// Whether it is inlined into its callers.
    pub inlined: Inlined,
    /// Its values on both sides; None if the profile is not a comparison.
    pub changes: Option<Changes>,
    pub(crate) number: u32,
}

/// Whether a function is inlined into its callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inlined {
    /// Not sampled.
    #[default]
    Never,
    /// In some samples.
    Partly,
    /// In all samples.
    Always,
}

/// A call between two nodes.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Index of the caller in [`Graph::nodes`].
    pub caller: usize,
    /// Index of the callee.
    pub callee: usize,
    /// The value of samples with this call, each counted once.
    pub value: i64,
    /// Hidden functions lie between caller and callee.
    pub is_residual: bool,
    /// The callee is inlined into the caller in all samples.
    pub is_inlined: bool,
}

/// Nodes, and edges if requested.
#[derive(Debug, Default)]
pub struct Graph {
    /// All nodes with samples, in no particular order.
    pub nodes: Vec<Node>,
    /// All edges, except of a function to itself.
    pub edges: Vec<Edge>,
    /// The value of samples without a call stack, which are in no node.
    pub without_chain: i64,
}

/// Values collected while iterating over samples.
struct NodeValues {
    flat: Vec<i64>,
    cum: Vec<i64>,
    /// Number of the last sample added to `cum`, from 1.
    seen: Vec<u32>,
    edges: Vec<Edge>,
    edge_seen: Vec<u32>,
    edge_places: HashMap<(u32, u32), u32, RandomState>,
    without_chain: i64,
}

impl Graph {
    /// Computes the values of the default sample type, without edges.
    pub fn values(profile: &Profile) -> Self {
        let frames = Frames::new(profile);
        Self::of(profile, &frames, false)
    }

    /// Computes values and edges of the default sample type.
    pub fn calls(profile: &Profile) -> Self {
        let frames = Frames::new(profile);
        Self::of(profile, &frames, true)
    }

    fn of(profile: &Profile, frames: &Frames, with_edges: bool) -> Self {
        let count = |value: &dyn Fn(SampleRef<'_>) -> i64, with_edges| {
            count(profile, frames, value, None, with_edges)
        };
        let counts = count(&shown(profile), with_edges);
        let sides = Sides::of(profile).map(|sides| {
            let [old, variance] =
                [count(&|sample| sides.old(sample), false), count(&|sample| sides.variance(sample), false)];
            (sides, old, variance)
        });
        counts.into_graph(profile, frames, |node, flat, cum| {
            sides.as_ref().map(|(sides, old, variance)| Changes {
                flat: sides.change(flat, old.flat[node], variance.flat[node]),
                cum: sides.change(cum, old.cum[node], variance.cum[node]),
            })
        })
    }
}

fn shown(profile: &Profile) -> impl Fn(SampleRef<'_>) -> i64 {
    let sample_type = profile.default_type;
    move |sample| sample.values[sample_type]
}

/// Adds up `value` of all samples. Frames of nodes that are not `kept` are skipped.
fn count(
    profile: &Profile,
    frames: &Frames,
    value: &dyn Fn(SampleRef<'_>) -> i64,
    kept: Option<&[bool]>,
    with_edges: bool,
) -> NodeValues {
    let nodes = frames.places.len();
    let mut counts = NodeValues {
        flat: vec![0; nodes],
        cum: vec![0; nodes],
        seen: vec![0; nodes],
        edges: Vec::new(),
        edge_seen: Vec::new(),
        edge_places: HashMap::default(),
        without_chain: 0,
    };
    // From 1, because 0 marks nodes without samples. Numbers repeat after 2^32 samples, far apart.
    let mut number = 0_u32;
    for sample in profile.samples.iter() {
        let value = value(sample);
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

impl NodeValues {
    /// Adds the value of one sample to its nodes and edges, from the outermost frame.
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

    /// Builds the graph of nodes with a value; in a comparison, with a value on either side.
    fn into_graph(
        self,
        profile: &Profile,
        frames: &Frames,
        changes: impl Fn(usize, i64, i64) -> Option<Changes>,
    ) -> Graph {
        let inlined = inlined(profile, frames);
        let mut graph = Graph { without_chain: self.without_chain, ..Graph::default() };
        let mut moved = vec![usize::MAX; frames.places.len()];
        for (node, place) in frames.places.iter().enumerate() {
            let (flat, cum) = (self.flat[node], self.cum[node]);
            let changes = changes(node, flat, cum);
            if flat != 0 || cum != 0 || changes.is_some_and(|changes| changes.cum.old != 0) {
                moved[node] = graph.nodes.len();
                let number = u32::try_from(node).expect("nodes are numbered in 32 bits");
                let (place, inlined) = (place.clone(), inlined[node]);
                graph.nodes.push(Node { place, flat, cum, inlined, changes, number });
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

/// Returns for each node whether it is inlined in the sampled locations.
fn inlined(profile: &Profile, frames: &Frames) -> Vec<Inlined> {
    let mut is_used = vec![false; profile.locations.len()];
    for sample in profile.samples.iter() {
        for &location in sample.chain {
            is_used[location.index()] = true;
        }
    }
    let mut inlined: Vec<Option<Inlined>> = vec![None; frames.places.len()];
    for (place, _) in is_used.iter().enumerate().filter(|&(_, is_used)| *is_used) {
        let nodes = frames.of(crate::profile::LocationId::at(place));
        for (depth, &node) in nodes.iter().enumerate() {
            // An inlined function with its caller's name is the same (libc aliases).
            if nodes.get(depth + 1) == Some(&node) {
                continue;
            }
            let here = if depth + 1 == nodes.len() { Inlined::Never } else { Inlined::Always };
            let present = &mut inlined[node as usize];
            *present = Some(if present.is_some_and(|other| other != here) { Inlined::Partly } else { here });
        }
    }
    inlined.into_iter().map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::profile::{Builder, Function, LabelSetId, Line, Location, LocationId};

    /// A profile of functions named by letters. An upper-case function is inlined into its
    /// lower-case one. Call stacks have the innermost frame first.
    pub(crate) fn profile(samples: &[(&str, i64)]) -> Profile {
        let mut builder = Builder::new(Profile::cpu_types());
        for name in 'a'..='h' {
            let mut line = |name: char| {
                let name: std::sync::Arc<str> = name.to_string().into();
                let system_name = name.clone();
                let function =
                    builder.function(Function { name, system_name, file: "".into(), start_line: 0 });
                Line { function, line: 0, column: 0 }
            };
            let (plain, inlined) = (line(name), line(name.to_ascii_uppercase()));
            for lines in [vec![plain], vec![inlined, plain]] {
                builder.profile.locations.push(Location { lines, ..Location::default() });
            }
        }
        for (chain, value) in samples {
            let id = |name: char| {
                let letter = (name.to_ascii_lowercase() as usize - 'a' as usize) * 2;
                LocationId::at(letter + usize::from(name.is_ascii_uppercase()))
            };
            let chain: Vec<LocationId> = chain.chars().map(id).collect();
            builder.profile.samples.push(&chain, &[1, *value], LabelSetId(0));
        }
        builder.finish()
    }

    fn values(graph: &Graph) -> Vec<String> {
        let mut values: Vec<String> =
            graph.nodes.iter().map(|node| format!("{} {} {}", node.place, node.flat, node.cum)).collect();
        values.sort();
        values
    }

    fn edges(graph: &Graph) -> Vec<String> {
        let name = |place: usize| graph.nodes[place].place.to_string();
        let mark = |is: bool, mark: &'static str| if is { mark } else { "" };
        let mut edges: Vec<String> = graph
            .edges
            .iter()
            .map(|edge| {
                let marks = [mark(edge.is_residual, " residual"), mark(edge.is_inlined, " inlined")].concat();
                format!("{}>{} {}{marks}", name(edge.caller), name(edge.callee), edge.value)
            })
            .collect();
        edges.sort();
        edges
    }

    #[test]
    fn counts_a_recursive_function_once_per_sample() {
        let profile = profile(&[("bbba", 5), ("cbcba", 2), ("", 3)]);
        let graph = Graph::values(&profile);
        assert_eq!(values(&graph), ["a 0 7", "b 5 7", "c 2 2"]);
        assert_eq!(graph.without_chain, 3);
        let graph = Graph::calls(&profile);
        assert_eq!(values(&graph), ["a 0 7", "b 5 7", "c 2 2"]);
        // A recursive call is not an edge, and a repeated call counts once per stack.
        assert_eq!(edges(&graph), ["a>b 7", "b>c 2", "c>b 2"]);
    }

    #[test]
    fn function_inlined_into_its_namesake_is_not_marked() {
        let mut profile = profile(&[("a", 1)]);
        let line = profile.locations[0].lines[0];
        profile.locations[0].lines = vec![line, line];
        let graph = Graph::values(&profile);
        assert_eq!(graph.nodes[0].inlined, Inlined::Never);
    }

    #[test]
    fn marks_inlined_functions() {
        let graph = Graph::calls(&profile(&[("Ba", 5), ("bC", 1)]));
        assert_eq!(values(&graph), ["B 5 5", "C 0 1", "a 0 5", "b 1 6", "c 0 1"]);
        assert_eq!(edges(&graph), ["C>b 1", "a>b 5", "b>B 5 inlined", "c>C 1 inlined"]);
        let inlined = |name: &str| graph.nodes.iter().find(|node| &*node.place.name == name).unwrap().inlined;
        assert_eq!([inlined("B"), inlined("b")], [Inlined::Always, Inlined::Never]);
    }

    #[test]
    fn leaves_out_values_that_cancel_out() {
        assert_eq!(values(&Graph::values(&profile(&[("ba", 5), ("ba", -5), ("ca", 1)]))), ["a 0 1", "c 1 1"]);
    }

    #[test]
    fn sums_saturate() {
        let graph = Graph::values(&profile(&[("a", i64::MAX), ("a", i64::MAX), ("b", i64::MIN), ("b", -1)]));
        assert_eq!(values(&graph), [format!("a {0} {0}", i64::MAX), format!("b {0} {0}", i64::MIN)]);
    }

    #[test]
    fn calls_through_hidden_functions_are_residual() {
        // c is light; its value is not b's.
        let profile = profile(&[("dba", 50), ("dcba", 1), ("cba", 1), ("ea", 48)]);
        let trim = Trim { node_fraction: 0.03, ..Trim::ALL };
        let trimmed = trim.calls(&profile);
        assert_eq!((trimmed.dropped_nodes, trimmed.node_cutoff), (1, 3));
        assert_eq!(values(&trimmed.graph), ["a 0 100", "b 0 52", "d 51 51", "e 48 48"]);
        assert_eq!(edges(&trimmed.graph), ["a>b 52", "a>e 48", "b>d 51 residual"]);
        // The only path from b to d stays.
        assert_eq!(edges(&trim.picture(&profile).graph), edges(&trimmed.graph));
    }

    #[test]
    fn picture_drops_redundant_residual_edges() {
        // The path from a to d through e is hidden; it is redundant, because b is on another one.
        let profile = profile(&[("dba", 50), ("dea", 1), ("ba", 1)]);
        let trim = Trim { nodes: 3, by_cum: true, ..Trim::ALL };
        assert_eq!(edges(&trim.calls(&profile).graph), ["a>b 51", "a>d 1 residual", "b>d 50"]);
        assert_eq!(edges(&trim.picture(&profile).graph), ["a>b 51", "b>d 50"]);
    }

    #[test]
    fn picture_has_the_nodes_with_the_highest_scores() {
        // b only calls c, which has flat value and calls two others.
        let profile = profile(&[("dcba", 30), ("ecba", 30), ("cba", 30), ("fa", 10)]);
        let nodes = |trim: Trim| -> String {
            let trimmed = trim.picture(&profile);
            trimmed.graph.nodes.iter().map(|node| node.place.to_string()).collect()
        };
        assert_eq!(nodes(Trim::ALL), "cadefb");
        assert_eq!(nodes(Trim { nodes: 4, ..Trim::ALL }), "cade");
    }

    #[test]
    fn orders_rows() {
        let names = |trim: Trim| -> String {
            let trimmed = trim.values(&profile(&[("ba", 5), ("cd", 5), ("efd", -7), ("gh", 1)]));
            trimmed.graph.nodes.iter().map(|node| node.place.to_string()).collect()
        };
        assert_eq!(names(Trim::ALL), "ebcgfadh");
        assert_eq!(names(Trim { by_cum: true, ..Trim::ALL }), "efbcadgh");
        assert_eq!(names(Trim { nodes: 2, ..Trim::ALL }), "eb");
        assert_eq!(names(Trim { drop_negative: true, ..Trim::ALL }), "bcgah");
    }

    #[test]
    fn call_tree_has_a_node_for_each_path() {
        let tree = CallTree::new(&profile(&[("cba", 5), ("ca", 2), ("ba", 1), ("", 4)]));
        let mut shown = Vec::new();
        let mut open: Vec<(usize, usize)> = tree.roots.iter().map(|&root| (root, 0)).collect();
        while let Some((place, depth)) = open.pop() {
            let call = &tree.nodes[place];
            shown.push(format!("{}{} {} {}", " ".repeat(depth), call.place, call.flat, call.cum));
            open.extend(call.callees.iter().rev().map(|&callee| (callee, depth + 1)));
        }
        assert_eq!(shown, ["a 0 8", " b 1 6", "  c 5 5", " c 2 2"]);
        assert_eq!(tree.without_chain, 4);
    }
}
