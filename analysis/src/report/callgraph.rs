//! The tree of calls, as indented text.

use super::{Context, header, styled, width};
use crate::{
    graph::{CallTree, Trim},
    profile::Profile,
    units::{Scale, percent},
};
use std::io::{self, Write};

/// Writes the calls from the outermost frames inwards, each below its caller, the heaviest first. What is left out has a line
/// in its place that says how much it is.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, context: &Context, trim: &Trim, out: &mut dyn Write) -> io::Result<()> {
    let tree = CallTree::new(profile);
    let cutoff = trim.values(profile).node_cutoff.max(1);
    let visible = tree.nodes.iter().filter(|call| call.cum.saturating_abs() >= cutoff);
    let least = visible.map(|call| call.cum.saturating_abs()).min().unwrap_or(0);
    let values = &profile.sample_types[profile.default_type];
    let scale = context.scale.unwrap_or_else(|| Scale::of_report(least, context.total, &values.unit));
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
    let columns = format!("{:>10} {:>6} {:>10} {:>6}  call", "cum", "cum%", "flat", "flat%");
    writeln!(out, "{}", styled(context.colors.heading, columns))?;

    let limit = if trim.nodes == 0 { usize::MAX } else { trim.nodes };
    let mut walk = Walk { tree: &tree, context, scale, cutoff, left: limit, out };
    walk.write()
}

struct Walk<'a> {
    tree: &'a CallTree,
    context: &'a Context,
    scale: Scale,
    cutoff: i64,
    /// How many lines there may still be.
    left: usize,
    out: &'a mut dyn Write,
}

impl Walk<'_> {
    /// Goes through the tree. Chains may be longer than our own stack is, so the way is kept in a vector.
    fn write(&mut self) -> io::Result<()> {
        let mut way: Vec<(&[usize], usize)> = vec![(&self.tree.roots, 0)];
        while let Some((calls, next)) = way.pop() {
            let depth = way.len();
            let is_heavy = |place: &usize| self.tree.nodes[*place].cum.saturating_abs() >= self.cutoff;
            match calls.get(next).filter(|place| is_heavy(place) && self.left > 0) {
                Some(&place) => {
                    self.left -= 1;
                    self.write_call(place, depth)?;
                    way.push((calls, next + 1));
                    way.push((&self.tree.nodes[place].callees, 0));
                }
                None => self.write_rest(&calls[next.min(calls.len())..], depth)?,
            }
        }
        Ok(())
    }

    fn write_call(&mut self, place: usize, depth: usize) -> io::Result<()> {
        let call = &self.tree.nodes[place];
        let total = self.context.total;
        let cells = format!(
            "{:>10} {:>6} {:>10} {:>6}",
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

    /// One line for calls that are left out, if there are any.
    fn write_rest(&mut self, calls: &[usize], depth: usize) -> io::Result<()> {
        let left_out = calls.iter().map(|&place| self.tree.nodes[place].cum).filter(|&cum| cum != 0);
        let (count, sum) =
            left_out.fold((0, 0_i64), |(count, sum), cum| (count + 1, sum.saturating_add(cum)));
        if count == 0 {
            return Ok(());
        }
        let cells =
            format!("{:>10} {:>6} {:>17}", self.scale.format(sum), percent(sum, self.context.total), "");
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
