//! `sigprof peek`: callers and callees of some functions.

use super::{Input, Shown, View};
use clap::Args;
use sigprof_analysis::{
    Error, error::ErrorKind, filter::expression, granularity::Granularity, graph::Trim, report::tree,
};
use std::process::ExitCode;

/// Show the callers of functions that match, and what they call
///
/// As `tree`, for these functions alone, and however little they take.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof peek '^malloc$' cpu.prof")]
pub(crate) struct Options {
    /// The functions
    #[arg(value_name = "REGEX")]
    functions: String,

    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    /// Order by what functions take with all they call, not by what they take themselves
    #[arg(long, help_heading = "Rows")]
    cum: bool,

    #[command(flatten)]
    shown: Shown,
}

impl Options {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let wanted = expression("REGEX", &self.functions)?;
        let (profile, context) = self.view.look(self.input.load()?, Granularity::Functions)?;
        let trim = Trim { by_cum: self.cum, ..Trim::ALL };
        let write = |context: &_, out: &mut dyn std::io::Write| {
            tree::write(&profile, context, &trim, Some(&wanted), out)
        };
        if self.shown.print(&profile, context, write)? == 0 {
            return Err(no_match(&self.functions));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The error where no function matches.
pub(super) fn no_match(functions: &str) -> Error {
    Error::new(ErrorKind::Request, format!("no function of the profile matches `{functions}`"))
        .advise("`sigprof top --nodefraction 0` shows all there are")
}
