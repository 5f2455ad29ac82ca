//! `sigprof flamegraph`: a flame graph as SVG.

use super::{
    Input, View,
    output::{Target, Title},
};
use clap::Args;
use sigprof_analysis::{
    Error,
    report::flamegraph::{self, WIDTHS, render},
};
use std::process::ExitCode;

/// Draw a flame graph as SVG
///
/// Each box is a function; its width is the time in it and its callees, which are below it. In a browser, the picture can be
/// zoomed and searched. With --diff-base, red boxes take more time than in OLD, and blue boxes less, unless that is within noise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof flamegraph                       # reads sigprof.pb.gz, writes sigprof.svg
  sigprof flamegraph --open cpu.prof
  sigprof flamegraph --upward --title 'before the change' cpu.prof > cpu.svg
  sigprof flamegraph --diff-base before.prof -o diff.svg after.prof")]
pub(crate) struct FlamegraphArgs {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    #[command(flatten)]
    output: Target,

    /// Open the file in the browser (xdg-open)
    #[arg(long)]
    open: bool,

    /// Draw callers below the functions that they call, so that stacks grow upward like flames
    #[arg(long)]
    upward: bool,

    /// Group by thread; an error if samples have no threads
    #[arg(long)]
    by_thread: bool,

    #[command(flatten)]
    title: Title,

    /// Width of the picture, 200 to 100000 pixels [default: that of the window]
    #[arg(long, value_name = "PIXELS", value_parser = width, hide_short_help = true)]
    width: Option<usize>,
}

impl FlamegraphArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let profile = self.view.apply(self.input.load()?)?;
        let options = flamegraph::FlamegraphOptions {
            title: self.title.title,
            width: self.width,
            is_upward: self.upward,
            by_thread: self.by_thread,
            sample_type: None,
        };
        let svg = render(&profile, &options)?;
        self.output.write_for_browser(&svg, "sigprof.svg", self.open)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn width(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| WIDTHS.contains(number));
    number.ok_or_else(|| format!("must be between {} and {}", WIDTHS.start(), WIDTHS.end()))
}
