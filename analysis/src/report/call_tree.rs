//! Prefix tree of call stacks, with common callers stored once.

use std::collections::HashMap;

/// The root of every [`PrefixTree`]. It has no frame.
pub(crate) const ROOT: u32 = 0;

/// Nodes of frames, children of their callers. The caller defines the meaning of frame numbers.
#[derive(Debug)]
pub(crate) struct PrefixTree {
    parents: Vec<u32>,
    frames: Vec<u32>,
    children: HashMap<(u32, u32), u32>,
}

/// The nodes of a [`PrefixTree`], callers before callees.
#[derive(Debug)]
pub(crate) struct Preorder {
    pub(crate) nodes: Vec<u32>,
    /// Depth of each node; 0 for the root.
    pub(crate) depths: Vec<u32>,
}

impl PrefixTree {
    pub(crate) fn new() -> Self {
        Self { parents: vec![ROOT], frames: vec![u32::MAX], children: HashMap::new() }
    }

    pub(crate) fn child(&mut self, parent: u32, frame: u32) -> u32 {
        *self.children.entry((parent, frame)).or_insert_with(|| {
            self.parents.push(parent);
            self.frames.push(frame);
            u32::try_from(self.frames.len() - 1).expect("a node takes more than a byte of input")
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn frame(&self, node: u32) -> u32 {
        self.frames[node as usize]
    }

    pub(crate) fn parent(&self, node: usize) -> usize {
        self.parents[node] as usize
    }

    /// Adds the values of descendants to each node; `values` are in the order of nodes.
    pub(crate) fn accumulate<V: Copy>(&self, values: &mut [V], add: impl Fn(V, V) -> V) {
        // Each node has a greater index than its parent.
        for node in (1..self.parents.len()).rev() {
            let parent = self.parents[node] as usize;
            values[parent] = add(values[parent], values[node]);
        }
    }

    /// Returns the nodes, siblings by `rank` of their frames, except subtrees that `keep` rejects.
    pub(crate) fn preorder<K: Ord>(
        &self,
        rank: impl Fn(u32) -> K,
        mut keep: impl FnMut(u32) -> bool,
    ) -> Preorder {
        let mut sorted: Vec<u32> = (1..).take(self.len() - 1).collect();
        sorted.sort_by_key(|&node| (self.parents[node as usize], rank(self.frame(node))));
        // Start of each node's children in `sorted`; they end where the next node's begin.
        let mut begins = vec![0; self.len() + 1];
        for &node in &sorted {
            begins[self.parents[node as usize] as usize + 1] += 1;
        }
        for place in 1..begins.len() {
            begins[place] += begins[place - 1];
        }
        let mut order = Preorder { nodes: Vec::new(), depths: Vec::new() };
        let mut waiting = vec![(ROOT, 0)];
        while let Some((node, depth)) = waiting.pop() {
            order.nodes.push(node);
            order.depths.push(depth);
            let children = &sorted[begins[node as usize]..begins[node as usize + 1]];
            waiting
                .extend(children.iter().rev().filter(|&&child| keep(child)).map(|&child| (child, depth + 1)));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preorder_has_parents_first_and_siblings_by_rank() {
        let mut tree = PrefixTree::new();
        for chain in [&[2, 9][..], &[2, 1], &[1, 5, 5], &[2, 9, 4]] {
            chain.iter().fold(ROOT, |node, &frame| tree.child(node, frame));
        }
        let order = tree.preorder(|frame| frame, |_| true);
        let shown: Vec<(u32, u32)> = order
            .nodes
            .iter()
            .zip(&order.depths)
            .skip(1)
            .map(|(&node, &depth)| (depth, tree.frame(node)))
            .collect();
        assert_eq!(shown, [(1, 1), (2, 5), (3, 5), (1, 2), (2, 1), (2, 9), (3, 4)]);

        let pruned = tree.preorder(|frame| frame, |node| tree.frame(node) != 9);
        assert_eq!(pruned.depths, [0, 1, 2, 3, 1, 2]);
    }

    #[test]
    fn accumulate_adds_the_values_of_descendants() {
        let mut tree = PrefixTree::new();
        let first = tree.child(ROOT, 7);
        let second = tree.child(first, 7);
        assert_eq!(tree.child(first, 7), second);
        let mut values = vec![1, 10, 100];
        tree.accumulate(&mut values, |one, other| one + other);
        assert_eq!(values, [111, 110, 100]);
    }
}
