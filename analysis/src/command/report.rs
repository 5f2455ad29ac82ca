//! `sigprof report`: a page for a browser.

use super::{
    Input, View,
    list::SourceOptions,
    output::{Target, Title},
};
use clap::Args;
use sigprof_analysis::{Error, granularity::Granularity, report::page};
use std::process::ExitCode;

/// Write a page for the browser: flame graph, table, callers and callees, source
///
/// The page is one file, and loads nothing from elsewhere. It contains the names of functions and files, and the source text
/// of the hottest functions if their files are found. With --diff-base it shows a comparison.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof report                           # reads sigprof.pb.gz, writes sigprof.html
  sigprof report --open cpu.prof
  sigprof report --no-source -o cpu.html cpu.prof
  sigprof report --diff-base before.prof after.prof
  sigprof report --source-path ~/src/project -o cpu.html cpu.prof")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    #[command(flatten)]
    output: Target,

    /// Open the file in the browser (xdg-open)
    #[arg(long, help_heading = "Output")]
    open: bool,

    #[command(flatten)]
    title: Title,

    #[command(flatten)]
    sources: SourceOptions,

    /// Do not include source text
    #[arg(long, help_heading = "Sources")]
    no_source: bool,

    /// Maximum amount of source text, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = 1024,
        help_heading = "Sources",
        hide_short_help = true
    )]
    source_limit: usize,
}

impl ReportArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let profile = self.input.load()?;
        // The page contains all types.
        let shown = self.view.sample_type(&profile)?;
        let others = (0..profile.sample_types.len()).filter(|&place| place != shown);
        super::warn_of_sums(&profile, others);
        let whole = page::totals(&profile);
        // Lines are needed for source text; the page aggregates them to functions.
        let (profile, context) = self.view.look(profile, Granularity::Lines)?;
        let is_relative = context.total != whole[profile.default_type];
        let options = page::PageOptions {
            title: self.title.title,
            totals: (!is_relative).then_some(whole),
            filters: context.filters,
            source_paths: self.sources.paths(),
            source_limit: if self.no_source { 0 } else { self.source_limit.saturating_mul(1024) },
        };
        let page = page::render(&profile, &options);
        self.output.write_for_browser(page.as_bytes(), "sigprof.html", self.open)?;
        Ok(ExitCode::SUCCESS)
    }
}
