//! `sigprof list`: source lines with their values.

use super::{Functions, Input, Shown, View};
use clap::Args;
use sigprof_analysis::{
    Error,
    granularity::Granularity,
    report::{SourcePaths, list},
};
use std::{path::PathBuf, process::ExitCode};

/// Show the source lines of functions, with their time
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof list '^main$' cpu.prof
  sigprof list parse --source-path ~/src/project cpu.prof")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    functions: Functions,

    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    #[command(flatten)]
    sources: SourceOptions,

    #[command(flatten)]
    shown: Shown,
}

/// Search paths of source files.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sources")]
pub(crate) struct SourceOptions {
    /// Search this directory for sources, by the longest matching end of the recorded path (repeatable)
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    source_path: Vec<PathBuf>,

    /// Remove this prefix from the recorded paths of sources (repeatable)
    #[arg(long, value_name = "PREFIX", hide_short_help = true)]
    trim_path: Vec<PathBuf>,
}

impl SourceOptions {
    /// Returns the search paths for a report.
    pub(crate) fn paths(&self) -> SourcePaths {
        SourcePaths { directories: self.source_path.clone(), prefixes: self.trim_path.clone() }
    }
}

impl ListArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let wanted = self.functions.expression(&self.input)?;
        let (profile, context) = self.view.look_at(self.input.load()?, Granularity::Lines, true)?;
        let sources = self.sources.paths();
        let write =
            |context: &_, out: &mut dyn std::io::Write| list::write(&profile, context, &wanted, sources, out);
        if self.shown.print(&profile, context, write)? == 0 {
            return Err(self.functions.no_match(&self.input));
        }
        Ok(ExitCode::SUCCESS)
    }
}
