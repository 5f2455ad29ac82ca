//! The flat profile.

use super::{
    Report, explanations,
    print::{fixed, general},
};
use std::io::{self, Write};

/// SI prefixes of a second, with the number of such units in it.
const PREFIXES: [(char, f64); 11] = [
    ('T', 1e-12),
    ('G', 1e-9),
    ('M', 1e-6),
    ('K', 1e-3),
    (' ', 1.0),
    ('m', 1e3),
    ('u', 1e6),
    ('n', 1e9),
    ('p', 1e12),
    ('f', 1e15),
    ('a', 1e18),
];

const NO_TIME: &str = " no time accumulated";

impl Report {
    pub(super) fn write_flat(&self, out: &mut dyn Write) -> io::Result<()> {
        let is_traditional = self.options.is_traditional;
        let (prefix, scale) = if is_traditional { ('m', 1e3) } else { self.prefix() };
        let unit = format!("{prefix}{}/call", self.dimension.abbreviation);
        let unit = unit.trim_start();
        let dimension = &self.dimension.unit;
        if is_traditional {
            self.write_granularity(self.total, NO_TIME, out)?;
        } else {
            writeln!(
                out,
                "Flat profile:\n\nEach sample counts as {} {dimension}.",
                general(1.0 / self.rate())
            )?;
            if self.total <= 0.0 {
                writeln!(out, "{NO_TIME}\n")?;
            }
        }
        let total = if self.total > 0.0 { self.total } else { 1.0 };
        let decimals = if is_traditional { 1 } else { 2 };
        let percent_width = if is_traditional { 5 } else { 6 };
        let sum_width = if is_traditional { 10 } else { 9 };
        writeln!(
            out,
            "{:>5.5} {:>10.10} {:>8.8} {:>8.8} {:>8.8} {:>8.8}  {:<8.8}",
            "%  ", "cumulative", "self  ", "", "self  ", "total ", ""
        )?;
        writeln!(
            out,
            "{:>5.5} {:>9.9}  {:>8.8} {:>8.8} {:>8.8} {:>8.8}  {:<8.8}",
            "time", dimension, dimension, "calls", unit, unit, "name"
        )?;
        let mut sum = 0.0;
        for function in self.flat_order() {
            let node = &self.graph.nodes[function];
            if !self.flat.allows(function) || !self.options.shows_unused && node.calls == 0 && node.own == 0.0
            {
                continue;
            }
            sum += node.own;
            let rate = self.rate();
            write!(
                out,
                "{} {} {}",
                fixed(100.0 * node.own / total, percent_width, decimals),
                fixed(sum / rate, sum_width, 2),
                fixed(node.own / rate, 8, 2)
            )?;
            if node.calls == 0 {
                write!(out, " {:8} {:8} {:8}  ", "", "", "")?;
            } else {
                let calls = node.calls as f64;
                write!(
                    out,
                    " {:8} {} {}  ",
                    node.calls,
                    fixed(scale * node.own / rate / calls, 8, 2),
                    fixed(scale * (node.own + node.children) / rate / calls, 8, 2)
                )?;
            }
            if is_traditional && self.has_indices {
                self.write_reference(function, out)?;
                writeln!(out)?;
            } else {
                writeln!(out, "{}", self.name(function))?;
            }
        }
        self.write_explanation(explanations::FLAT, out)
    }

    /// Functions by time, then by calls, then by name.
    fn flat_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.executable.symbols().len()).collect();
        order.sort_by(|&left, &right| {
            let (one, other) = (&self.graph.nodes[left], &self.graph.nodes[right]);
            other.own.total_cmp(&one.own).then_with(|| other.calls.cmp(&one.calls)).then_with(|| {
                self.executable.symbols()[left].name.cmp(&self.executable.symbols()[right].name)
            })
        });
        order
    }

    /// Returns the prefix by which the longest call takes 1 to 1000 units.
    fn prefix(&self) -> (char, f64) {
        let of_call = |node: &super::graph::Node| (node.own + node.children) / node.calls as f64;
        let called =
            self.graph.nodes[..self.executable.symbols().len()].iter().filter(|node| node.calls != 0);
        let longest = called.map(of_call).fold(0.0, f64::max) / self.rate();
        if longest <= 0.0 || !longest.is_finite() {
            return if self.options.is_compatible { PREFIXES[0] } else { (' ', 1.0) };
        }
        let too_small = PREFIXES.iter().position(|(_, scale)| scale * longest >= 1000.0);
        PREFIXES[too_small.unwrap_or(PREFIXES.len() - 1).saturating_sub(1)]
    }
}
