//! `sigprof callgraph`: the call graph as text and pictures.

use super::{Edges, Input, RowLimits, Shown, View, output::Target};
use clap::{Args, ValueEnum};
use sigprof_analysis::{
    Error,
    granularity::Granularity,
    graph::Trim,
    report::{callgraph, dot},
};
use std::process::ExitCode;

/// Show the call graph: as a text tree, or as DOT or SVG
///
/// The tree starts at the outermost functions; a function with several callers is shown below each of them. The graph has each
/// function once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof callgraph cpu.prof
  sigprof callgraph --format dot cpu.prof > calls.dot
  sigprof callgraph --format svg -o calls.svg --focus '^parse_' cpu.prof")]
pub(crate) struct CallgraphArgs {
    #[command(flatten)]
    input: Input,

    /// Output format; svg needs graphviz
    #[arg(long, value_enum, default_value = "text", help_heading = "Output")]
    format: GraphFormat,

    #[command(flatten)]
    output: Target,

    #[command(flatten)]
    view: View,

    #[command(flatten)]
    rows: RowLimits,

    #[command(flatten)]
    edges: Edges,

    #[command(flatten)]
    shown: Shown,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum GraphFormat {
    /// An indented tree
    Text,
    /// For graphviz
    Dot,
    /// A picture, drawn by graphviz's dot
    Svg,
}

impl CallgraphArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let (profile, mut context) = self.view.look(self.input.load()?, Granularity::Functions)?;
        let trim = |count| self.edges.add_to(self.rows.trim(count));
        if self.format == GraphFormat::Text {
            self.shown.prepare(&profile, &mut context, self.output.terminal())?;
            self.output.write_text(|out| callgraph::write(&profile, &context, &trim(0), out))?;
            return Ok(ExitCode::SUCCESS);
        }
        self.shown.prepare(&profile, &mut context, None)?;
        // By cumulative value, so that the graph is connected.
        let trim = Trim { by_cum: true, ..trim(80) };
        let mut graph = Vec::new();
        dot::write(&profile, &context, &trim, &mut graph).expect("memory takes all that is written to it");
        let bytes = if self.format == GraphFormat::Svg { dot::to_svg(&graph)? } else { graph };
        self.output.write_text(|out| out.write_all(&bytes))?;
        Ok(ExitCode::SUCCESS)
    }
}
