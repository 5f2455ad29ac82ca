//! The call tree: a function has a node for each call path.

use super::{Frames, Place};
use crate::profile::Profile;
use foldhash::fast::RandomState;
use std::{cmp::Reverse, collections::HashMap};

/// A call tree, from the outermost frames.
#[derive(Debug)]
pub struct CallTree {
    /// The nodes; each follows its caller.
    pub nodes: Vec<Call>,
    /// Indices of nodes without a caller, heaviest first.
    pub roots: Vec<usize>,
    /// The value of samples without a call stack, which are in no node.
    pub without_chain: i64,
}

/// A function with its call path.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function.
    pub place: Place,
    /// The value of samples with this innermost frame.
    pub flat: i64,
    /// The value of all samples on this path.
    pub cum: i64,
    /// Indices of callees, heaviest first.
    pub callees: Vec<usize>,
    /// It is inlined into its caller in all samples.
    pub is_inlined: bool,
}

impl CallTree {
    /// Builds the tree for the default sample type.
    pub fn new(profile: &Profile) -> Self {
        const NO_CALLER: usize = usize::MAX;
        let frames = Frames::new(profile);
        let mut tree = Self { nodes: Vec::new(), roots: Vec::new(), without_chain: 0 };
        let mut known: HashMap<(usize, u32), usize, RandomState> = HashMap::default();
        for sample in profile.samples.iter() {
            let value = sample.values[profile.default_type];
            let mut caller = NO_CALLER;
            for &location in sample.chain.iter().rev() {
                let inlined_into = frames.of(location);
                for (depth, &node) in inlined_into.iter().enumerate().rev() {
                    let is_inlined = depth + 1 != inlined_into.len();
                    let place = *known.entry((caller, node)).or_insert_with(|| {
                        let place = frames.places[node as usize].clone();
                        tree.nodes.push(Call { place, flat: 0, cum: 0, callees: Vec::new(), is_inlined });
                        let number = tree.nodes.len() - 1;
                        match tree.nodes.get_mut(caller) {
                            Some(caller) => caller.callees.push(number),
                            None => tree.roots.push(number),
                        }
                        number
                    });
                    let call = &mut tree.nodes[place];
                    call.cum = call.cum.saturating_add(value);
                    call.is_inlined &= is_inlined;
                    caller = place;
                }
            }
            match tree.nodes.get_mut(caller) {
                Some(innermost) => innermost.flat = innermost.flat.saturating_add(value),
                None => tree.without_chain = tree.without_chain.saturating_add(value),
            }
        }
        tree.sort();
        tree
    }

    fn sort(&mut self) {
        let mut lists: Vec<Vec<usize>> =
            self.nodes.iter_mut().map(|node| std::mem::take(&mut node.callees)).collect();
        lists.push(std::mem::take(&mut self.roots));
        let nodes = &self.nodes;
        for list in &mut lists {
            list.sort_by(|&one, &other| {
                let weight = |place: usize| Reverse(nodes[place].cum.saturating_abs());
                weight(one).cmp(&weight(other)).then_with(|| nodes[one].place.cmp(&nodes[other].place))
            });
        }
        self.roots = lists.pop().unwrap_or_default();
        for (node, list) in self.nodes.iter_mut().zip(lists) {
            node.callees = list;
        }
    }
}
