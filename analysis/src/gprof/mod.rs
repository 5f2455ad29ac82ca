//! Reports of gprof: flat profile and call graph of a program compiled with `-pg`.
//!
//! ```text
//! executable --symbols--> functions --samples--> own times --graph--> times with callees
//!     --flat, call_graph--> text
//! ```
//!
//! Sources: the GNU gprof manual, chapters 4 to 6; GNU gprof 2.40 for the layout of the text.

mod call_graph;
mod explanations;
mod flat;
mod graph;
mod print;
mod samples;
mod selection;
mod symbols;

pub use symbols::{Executable, SymbolOptions};

use crate::{
    error::{Error, ErrorKind},
    formats::gmon::{Dimension, Gmon},
    symbolize::demangle_keeping_clones,
    text::visible,
};
use graph::Graph;
use selection::Selection;
use std::io::{self, Write};

/// What is printed, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Print the flat profile (`-p`).
    pub has_flat: bool,
    /// Print the call graph and its index (`-q`).
    pub has_call_graph: bool,
    /// Omit the explanations (`-b`).
    pub is_brief: bool,
    /// Print functions without time and calls (`-z`).
    pub shows_unused: bool,
    /// Print C++ and Rust names as in the source.
    pub demangles: bool,
    /// Width of the index, in columns (`-w`).
    pub width: usize,
    /// Print exactly what GNU gprof prints.
    pub is_compatible: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            has_flat: true,
            has_call_graph: true,
            is_brief: false,
            shows_unused: false,
            demangles: true,
            width: 80,
            is_compatible: false,
        }
    }
}

/// Functions of the `-pg` runtime. The reports omit them.
const INTERNAL: [&str; 5] = ["mcount", "_mcount", "__mcount", "__mcount_internal", "_gprof_mcount"];

/// The report of a program.
#[derive(Debug)]
pub struct Report {
    executable: Executable,
    options: Options,
    dimension: Dimension,
    /// Size of a bin of the histogram, in units.
    scale: f64,
    /// Number of samples, which is 100 % of the flat profile.
    total: f64,
    graph: Graph,
    /// Functions and cycles in the order of their entries.
    entries: Vec<usize>,
    flat: Selection,
}

impl Report {
    /// Calculates the times of functions.
    ///
    /// # Errors
    /// If the data lack samples for the flat profile, or calls for the call graph.
    pub fn new(executable: Executable, gmon: &Gmon, options: Options) -> Result<Self, Error> {
        let fails = |reason| Err(Error::new(ErrorKind::Request, reason));
        if options.has_flat && gmon.histograms.is_empty() {
            return fails(
                "the data have no samples, which the flat profile needs; print the call graph with -q",
            );
        }
        if options.has_call_graph && gmon.arcs.is_empty() {
            return fails(
                "the data have no calls, which the call graph needs; compile and link the program with -pg, or print the flat profile with -p",
            );
        }
        let symbols = executable.symbols();
        let mut own = vec![0.0; symbols.len()];
        let mut total = 0.0;
        for histogram in &gmon.histograms {
            total += samples::add(histogram, symbols, &mut own, options.is_compatible);
        }
        let is_internal = |symbol: &symbols::Symbol| INTERNAL.contains(&symbol.name.as_str());
        let shown = Selection::without(symbols.iter().map(is_internal).collect());
        // Functions that the flat profile omits have no time in the call graph, either.
        for (function, own) in own.iter_mut().enumerate() {
            if !shown.allows(function) {
                total -= std::mem::take(own);
            }
        }
        let mut graph = Graph::new(&own);
        // GNU gprof takes a label for a part of the function before it.
        let mut function = None;
        let callees: Vec<Option<usize>> = (0..symbols.len())
            .map(|place| {
                if symbols[place].is_function || !options.is_compatible {
                    function = Some(place);
                }
                function
            })
            .collect();
        for arc in &gmon.arcs {
            let callee = executable.find(arc.callee).and_then(|callee| callees[callee]);
            if let (Some(caller), Some(callee)) = (executable.find(arc.from), callee) {
                graph.add(caller, callee, arc.count);
            }
        }
        graph.propagate(&shown, &shown);
        if !options.is_compatible {
            total = own.iter().sum();
        }
        let mut dimension = gmon.dimension.clone().unwrap_or_default();
        if dimension.rate == 0 && !options.is_compatible {
            // All times are 0.
            dimension.rate = 1;
        }
        let mut report = Self {
            executable,
            options,
            dimension,
            scale: gmon.histograms.first().map_or(f64::NAN, |histogram| histogram.scale()),
            total,
            graph,
            entries: Vec::new(),
            flat: shown,
        };
        report.number_entries();
        Ok(report)
    }

    /// Prints the report.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.options.has_flat {
            self.write_flat(out)?;
            self.write_explanation(explanations::FLAT, out)?;
        }
        if self.options.has_call_graph {
            if self.options.has_flat {
                writeln!(out, "\x0c")?;
            }
            self.write_graph(out)?;
            self.write_explanation(explanations::CALL_GRAPH, out)?;
            writeln!(out, "\x0c")?;
            self.write_index(out)?;
        }
        Ok(())
    }

    fn write_explanation(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.options.is_brief { Ok(()) } else { out.write_all(text.as_bytes()) }
    }

    fn rate(&self) -> f64 {
        self.dimension.rate.into()
    }

    /// Returns a function's name as it is printed.
    fn name(&self, function: usize) -> String {
        let name = &self.executable.symbols()[function].name;
        let name = if self.options.demangles { demangle_keeping_clones(name) } else { name.clone() };
        visible(&name).into_owned()
    }
}
