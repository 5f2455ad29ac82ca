//! Call graph: cycles, and the time of callees, passed to their callers by the share of calls.
//!
//! Source: GNU gprof manual, sections 5.2.4 and 6.2.

use super::selection::Selection;
use std::collections::HashMap;

/// Calls of one function by another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) caller: usize,
    pub(super) callee: usize,
    /// Number of calls; 0 if the call was found in the code, and never executed.
    pub(super) count: u64,
    /// Own time of the callee, for these calls.
    pub(super) own: f64,
    /// Time of the callee's callees, for these calls.
    pub(super) children: f64,
}

/// A function, or all functions of a cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Calls by other functions; for a cycle, calls from outside.
    pub(super) calls: u64,
    /// Calls by the function itself; for a cycle, calls from inside.
    pub(super) self_calls: u64,
    /// Own time.
    pub(super) own: f64,
    /// Time of callees, which gprof calls children.
    pub(super) children: f64,
    /// Part of the time that is passed to callers: less than 1 if some callers are excluded.
    fraction: f64,
    /// `own` and `children`, times the fraction.
    pub(super) shown_own: f64,
    pub(super) shown_children: f64,
    /// It has an entry in the call graph.
    pub(super) is_printed: bool,
    /// Number of the cycle, from 1; 0 for functions that are in none.
    pub(super) cycle: usize,
    /// Position among the entries of the call graph, from 1.
    pub(super) index: usize,
    /// Position in an order with callees before callers.
    order: u32,
    /// Arcs from callers, in the order in which they were added.
    pub(super) callers: Vec<usize>,
    /// Arcs to callees, in the order in which they were added.
    pub(super) callees: Vec<usize>,
}

/// Functions, and after them cycles.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) arcs: Vec<Arc>,
    /// Functions of each cycle.
    pub(super) cycles: Vec<Vec<usize>>,
    /// Number of functions.
    functions: usize,
    /// Sum of all functions' shown own times.
    pub(super) total: f64,
    /// Arcs by caller and callee.
    by_ends: HashMap<(usize, usize), usize>,
}

impl Graph {
    /// Creates a graph without arcs, of functions with these own times.
    pub(super) fn new(own: &[f64]) -> Self {
        let nodes = own.iter().map(|&own| Node { own, ..Node::default() }).collect();
        Self { nodes, functions: own.len(), ..Self::default() }
    }

    /// Adds calls.
    pub(super) fn add(&mut self, caller: usize, callee: usize, count: u64) {
        self.nodes[callee].calls = self.nodes[callee].calls.saturating_add(count);
        if let Some(&known) = self.by_ends.get(&(caller, callee)) {
            self.arcs[known].count = self.arcs[known].count.saturating_add(count);
            return;
        }
        let arc = self.arcs.len();
        self.by_ends.insert((caller, callee), arc);
        self.arcs.push(Arc { caller, callee, count, own: 0.0, children: 0.0 });
        self.nodes[caller].callees.push(arc);
        self.nodes[callee].callers.push(arc);
    }

    /// Returns true for a call within a cycle, or of a function by itself.
    pub(super) fn is_inner(&self, arc: &Arc) -> bool {
        let (caller, callee) = (&self.nodes[arc.caller], &self.nodes[arc.callee]);
        arc.caller == arc.callee || callee.cycle != 0 && callee.cycle == caller.cycle
    }

    /// Returns the node of a function's cycle, or of the function itself.
    pub(super) fn outer(&self, node: usize) -> usize {
        match self.nodes[node].cycle {
            0 => node,
            cycle => self.functions + cycle - 1,
        }
    }

    /// Finds cycles, and passes times to callers.
    pub(super) fn propagate(&mut self, printed: &Selection, timed: &Selection) {
        for node in 0..self.functions {
            if let Some(&arc) = self.by_ends.get(&(node, node)) {
                let count = self.arcs[arc].count;
                let node = &mut self.nodes[node];
                (node.calls, node.self_calls) = (node.calls.saturating_sub(count), count);
            }
        }
        let members = self.find_cycles();
        self.add_cycles(members);
        let mut order: Vec<usize> = (0..self.functions).collect();
        order.sort_by_key(|&node| self.nodes[node].order);
        self.inherit(&order, printed, timed);
        for cycle in 0..self.cycles.len() {
            let members = self.cycles[cycle].iter().map(|&member| &self.nodes[member]);
            let own =
                members.filter(|member| member.fraction != 0.0).fold(0.0, |sum, member| sum + member.own);
            let node = &mut self.nodes[self.functions + cycle];
            (node.own, node.shown_own) = (own, node.fraction * own);
        }
        order.iter().for_each(|&node| self.pass_times(node));
    }

