//! `sigprof raw`: all that a profile holds.

use super::{Input, Output, View};
use clap::Args;
use sigprof_analysis::{Error, granularity::Granularity, report::raw};
use std::process::ExitCode;

/// Print all that a profile holds
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof raw cpu.prof")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,
}

impl Options {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let (profile, _) = self.view.look(self.input.load()?, Granularity::Addresses)?;
        Output::default().write(|out| raw::write(&profile, out))?;
        Ok(ExitCode::SUCCESS)
    }
}
