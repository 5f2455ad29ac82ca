//! The commands: each defines its options and does its work; the library behind them knows nothing of options.

mod completions;
mod convert;
mod input;
mod manual;
mod output;
mod raw;
mod shown;
mod top;
mod view;

use clap::{Parser, Subcommand};
use sigprof_analysis::Error;
use std::process::ExitCode;

pub(crate) use input::Input;
pub(crate) use shown::{Rows, Shown};
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
    Convert(convert::Options),
    Top(top::Options),
    Raw(raw::Options),
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
            Command::Convert(options) => options.run(),
            Command::Top(options) => options.run(),
            Command::Raw(options) => options.run(),
            Command::Completions(options) => options.run(),
            Command::Manual(options) => options.run(),
        }
    }
}
