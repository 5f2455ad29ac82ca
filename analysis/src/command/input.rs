//! The profiles that a report is of: the options that all reports share.

use clap::Args;
use sigprof_analysis::{
    Error, formats,
    profile::Profile,
    symbolize::{Options, Symbolizer},
};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// The profiles; several are merged
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Look for binaries and debug files below this directory, as the root of the machine that was profiled
    #[arg(long, value_name = "DIR", help_heading = "Names")]
    sysroot: Option<PathBuf>,

    /// Take this file for the program's own binary
    #[arg(long, value_name = "FILE", help_heading = "Names")]
    binary: Option<PathBuf>,

    /// Show names as the linker has them
    #[arg(long, help_heading = "Names")]
    no_demangle: bool,
}

impl Input {
    /// Reads, merges and names. What could not be named is said on stderr.
    ///
    /// # Errors
    /// Where a profile cannot be read, or those to be merged do not go together.
    pub(crate) fn load(&self) -> Result<Profile, Error> {
        let mut profile = formats::read_file(&self.files[0])?;
        for warning in self.symbolizer().symbolize(&mut profile, &mut |_| {}) {
            eprintln!("sigprof: {warning}");
        }
        Ok(profile)
    }

    /// What finds the binaries of the profile.
    pub(crate) fn symbolizer(&self) -> Symbolizer {
        Symbolizer::new(Options {
            sysroot: self.sysroot.clone(),
            binary: self.binary.clone(),
            demangle: !self.no_demangle,
            ..Options::default()
        })
    }
}
