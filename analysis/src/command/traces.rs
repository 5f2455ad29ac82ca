//! `sigprof traces`: each sample with its call stack.

use super::{Input, Shown, View};
use clap::Args;
use sigprof_analysis::{Error, granularity::Granularity, report::traces};
use std::process::ExitCode;

/// Print each call stack, with its value and labels
///
/// Samples with equal addresses and labels are added up; `raw` prints those of the file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof traces cpu.prof
  sigprof traces --focus 'malloc$' --granularity lines cpu.prof")]
pub(crate) struct TracesArgs {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    #[command(flatten)]
    shown: Shown,
}

impl TracesArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let (profile, context) = self.view.look(self.input.load()?, Granularity::Functions)?;
        self.shown.print(&profile, context, |context, out| traces::write(&profile, context, out))?;
        Ok(ExitCode::SUCCESS)
    }
}
