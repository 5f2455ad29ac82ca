//! `sigprof peek`: callers and callees of some functions.

use super::{Functions, Input, Order, Shown, View};
use clap::Args;
use sigprof_analysis::{Error, granularity::Granularity, graph::Trim, report::tree};
use std::process::ExitCode;

/// Show the callers and callees of functions
///
/// The same as `tree`, only for these functions, and without a minimum of time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof peek 'malloc$' cpu.prof")]
pub(crate) struct PeekArgs {
    #[command(flatten)]
    functions: Functions,

    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    #[command(flatten)]
    order: Order,

    #[command(flatten)]
    shown: Shown,
}

impl PeekArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let wanted = self.functions.expression(&self.input)?;
        let (profile, context) = self.view.look(self.input.load()?, Granularity::Functions)?;
        let trim = Trim { by_cum: self.order.cum, ..Trim::ALL };
        let write = |context: &_, out: &mut dyn std::io::Write| {
            tree::write(&profile, context, &trim, Some(&wanted), out)
        };
        if self.shown.print(&profile, context, write)? == 0 {
            return Err(self.functions.no_match(&self.input));
        }
        Ok(ExitCode::SUCCESS)
    }
}
