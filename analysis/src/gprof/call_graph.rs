//! The call graph: an entry for each function and cycle, and the index.

use super::{Report, explanations, graph::Arc, print::fixed, printed_file};
use crate::formats::gmon::UNIT;
use std::{
    cmp::Ordering,
    io::{self, Write},
};

/// Columns of the index.
const COLUMNS: usize = 3;
/// Width of the number of an entry, with its brackets.
const INDEX: usize = 6;
const SEPARATOR: &str = "-----------------------------------------------";

impl Report {
    pub(super) fn write_graph(&self, out: &mut dyn Write) -> io::Result<()> {
        let is_traditional = self.options.is_traditional;
        if !is_traditional {
            let title = match self.options.is_brief {
                true => "\t\t\tCall graph",
                false => "\t\t     Call graph (explanation follows)",
            };
            writeln!(out, "{title}\n")?;
        }
        self.write_granularity(self.graph.total, " no time propagated", out)?;
        if is_traditional {
            writeln!(out, "                                  called/total       parents ")?;
            writeln!(out, "index  %time    self descendants  called+self    name    \tindex")?;
            writeln!(out, "                                  called/total       children\n")?;
        } else {
            writeln!(out, "index % time    self  children    called     name")?;
        }
        let mut total = self.graph.total;
        if total <= 0.0 {
            total = 1.0;
        }
        for &entry in &self.entries {
            let node = &self.graph.nodes[entry];
            let is_unused = node.calls == 0
                && node.self_calls == 0
                && node.shown_own == 0.0
                && node.shown_children == 0.0;
            if is_unused && !self.options.shows_unused || !node.is_printed || !self.can_have_entry(entry) {
                continue;
            }
            match entry.checked_sub(self.executable.symbols().len()) {
                Some(cycle) => {
                    self.write_primary(entry, total, out)?;
                    self.write_members(cycle, out)?;
                }
                None => {
                    self.write_callers(entry, out)?;
                    self.write_primary(entry, total, out)?;
                    self.write_callees(entry, out)?;
                }
            }
            if is_traditional {
                writeln!(out, "\n{SEPARATOR}\n")?;
            } else {
                writeln!(out, "{SEPARATOR}")?;
            }
        }
        self.write_explanation(explanations::CALL_GRAPH, out)
    }

    /// True unless functions are divided by line, and a node is not a function. Lines are only printed
    /// as callers.
    fn can_have_entry(&self, node: usize) -> bool {
        let symbol = self.executable.symbols().get(node);
        match self.options.is_compatible {
            // GNU gprof also leaves out cycles and labels.
            true => !self.options.by_line || symbol.is_some_and(|symbol| symbol.is_function),
            false => symbol.is_none_or(|symbol| !symbol.is_line),
        }
    }

    /// Writes the number of bytes of a bin, and the meaning of percentages: parts of `total` samples.
    pub(super) fn write_granularity(&self, total: f64, if_none: &str, out: &mut dyn Write) -> io::Result<()> {
        let bytes = if self.options.is_compatible {
            // GNU gprof rounds down, and prints 2 for the usual bins of 4.
            self.scale.floor() * UNIT as f64
        } else {
            (self.scale * UNIT as f64).round()
        };
        write!(out, "\ngranularity: each sample hit covers {} byte(s)", bytes as i64)?;
        if total > 0.0 {
            let (rate, unit) = (self.rate(), &self.dimension.unit);
            let share = fixed(100.0 / total, 0, 2);
            writeln!(out, " for {share}% of {} {unit}\n", fixed(total / rate, 0, 2))
        } else {
            writeln!(out, "{if_none}\n")
        }
    }

    /// Width of the column with the times of callees.
    fn children_width(&self) -> usize {
        if self.options.is_traditional { 11 } else { 7 }
    }

