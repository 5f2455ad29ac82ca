//! The number of calls of each function, by place in the source (`-C`).

use super::{Report, symbols::Symbol};
use std::{
    cmp::Ordering,
    io::{self, Write},
};

impl Report {
    pub(super) fn write_exec_counts(&self, out: &mut dyn Write) -> io::Result<()> {
        let symbols = self.executable.symbols();
        let mut order: Vec<usize> =
            (0..symbols.len()).filter(|&function| self.exec_counts.allows(function)).collect();
        merge_sort(&mut order, &|left, right| compare(&symbols[left], &symbols[right]));
        for function in order {
            let calls = self.graph.nodes[function].calls;
            let symbol = &symbols[function];
            let (file, line) = match &symbol.source {
                Some(source) => (&*source.file, source.line),
                None => ("<unknown>", 0),
            };
            let name = if self.options.is_compatible { &symbol.name } else { &self.names[function] };
            let blocks = self.blocks_of(function).map(|block| (block.address, block.count));
            for (address, count) in std::iter::once((symbol.start, calls)).chain(blocks) {
                if count != 0 || self.options.shows_unused {
                    writeln!(out, "{file}:{line}: ({name}:{address:#x}) {count} executions")?;
                }
            }
        }
        Ok(())
    }
}

/// Orders functions by file and line, or by address if one of them has no file.
fn compare(left: &Symbol, right: &Symbol) -> Ordering {
    let by_source = match (&left.source, &right.source) {
        (Some(left), Some(right)) => left.file.cmp(&right.file).then(left.line.cmp(&right.line)),
        _ => Ordering::Equal,
    };
    by_source.then(left.start.cmp(&right.start))
}

/// Sorts as the C library does. The order above is not transitive, and its result depends on the
/// algorithm.
fn merge_sort(items: &mut [usize], compare: &dyn Fn(usize, usize) -> Ordering) {
    if items.len() < 2 {
        return;
    }
    let (left, right) = items.split_at_mut(items.len() / 2);
    merge_sort(left, compare);
    merge_sort(right, compare);
    let (mut left, mut right) = (left.iter().copied().peekable(), right.iter().copied().peekable());
    let mut merged = Vec::new();
    while let (Some(&first), Some(&second)) = (left.peek(), right.peek()) {
        merged.extend(if compare(first, second).is_le() { left.next() } else { right.next() });
    }
    merged.extend(left);
    merged.extend(right);
    items.copy_from_slice(&merged);
}
