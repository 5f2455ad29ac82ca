//! The commands: each defines its options and does its work; the library behind them knows nothing of options.

mod callgraph;
mod completions;
mod convert;
mod disasm;
mod flamegraph;
mod input;
mod list;
mod manual;
mod output;
mod peek;
mod raw;
mod record;
mod recover;
mod report;
mod shown;
mod top;
mod traces;
mod tree;
mod view;

use clap::{Parser, Subcommand};
use sigprof_analysis::Error;
use std::process::ExitCode;

pub(crate) use input::Input;
pub(crate) use shown::{Edges, Output, Rows, Shown};
pub(crate) use view::View;

/// Record a program, and see where its time went.
#[derive(Debug, Parser)]
#[command(
    name = "sigprof",
    version,
    max_term_width = 100,
    propagate_version = true,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(record::Options),
    Top(top::Options),
    Tree(tree::Options),
    Peek(peek::Options),
    Traces(traces::Options),
    List(list::Options),
    Disasm(disasm::Options),
    Callgraph(callgraph::Options),
    Flamegraph(flamegraph::Options),
    Report(report::Options),
    Convert(convert::Options),
    Raw(raw::Options),
    Recover(recover::Options),
    Completions(completions::Options),
    Manual(manual::Options),
}

impl Arguments {
    /// Does what was asked for; gives the exit status.
    ///
    /// # Errors
    /// Where it cannot be done.
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        match self.command {
            Command::Record(options) => options.run(),
            Command::Top(options) => options.run(),
            Command::Tree(options) => options.run(),
            Command::Peek(options) => options.run(),
            Command::Traces(options) => options.run(),
            Command::List(options) => options.run(),
            Command::Disasm(options) => options.run(),
            Command::Callgraph(options) => options.run(),
            Command::Flamegraph(options) => options.run(),
            Command::Report(options) => options.run(),
            Command::Convert(options) => options.run(),
            Command::Raw(options) => options.run(),
            Command::Recover(options) => options.run(),
            Command::Completions(options) => options.run(),
            Command::Manual(options) => options.run(),
        }
    }
}
