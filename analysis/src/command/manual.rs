//! `sigprof manual`: the manual pages, made from the definitions of the options.

use super::Arguments;
use clap::{Args, CommandFactory as _};
use sigprof_analysis::Error;
use std::{path::PathBuf, process::ExitCode};

/// Write the manual pages, one for each command
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof manual ~/.local/share/man/man1 && man sigprof-record")]
pub(crate) struct Options {
    /// The directory to write them to; made where it is not there
    directory: PathBuf,
}

impl Options {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let fails = |error| Error::io(&self.directory, "write the manual pages", error);
        std::fs::create_dir_all(&self.directory).map_err(fails)?;
        let mut command = Arguments::command();
        command.build();
        clap_mangen::generate_to(command, &self.directory).map_err(fails)?;
        Ok(ExitCode::SUCCESS)
    }
}
