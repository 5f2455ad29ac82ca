//! Reports of gprof: flat profile and call graph of a program compiled with `-pg`.
//!
//! ```text
//! executable --symbols--> functions --samples--> own times --graph--> times with callees
//!     --flat, call_graph--> text
//! ```
//!
//! Sources: the GNU gprof manual, chapters 4 to 6; GNU gprof 2.40 for the layout of the text.

mod annotate;
mod call_graph;
mod exec_counts;
mod explanations;
mod flat;
mod graph;
mod print;
mod samples;
mod selection;
mod static_calls;
mod symbols;
mod symspec;

pub use annotate::{AnnotatedSource, SourceOptions};
pub use selection::{Section, Specs};
pub use symbols::{Executable, SymbolOptions};

use crate::{
    error::{Error, ErrorKind},
    formats::gmon::{Block, Dimension, Gmon},
    symbolize::{SourceLine, demangle_keeping_clones},
    text::visible,
};
use graph::Graph;
use selection::{ArcSelection, Matching, Selection};
use std::{
    borrow::Cow,
    io::{self, Write},
};
use symbols::Symbol;

/// What is printed, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The flat profile (`-p`, `-P`).
    pub flat: Section,
    /// The call graph and its index (`-q`, `-Q`): functions with an entry, and their callees.
    pub call_graph: Section,
    /// The number of calls of each function (`-C`, `-Z`).
    pub exec_counts: Section,
    /// The sources of functions, with numbers of calls (`-A`, `-J`).
    pub sources: Section,
    /// How the sources are printed.
    pub source_options: SourceOptions,
    /// Functions with times in the call graph (`-n`, `-N`).
    pub time: Specs,
    /// Calls in the call graph, as `from/to` (`-q`, `-k`).
    pub arcs: Specs,
    /// Add calls that are in the code, but were not executed (`-c`).
    pub has_static_calls: bool,
    /// Print in the style of BSD (`-T`).
    pub is_traditional: bool,
    /// Print source lines behind names (`-l`).
    pub by_line: bool,
    /// Print files with their directories (`-L`).
    pub prints_paths: bool,
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

/// Functions of the `-pg` runtime. The reports omit them.
const INTERNAL: [&str; 5] = ["mcount", "_mcount", "__mcount", "__mcount_internal", "_gprof_mcount"];

/// The report of a program.
#[derive(Debug)]
pub struct Report {
    executable: Executable,
    /// The printed name of each symbol.
    names: Vec<String>,
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
    exec_counts: Selection,
    sources: Selection,
    /// Basic blocks of each symbol, if functions are divided by line.
    blocks: Vec<Vec<Block>>,
    /// The call graph is known, and entries have indices.
    has_indices: bool,
}

impl Report {
    /// Calculates the times of functions.
    ///
    /// # Errors
    /// If the data lack samples for the flat profile, or calls for the call graph; if a symspec matches
    /// nothing.
    pub fn new(executable: Executable, gmon: &Gmon, options: Options) -> Result<Self, Error> {
        let fails = |reason| Err(Error::new(ErrorKind::Request, reason));
        if options.flat.is_printed && gmon.histograms.is_empty() {
            return fails(
                "the data have no samples, which the flat profile needs; print the call graph with -q",
            );
        }
        if options.call_graph.is_printed && gmon.arcs.is_empty() {
            return fails(
                "the data have no calls, which the call graph needs; compile and link the program with -pg, or print the flat profile with -p",
            );
        }
        if options.has_static_calls && !executable.text.is_x86 {
            return fails("calls in the code (-c) can only be found in programs for x86; omit -c");
        }
        let symbols = executable.symbols();
        let mut own = vec![0.0; symbols.len()];
        let mut total = 0.0;
        for histogram in &gmon.histograms {
            total += samples::add(histogram, symbols, &mut own, options.is_compatible);
        }
        let names: Vec<String> = symbols.iter().map(|symbol| printed_name(symbol, &options)).collect();
        let matching = Matching { symbols, names: &names, is_compatible: options.is_compatible };
        if !options.is_compatible {
            let Options { flat, call_graph, exec_counts, sources, time, arcs, .. } = &options;
            let sections = [flat, call_graph, exec_counts, sources].map(|section| &section.specs);
            matching.ensure_found(&[&sections[..], &[time]].concat(), arcs)?;
        }
        let is_internal = |function: usize| INTERNAL.contains(&symbols[function].name.as_str());
        let flat = Selection::new(&options.flat.specs, &matching, |function| {
            options.is_compatible && is_internal(function)
        });
        let printed = Selection::new(&options.call_graph.specs, &matching, is_internal);
        let timed = Selection::new(&options.time, &matching, is_internal);
        let exec_counts = Selection::new(&options.exec_counts.specs, &matching, |_| false);
        let sources = Selection::new(&options.sources.specs, &matching, |_| false);
        let arcs = ArcSelection::new(&options.arcs, &matching);
        if options.is_compatible {
            // Functions that the flat profile omits have no time in the call graph, either.
            for (function, own) in own.iter_mut().enumerate() {
                if !flat.allows(function) {
                    total -= std::mem::take(own);
                }
            }
        }
        let mut graph = Graph::new(&own);
        add_calls(&mut graph, &executable, gmon, &arcs, options.is_compatible);
        if options.has_static_calls {
            for (caller, callee) in static_calls::find(&executable, &gmon.histograms, options.is_compatible) {
                graph.add(caller, callee, 0);
            }
        }
        graph.propagate(&printed, &timed);
        if !options.is_compatible {
            total = own.iter().fold(0.0, |sum, own| sum + own);
        }
        let mut dimension = gmon.dimension.clone().unwrap_or_default();
        if dimension.rate == 0 && !options.is_compatible {
            // All times are 0.
            dimension.rate = 1;
        }
        let blocks = if options.by_line { gmon.blocks.as_slice() } else { &[] };
        let blocks = blocks_by_symbol(&executable, blocks, options.is_compatible);
        let mut report = Self {
            executable,
            options,
            dimension,
            scale: gmon.histograms.first().map_or(f64::NAN, |histogram| histogram.scale()),
            total,
            graph,
            entries: Vec::new(),
            flat,
            exec_counts,
            sources,
            blocks,
            has_indices: !gmon.arcs.is_empty(),
            names,
        };
        report.number_entries();
        Ok(report)
    }