    /// Numbers functions, callees before callers, the members of a cycle alike. Returns the members
    /// of cycles, each at the place of its first one that was visited.
    fn find_cycles(&mut self) -> HashMap<usize, Vec<usize>> {
        // The function by which a cycle was entered, for its members.
        let mut heads: Vec<usize> = (0..self.functions).collect();
        let mut members: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut place_in_path: Vec<Option<usize>> = vec![None; self.functions];
        let mut number = 0;
        for root in 0..self.functions {
            if self.nodes[root].order != 0 {
                continue;
            }
            // The functions being visited, and the number of their callees left.
            let mut path: Vec<(usize, usize)> = vec![(root, self.nodes[root].callees.len())];
            place_in_path[root] = Some(0);
            while let Some((node, left)) = path.last_mut() {
                let node = *node;
                if *left == 0 {
                    path.pop();
                    place_in_path[node] = None;
                    if heads[node] == node {
                        number += 1;
                        self.nodes[node].order = number;
                        for &member in members.get(&node).into_iter().flatten() {
                            self.nodes[member].order = number;
                        }
                    }
                    continue;
                }
                *left -= 1;
                // The last one that was added is visited first.
                let callee = self.arcs[self.nodes[node].callees[*left]].callee;
                if self.nodes[callee].order != 0 {
                    continue;
                }
                let on_path = place_in_path[callee]
                    .or_else(|| place_in_path[heads[callee]].filter(|_| heads[callee] != callee));
                let Some(top) = on_path else {
                    place_in_path[callee] = Some(path.len());
                    path.push((callee, self.nodes[callee].callees.len()));
                    continue;
                };
                join(&path[top..], &mut heads, &mut members);
            }
        }
        members
    }

    /// Adds a node for each cycle.
    fn add_cycles(&mut self, mut members: HashMap<usize, Vec<usize>>) {
        for head in 0..self.functions {
            let Some(others) = members.remove(&head).filter(|others| !others.is_empty()) else { continue };
            let cycle: Vec<usize> = std::iter::once(head).chain(others).collect();
            let number = self.cycles.len() + 1;
            cycle.iter().for_each(|&member| self.nodes[member].cycle = number);
            let mut node = Node { cycle: number, is_printed: true, ..Node::default() };
            for &member in &cycle {
                for &arc in &self.nodes[member].callers {
                    let Arc { caller, count, .. } = self.arcs[arc];
                    if caller == member {
                        continue;
                    }
                    let is_inner = self.nodes[caller].cycle == number;
                    let calls = if is_inner { &mut node.self_calls } else { &mut node.calls };
                    *calls = calls.saturating_add(count);
                }
            }
            self.nodes.push(node);
            self.cycles.push(cycle);
        }
    }

    /// Finds what is printed, and the part of each function's time that counts, from the callers.
    fn inherit(&mut self, order: &[usize], printed: &Selection, timed: &Selection) {
        let mut last = None;
        for &node in order.iter().rev() {
            let outer = self.outer(node);
            if last != Some(outer) {
                last = Some(outer);
                self.inherit_from_callers(outer);
            }
            let (is_wanted, is_timed) = (printed.allows(node), timed.allows(node));
            let is_excluded = printed.excludes(node);
            let has_no_time = timed.excludes(node);
            let node = &mut self.nodes[node];
            node.is_printed = if node.is_printed { !is_excluded } else { is_wanted };
            if node.fraction == 0.0 {
                if is_timed {
                    node.fraction = 1.0;
                }
            } else if has_no_time {
                node.fraction = 0.0;
            }
            node.shown_own = node.own * node.fraction;
            self.total += node.shown_own;
        }
    }

    fn inherit_from_callers(&mut self, outer: usize) {
        let members = match outer.checked_sub(self.functions) {
            Some(cycle) => self.cycles[cycle].clone(),
            None => vec![outer],
        };
        let calls = self.nodes[outer].calls;
        let (mut is_printed, mut fraction) = (false, 0.0);
        for &member in &members {
            for &arc in self.nodes[member].callers.iter().rev() {
                let arc = &self.arcs[arc];
                if self.outer(arc.caller) == outer {
                    continue;
                }
                let caller = &self.nodes[arc.caller];
                is_printed |= caller.is_printed;
                // A call that was only found in the code passes no time.
                if calls != 0 {
                    fraction += caller.fraction * (arc.count as f64 / calls as f64);
                }
            }
        }
        for node in members.into_iter().chain([outer]) {
            (self.nodes[node].is_printed, self.nodes[node].fraction) = (is_printed, fraction);
        }
    }

    /// Passes the times of a function's callees to it.
    fn pass_times(&mut self, caller: usize) {
        let fraction = self.nodes[caller].fraction;
        if fraction == 0.0 {
            return;
        }
        for place in (0..self.nodes[caller].callees.len()).rev() {
            let place = self.nodes[caller].callees[place];
            let arc = self.arcs[place];
            if arc.count == 0 || self.is_inner(&arc) || self.nodes[arc.callee].fraction == 0.0 {
                continue;
            }
            let callee = &self.nodes[self.outer(arc.callee)];
            if callee.calls == 0 {
                continue;
            }
            let share = arc.count as f64 / callee.calls as f64;
            let (own, children) = (callee.own * share, callee.children * share);
            let (all, shown) = (own + children, fraction * (own + children));
            (self.arcs[place].own, self.arcs[place].children) = (own * fraction, children * fraction);
            let outer = self.outer(caller);
            for node in [caller].into_iter().chain((outer != caller).then_some(outer)) {
                self.nodes[node].children += all;
                self.nodes[node].shown_children += shown;
            }
        }
    }
}

/// Joins the functions of a path to the cycle of its first one.
fn join(path: &[(usize, usize)], heads: &mut [usize], members: &mut HashMap<usize, Vec<usize>>) {
    let head = heads[path[0].0];
    for &(node, _) in &path[1..] {
        if heads[node] != node {
            continue;
        }
        let others = members.remove(&node).unwrap_or_default();
        for member in std::iter::once(node).chain(others) {
            heads[member] = head;
            members.entry(head).or_default().push(member);
        }
    }
}
