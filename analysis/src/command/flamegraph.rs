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
use std::{path::PathBuf, process::ExitCode};

/// Draw a flame graph as SVG
///
/// Each box is a function; its width is the time in it and its callees. Callers are below. In a browser, the picture can be
/// zoomed and searched.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof flamegraph                       # reads sigprof.pb.gz, writes sigprof.svg
  sigprof flamegraph --open cpu.prof
  sigprof flamegraph --icicle --title 'before the change' cpu.prof > cpu.svg
  sigprof flamegraph --diff before.prof -o diff.svg after.prof")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    #[command(flatten)]
    output: Target,

    /// Open the file in the browser (xdg-open)
    #[arg(long)]
    open: bool,

    /// Draw callers above the functions that they call
    #[arg(long)]
    icicle: bool,

    /// Compare with this older profile: red boxes take more time than in it, blue boxes less
    #[arg(long, value_name = "BASE", value_hint = clap::ValueHint::FilePath)]
    diff: Option<PathBuf>,

    /// Scale the profile of --diff to the same total, to compare shares
    #[arg(long, requires = "diff", hide_short_help = true)]
    normalize: bool,

    /// Group by thread; an error if samples have no threads
    #[arg(long)]
    by_thread: bool,

    #[command(flatten)]
    title: Title,

    /// Width of the picture, 200 to 100000 pixels [default: that of the window]
    #[arg(long, value_name = "PIXELS", value_parser = width, hide_short_help = true)]
    width: Option<usize>,
}

impl Options {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        self.input.ensure_one_is_standard_input(self.diff.as_deref());
        let profile = self.view.apply(self.input.load()?)?;
        let base = match &self.diff {
            Some(path) => Some(self.view.apply(self.input.load_file(path)?)?),
            None => None,
        };
        let options = flamegraph::Options {
            title: self.title.title,
            width: self.width,
            is_icicle: self.icicle,
            by_thread: self.by_thread,
            sample_type: None,
            is_normalized: self.normalize,
        };
        let svg = render(&profile, base.as_ref(), &options)?;
        self.output.write_for_browser(&svg, "sigprof.svg", self.open)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn width(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| WIDTHS.contains(number));
    number.ok_or_else(|| format!("must be between {} and {}", WIDTHS.start(), WIDTHS.end()))
}
