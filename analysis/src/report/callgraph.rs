//! The call tree as indented text.

use super::{Context, header, styled, width};
use crate::{
    graph::{CallTree, Trim},
    profile::Profile,
    units::{Scale, percent},
};
use std::{
    cmp::Reverse,
    io::{self, Write},
};

/// Writes the call tree, heaviest calls first. A line sums up hidden calls.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, context: &Context, trim: &Trim, out: &mut dyn Write) -> io::Result<()> {
    let tree = CallTree::new(profile);
    let cutoff = trim.values(profile).node_cutoff.max(1);
    let visible = tree.nodes.iter().filter(|call| call.cum.saturating_abs() >= cutoff);
    let scale = context.scale(profile, visible.map(|call| (0, call.cum)));
    header::write_profile(profile, context, scale, out)?;
    let shown = tree.roots.iter().fold(0_i64, |sum, &root| sum.saturating_add(tree.nodes[root].cum));
    writeln!(
        out,
        "Showing calls accounting for {}, {} of {} total",
        scale.format(shown),
        percent(shown, context.total),
        scale.format(context.total)
    )?;
    if tree.without_chain != 0 {
        writeln!(out, "Samples without a call chain: {}", scale.format(tree.without_chain))?;
    }
    let share_width = if tree.nodes.iter().any(|call| call.cum < 0 || call.flat < 0) { 7 } else { 6 };
    let columns =
        format!("{:>10} {:>share_width$} {:>10} {:>share_width$}  call", "cum", "cum%", "flat", "flat%");
    writeln!(out, "{}", styled(context.colors.heading, columns))?;
    let mut walk = TreeWriter {
        is_shown: shown_calls(&tree, cutoff, trim.nodes),
        tree: &tree,
        context,
        scale,
        share_width,
        out,
    };
    walk.write()
}

/// Marks the calls with at least `cutoff`, and of those the heaviest `most` unless 0. A caller is
/// not lighter than its callees and precedes them, so the result is connected.
fn shown_calls(tree: &CallTree, cutoff: i64, most: usize) -> Vec<bool> {
    let weight = |place: usize| tree.nodes[place].cum.saturating_abs();
    let mut heavy: Vec<usize> = (0..tree.nodes.len()).filter(|&place| weight(place) >= cutoff).collect();
    if most != 0 {
        heavy.sort_by_key(|&place| (Reverse(weight(place)), place));
        heavy.truncate(most);
    }
    let mut is_shown = vec![false; tree.nodes.len()];
    for place in heavy {
        is_shown[place] = true;
    }
    is_shown
}

struct TreeWriter<'a> {
    tree: &'a CallTree,
    context: &'a Context,
    scale: Scale,
    is_shown: Vec<bool>,
    share_width: usize,
    out: &'a mut dyn Write,
}

impl TreeWriter<'_> {
    /// Iterative: call stacks may be deeper than this thread's stack allows.
    fn write(&mut self) -> io::Result<()> {
        let mut way: Vec<(&[usize], usize)> = vec![(&self.tree.roots, 0)];
        while let Some((calls, next)) = way.pop() {
            let depth = way.len();
            match calls.get(next) {
                Some(&place) => {
                    way.push((calls, next + 1));
                    if self.is_shown[place] {
                        self.write_call(place, depth)?;
                        way.push((&self.tree.nodes[place].callees, 0));
                    }
                }
                None => self.write_rest(calls, depth)?,
            }
        }
        Ok(())
    }

    fn write_call(&mut self, place: usize, depth: usize) -> io::Result<()> {
        let call = &self.tree.nodes[place];
        let total = self.context.total;
        let width = self.share_width;
        let cells = format!(
            "{:>10} {:>width$} {:>10} {:>width$}",
            self.scale.format(call.cum),
            percent(call.cum, total),
            self.scale.format(call.flat),
            percent(call.flat, total)
        );
        let inlined = if call.is_inlined { " (inline)" } else { "" };
        let room = self.context.width.map(|width| width.saturating_sub(37 + 2 * depth));
        let name = width::cut(&format!("{}{inlined}", call.place), room);
        let style = self.context.colors.of(call.cum, total);
        writeln!(self.out, "{}  {:indent$}{name}", styled(style, cells), "", indent = 2 * depth)
    }

    fn write_rest(&mut self, calls: &[usize], depth: usize) -> io::Result<()> {
        let hidden = calls.iter().filter(|&&place| !self.is_shown[place]);
        let left_out = hidden.map(|&place| self.tree.nodes[place].cum).filter(|&cum| cum != 0);
        let (count, sum) =
            left_out.fold((0, 0_i64), |(count, sum), cum| (count + 1, sum.saturating_add(cum)));
        if count == 0 {
            return Ok(());
        }
        let width = self.share_width;
        let (value, share) = (self.scale.format(sum), percent(sum, self.context.total));
        let cells = format!("{value:>10} {share:>width$} {:>10} {:>width$}", "", "");
        let text = format!("({count} not shown)");
        writeln!(
            self.out,
            "{}  {:indent$}{text}",
            styled(self.context.colors.cold, cells),
            "",
            indent = 2 * depth
        )
    }
}
