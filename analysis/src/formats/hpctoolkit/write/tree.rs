//! The context tree of a database that is written, and the names in it.

use foldhash::fast::RandomState;
use std::{collections::HashMap, hash::Hash, sync::Arc};

/// ID of the implicit context above all others.
pub(super) const GLOBAL: u32 = 0;

/// What a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// How the thread began.
    EntryPoint(Entry),
    /// A function, by its number.
    Function { function: u32, is_inlined: bool },
    /// A line, by the number of its file.
    Line { file: u32, line: u32 },
}

/// How a thread began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    /// Unknown: the call stack is incomplete.
    Unknown = 0,
    MainThread = 1,
    /// A thread that the application created.
    Thread = 2,
}

impl Entry {
    pub(super) const ALL: [Self; 3] = [Self::Unknown, Self::MainThread, Self::Thread];

    /// Returns the name in FORMATS.md.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown entry",
            Self::MainThread => "main thread",
            Self::Thread => "application thread",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) kind: Kind,
}

impl Node {
    /// Whether the parent encloses it in the source: no call lies between.
    pub(super) fn is_lexical(&self) -> bool {
        matches!(self.kind, Kind::Line { .. })
    }
}

/// The contexts; parents have smaller IDs than their children.
#[derive(Debug)]
pub(super) struct Tree {
    /// By ID; the first is the implicit one.
    pub(super) nodes: Vec<Node>,
    ids: HashMap<(u32, Kind), u32, RandomState>,
}

impl Tree {
    pub(super) fn new() -> Self {
        let global = Node { parent: GLOBAL, kind: Kind::EntryPoint(Entry::Unknown) };
        Self { nodes: vec![global], ids: HashMap::default() }
    }

    /// Returns the ID of a child, which is added if needed.
    ///
    /// # Panics
    /// From 2^32 contexts on, which need more memory than there is.
    pub(super) fn child(&mut self, parent: u32, kind: Kind) -> u32 {
        *self.ids.entry((parent, kind)).or_insert_with(|| {
            self.nodes.push(Node { parent, kind });
            u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 contexts")
        })
    }

    /// Returns the children of each context, in the order of their IDs.
    pub(super) fn children(&self) -> Children {
        let mut ends = vec![0_u32; self.nodes.len()];
        for node in self.nodes.iter().skip(1) {
            ends[node.parent as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        // Filled from the end of each range, so in descending order.
        let mut ids = vec![0; self.nodes.len() - 1];
        let mut starts = ends.clone();
        for (id, node) in self.nodes.iter().enumerate().skip(1).rev() {
            let place = &mut starts[node.parent as usize];
            *place -= 1;
            ids[*place as usize] = id as u32;
        }
        Children { ids, starts, ends }
    }
}

/// The children of all contexts.
#[derive(Debug)]
pub(super) struct Children {
    ids: Vec<u32>,
    starts: Vec<u32>,
    ends: Vec<u32>,
}

impl Children {
    pub(super) fn of(&self, parent: u32) -> &[u32] {
        let parent = parent as usize;
        &self.ids[self.starts[parent] as usize..self.ends[parent] as usize]
    }
}

/// Items with a number each, in the order of their first use.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    pub(super) items: Vec<T>,
    numbers: HashMap<T, u32, RandomState>,
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    pub(super) fn new() -> Self {
        Self { items: Vec::new(), numbers: HashMap::default() }
    }

    /// # Panics
    /// From 2^32 items on, which need more memory than there is.
    pub(super) fn number(&mut self, item: T) -> u32 {
        *self.numbers.entry(item).or_insert_with_key(|item| {
            self.items.push(item.clone());
            u32::try_from(self.items.len() - 1).expect("fewer than 2^32 items")
        })
    }
}

/// A function, with the numbers of its module and file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FunctionName {
    pub(super) name: Arc<str>,
    pub(super) module: Option<u32>,
    /// Of its first byte in the module; 0 if unknown.
    pub(super) offset: u64,
    pub(super) file: Option<u32>,
    pub(super) line: u32,
}

/// The names that contexts refer to.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) modules: Numbered<Arc<str>>,
    pub(super) files: Numbered<Arc<str>>,
    pub(super) functions: Numbered<FunctionName>,
}

impl Names {
    pub(super) fn new() -> Self {
        Self { modules: Numbered::new(), files: Numbered::new(), functions: Numbered::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_children_in_order() {
        let mut tree = Tree::new();
        let line = |line: u32| Kind::Line { file: 0, line };
        let main = tree.child(GLOBAL, Kind::EntryPoint(Entry::MainThread));
        let first = tree.child(main, line(1));
        let inner = tree.child(first, line(2));
        let second = tree.child(main, line(3));
        assert_eq!(tree.child(main, line(1)), first);
        let children = tree.children();
        assert_eq!(children.of(GLOBAL), [main]);
        assert_eq!(children.of(main), [first, second]);
        assert_eq!((children.of(first), children.of(inner)), (&[inner][..], &[][..]));
    }
}
