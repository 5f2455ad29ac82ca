//! The profiles that a report is of: the options that all reports share.

use clap::Args;
use sigprof_analysis::{
    Error, formats,
    profile::{self, Profile},
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
        let mut profile = self.read()?;
        for warning in self.symbolizer().symbolize(&mut profile, &mut |_| {}) {
            eprintln!("sigprof: {warning}");
        }
        Ok(profile)
    }

    /// Reads and merges.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub(crate) fn read(&self) -> Result<Profile, Error> {
        let files = self.files.iter().map(|path| Ok((path.clone(), formats::read_file(path)?)));
        profile::merge(files).map(|merged| merged.expect("clap requires a file"))
    }

    /// What to call the profile: the names of its files.
    pub(crate) fn title(&self) -> String {
        let names: Vec<String> = self.files.iter().map(|path| path.display().to_string()).collect();
        names.join(", ")
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
