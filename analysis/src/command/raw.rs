//! `sigprof raw`: all that a profile holds.

use super::Input;
use clap::Args;
use sigprof_analysis::{Error, report::raw};
use std::{
    io::{self, BufWriter, Write as _},
    path::Path,
    process::ExitCode,
};

/// Print all that a profile holds
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,
}

impl Options {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let profile = self.input.load()?;
        let mut out = BufWriter::new(io::stdout().lock());
        raw::write(&profile, &mut out)
            .and_then(|()| out.flush())
            .map_err(|error| Error::io(Path::new("standard output"), "write", error))?;
        Ok(ExitCode::SUCCESS)
    }
}
