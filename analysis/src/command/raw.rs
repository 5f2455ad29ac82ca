//! `sigprof raw`: all contents of a profile.

use super::{Input, View, output::Target};
use clap::Args;
use sigprof_analysis::{Error, granularity::Granularity, report::raw};
use std::process::ExitCode;

/// Print everything that a profile holds
///
/// Prints the samples as stored. Other reports merge samples with equal call stacks and labels.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof raw cpu.prof")]
pub(crate) struct RawArgs {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,
}

impl RawArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let (profile, _) = self.view.look(self.input.load_all_samples()?, Granularity::Addresses)?;
        Target::default().write_text(|out| raw::write(&profile, out))?;
        Ok(ExitCode::SUCCESS)
    }
}
