//! `sigprof tree`: each function between its callers and callees.

use super::{Edges, Input, RowLimits, Shown, View};
use clap::Args;
use sigprof_analysis::{Error, granularity::Granularity, report::tree};
use std::process::ExitCode;

/// Show each function with its callers and callees
///
/// In each block, callers are above the function and callees below. calls% is the share of the function's cum.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof tree cpu.prof
  sigprof tree --cum -n 10 cpu.prof")]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    #[command(flatten)]
    rows: RowLimits,

    #[command(flatten)]
    edges: Edges,

    #[command(flatten)]
    shown: Shown,
}

impl TreeArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let (profile, context) = self.view.look(self.input.load()?, Granularity::Functions)?;
        let trim = self.edges.add_to(self.rows.trim(80));
        self.shown
            .print(&profile, context, |context, out| tree::write(&profile, context, &trim, None, out))?;
        Ok(ExitCode::SUCCESS)
    }
}
