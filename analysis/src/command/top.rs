//! `sigprof top`: the hottest functions.

use super::{Input, RowLimits, Shown, View};
use clap::Args;
use sigprof_analysis::{Error, granularity::Granularity, report::top};
use std::process::ExitCode;

/// Show the hottest functions
///
/// flat is a function's own time, cum its time with all callees; sum% is the share of all rows so far.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof top cpu.prof
  sigprof top --cum -n 20 cpu.prof
  sigprof top --focus '^parse_' --granularity lines cpu.prof
  sigprof top --diff-base before.prof after.prof     # as sigprof diff")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    table: TopOptions,
}

/// The options of a table of functions.
#[derive(Debug, Args)]
pub(crate) struct TopOptions {
    #[command(flatten)]
    rows: RowLimits,

    #[command(flatten)]
    view: View,

    #[command(flatten)]
    shown: Shown,
}

impl TopArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        self.table.print(&self.input)
    }
}

impl TopOptions {
    /// Prints the functions of a profile or comparison.
    ///
    /// # Errors
    /// If the profile cannot be read, or the table cannot be written.
    pub(crate) fn print(&self, input: &Input) -> Result<ExitCode, Error> {
        let (profile, context) = self.view.look(input.load()?, Granularity::Functions)?;
        let trim = self.rows.trim(0);
        self.shown.print(&profile, context, |context, out| top::write(&profile, context, &trim, out))?;
        Ok(ExitCode::SUCCESS)
    }
}