    /// Numbers functions and cycles in the order of their entries.
    pub(super) fn number_entries(&mut self) {
        let functions = self.executable.symbols().len();
        let symbols = self.executable.symbols();
        let name = |node: usize| symbols.get(node).map_or("", |symbol| symbol.name.as_str());
        let nodes = &self.graph.nodes;
        let time = |node: usize| nodes[node].shown_own + nodes[node].shown_children;
        let calls = |node: usize| if node < functions { nodes[node].calls } else { 0 };
        let mut entries: Vec<usize> = (0..nodes.len()).collect();
        entries.sort_by(|&left, &right| {
            time(right)
                .total_cmp(&time(left))
                .then_with(|| (left < functions).cmp(&(right < functions)))
                .then_with(|| name(left).starts_with('_').cmp(&name(right).starts_with('_')))
                .then_with(|| calls(right).cmp(&calls(left)))
                .then_with(|| name(left).cmp(name(right)))
        });
        for (place, &node) in entries.iter().enumerate() {
            self.graph.nodes[node].index = place + 1;
        }
        self.entries = entries;
    }

    /// Writes the index: functions by name, then cycles, in columns.
    pub(super) fn write_index(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "Index by function name\n")?;
        let functions = self.executable.symbols().len();
        let is_listed = |&entry: &usize| {
            let node = &self.graph.nodes[entry];
            self.options.shows_unused || entry >= functions || node.calls != 0 || node.own != 0.0
        };
        let mut names: Vec<usize> = (0..self.graph.nodes.len()).filter(is_listed).collect();
        let symbols = self.executable.symbols();
        // Cycles have no name, and come last.
        let key = |&entry: &usize| (entry >= functions, symbols.get(entry).map(|symbol| &symbol.name), entry);
        names.sort_by_cached_key(key);
        let is_traditional = self.options.is_traditional;
        let column = self.options.width.saturating_sub(1) / COLUMNS + 2;
        let rows = names.len().div_ceil(COLUMNS);
        for row in 0..rows {
            let mut line = String::new();
            for (place, &entry) in names.iter().skip(row).step_by(rows).enumerate() {
                let node = &self.graph.nodes[entry];
                let index =
                    if node.is_printed { format!("[{}]", node.index) } else { format!("({})", node.index) };
                let name = match entry.checked_sub(functions) {
                    Some(cycle) => format!("<cycle {}>", cycle + 1),
                    None if is_traditional => self.names[entry].clone(),
                    None => self.name_and_file(entry),
                };
                if is_traditional {
                    line += &format!("{index:>INDEX$.INDEX$} {name:<19.19}");
                    continue;
                }
                // Indices end in the same columns, unless a name before is too long.
                let begin = (place * column + INDEX).saturating_sub(index.len());
                let gap = begin.saturating_sub(line.len()).max(1);
                line.extend(std::iter::repeat_n(' ', gap));
                line.extend([&index, " ", &name]);
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    /// Returns a function's name. Static functions have their file, because another file can have a
    /// function of the same name.
    fn name_and_file(&self, function: usize) -> String {
        let symbol = &self.executable.symbols()[function];
        match symbol.source.as_ref().filter(|_| symbol.is_static && !self.options.by_line) {
            Some(source) => {
                let file = printed_file(&source.file, self.options.prints_paths);
                format!("{} ({file})", self.names[function])
            }
            None => self.name(function).into_owned(),
        }
    }

    fn write_primary(&self, entry: usize, total: f64, out: &mut dyn Write) -> io::Result<()> {
        let node = &self.graph.nodes[entry];
        let rate = self.rate();
        write!(
            out,
            "{:<6.6} {} {} {}",
            format!("[{}]", node.index),
            fixed(100.0 * (node.shown_own + node.shown_children) / total, 5, 1),
            fixed(node.shown_own / rate, 7, 2),
            fixed(node.shown_children / rate, self.children_width(), 2)
        )?;
        if entry >= self.executable.symbols().len() {
            write!(out, " {:7}{}", node.calls, recursive(node.self_calls))?;
            return writeln!(out, " <cycle {} as a whole> [{}]", node.cycle, node.index);
        }
        if node.calls == 0 && node.self_calls == 0 {
            write!(out, " {:7} {:7} ", "", "")?;
        } else {
            write!(out, " {:7}{} ", node.calls, recursive(node.self_calls))?;
        }
        self.write_reference(entry, out)?;
        writeln!(out)
    }

    fn write_members(&self, cycle: usize, out: &mut dyn Write) -> io::Result<()> {
        let mut members = self.graph.cycles[cycle].clone();
        let key = |member: usize| {
            let node = &self.graph.nodes[member];
            (node.shown_own + node.shown_children, node.calls.saturating_add(node.self_calls))
        };
        members.sort_by(|&left, &right| {
            let ((time, calls), (other_time, other_calls)) = (key(left), key(right));
            other_time.total_cmp(&time).then(other_calls.cmp(&calls))
        });
        for member in members {
            let node = &self.graph.nodes[member];
            write!(
                out,
                "{:6} {:5} {} {} {:7}{}     ",
                "",
                "",
                fixed(node.shown_own / self.rate(), 7, 2),
                fixed(node.shown_children / self.rate(), self.children_width(), 2),
                node.calls,
                recursive(node.self_calls)
            )?;
            self.write_reference(member, out)?;
            writeln!(out)?;
        }
        Ok(())
    }

    fn write_callers(&self, callee: usize, out: &mut dyn Write) -> io::Result<()> {
        let mut arcs = self.graph.nodes[callee].callers.clone();
        if arcs.is_empty() {
            let width = self.children_width();
            return writeln!(
                out,
                "{:6} {:5} {:7} {:width$} {:7} {:7}     <spontaneous>",
                "", "", "", "", "", ""
            );
        }
        arcs.sort_by(|&left, &right| self.compare(left, right));
        arcs.into_iter().try_for_each(|arc| self.write_arc(arc, self.graph.arcs[arc].caller, out))
    }

    fn write_callees(&self, caller: usize, out: &mut dyn Write) -> io::Result<()> {
        let mut arcs = self.graph.nodes[caller].callees.clone();
        arcs.sort_by(|&left, &right| self.compare(right, left));
        arcs.into_iter().try_for_each(|arc| self.write_arc(arc, self.graph.arcs[arc].callee, out))
    }

    /// Writes the line of a caller or callee.
    fn write_arc(&self, arc: usize, other: usize, out: &mut dyn Write) -> io::Result<()> {
        let arc = &self.graph.arcs[arc];
        if self.graph.is_inner(arc) {
            let width = self.children_width();
            write!(out, "{:6} {:5} {:7} {:width$} {:7} {:7}     ", "", "", "", "", arc.count, "")?;
        } else {
            let calls = self.graph.nodes[self.graph.outer(arc.callee)].calls;
            write!(
                out,
                "{:6} {:5} {} {} {:7}/{:<7}     ",
                "",
                "",
                fixed(arc.own / self.rate(), 7, 2),
                fixed(arc.children / self.rate(), self.children_width(), 2),
                arc.count,
                calls
            )?;
        }
        self.write_reference(other, out)?;
        writeln!(out)
    }

    /// Orders arcs: calls of itself, calls within the cycle by count, and others by time and count.
    fn compare(&self, left: usize, right: usize) -> Ordering {
        let (left, right) = (&self.graph.arcs[left], &self.graph.arcs[right]);
        let kind = |arc: &Arc| match arc.caller == arc.callee {
            true => 0,
            false => 2 - u8::from(self.graph.is_inner(arc)),
        };
        let time = |arc: &Arc| arc.own + arc.children;
        kind(left).cmp(&kind(right)).then_with(|| match kind(left) {
            0 => Ordering::Equal,
            1 => left.count.cmp(&right.count),
            _ => time(left).total_cmp(&time(right)).then(left.count.cmp(&right.count)),
        })
    }

    /// Writes a function's name, cycle and index.
    pub(super) fn write_reference(&self, function: usize, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self.name(function).as_bytes())?;
        let node = &self.graph.nodes[function];
        if node.cycle != 0 {
            write!(out, " <cycle {}>", node.cycle)?;
        }
        match (node.index, node.is_printed) {
            (0, _) => Ok(()),
            (index, true) => write!(out, " [{index}]"),
            (index, false) => write!(out, " ({index})"),
        }
    }
}

/// Returns the second number of a `called` column.
fn recursive(calls: u64) -> String {
    if calls == 0 { format!(" {:7}", "") } else { format!("+{calls:<7}") }
}