    /// Prints the report.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        type WriteSection = fn(&Report, &mut dyn Write) -> io::Result<()>;
        let Options { flat, call_graph, exec_counts, is_traditional, .. } = &self.options;
        let mut sections: Vec<(&Section, WriteSection)> =
            vec![(flat, Self::write_flat), (call_graph, Self::write_graph)];
        if *is_traditional {
            sections.reverse();
        }
        sections.push((call_graph, Self::write_index));
        sections.push((exec_counts, Self::write_exec_counts));
        let mut is_first = true;
        for (_, write) in sections.into_iter().filter(|(section, _)| section.is_printed) {
            if !std::mem::take(&mut is_first) {
                writeln!(out, "\x0c")?;
            }
            write(self, out)?;
        }
        Ok(())
    }

    fn blocks_of(&self, symbol: usize) -> impl Iterator<Item = &Block> {
        self.blocks[symbol].iter()
    }

    fn write_explanation(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.options.is_brief { Ok(()) } else { out.write_all(text.as_bytes()) }
    }

    /// Returns a function's name, with the line if that is wanted.
    fn name(&self, function: usize) -> Cow<'_, str> {
        let (name, symbol) = (&self.names[function], &self.executable.symbols()[function]);
        match symbol.source.as_ref().filter(|_| self.options.by_line) {
            Some(SourceLine { file, line }) => {
                let file = printed_file(file, self.options.prints_paths);
                format!("{name} ({file}:{line} @ {:x})", symbol.start).into()
            }
            None => name.into(),
        }
    }

    fn rate(&self) -> f64 {
        self.dimension.rate.into()
    }
}

/// Returns a function's name as it is printed.
fn printed_name(symbol: &Symbol, options: &Options) -> String {
    let name = &symbol.name;
    let name = if options.demangles { demangle_keeping_clones(name) } else { name.clone() };
    visible(&name).into_owned()
}

/// Returns a file's name, with or without directories.
fn printed_file(path: &str, has_directories: bool) -> Cow<'_, str> {
    visible(if has_directories { path } else { path.rsplit('/').next().unwrap_or(path) })
}

/// Adds the calls between symbols.
fn add_calls(
    graph: &mut Graph,
    executable: &Executable,
    gmon: &Gmon,
    selected: &ArcSelection,
    is_compatible: bool,
) {
    // The callee of a call is a function, not a line in it. GNU gprof also takes a label for a part of
    // the function before it.
    let mut function = None;
    let callees: Vec<Option<usize>> = (0..)
        .zip(executable.symbols())
        .map(|(place, symbol)| {
            let is_whole = if is_compatible { symbol.is_function } else { !symbol.is_line };
            if is_whole {
                function = Some(place);
            }
            function
        })
        .collect();
    for arc in &gmon.arcs {
        let callee = executable.find(arc.callee).and_then(|callee| callees[callee]);
        if let (Some(caller), Some(callee)) = (executable.find(arc.from), callee) {
            if selected.allows(caller, callee) {
                graph.add(caller, callee, arc.count);
            }
        }
    }
}

/// Returns the basic blocks of each symbol. GNU gprof forgets the eleventh of a symbol and those after
/// it.
fn blocks_by_symbol(executable: &Executable, blocks: &[Block], is_compatible: bool) -> Vec<Vec<Block>> {
    const MAX: usize = 10;
    let mut by_symbol = vec![Vec::new(); executable.symbols().len()];
    for &block in blocks {
        let Some(symbol) = executable.find(block.address) else { continue };
        let of_symbol: &mut Vec<Block> = &mut by_symbol[symbol];
        if !is_compatible {
            of_symbol.push(block);
            continue;
        }
        match of_symbol.iter().position(|known| known.address == block.address) {
            Some(place) => of_symbol[place].count = of_symbol[place].count.saturating_add(block.count),
            None if of_symbol.len() < MAX => of_symbol.push(block),
            None => {}
        }
    }
    by_symbol
}
