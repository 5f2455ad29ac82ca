//! `sigprof report`: all of a profile on one page for a browser.

use super::{Input, View, list::SourceOptions, output};
use clap::Args;
use sigprof_analysis::{Error, granularity::Granularity, report::page};
use std::{path::PathBuf, process::ExitCode};

/// Make a page for a browser: flame graph, table, callers and callees, source
///
/// The page is one file that loads nothing: it can be mailed, kept and opened anywhere. It holds the names of functions and
/// files, and the source text of the hottest functions where the files are found.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof report -o cpu.html cpu.prof
  sigprof report --no-source -o cpu.html cpu.prof
  sigprof report --source-path ~/src/project -o cpu.html cpu.prof")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    /// Write to this file, `-` for standard output [default: standard output, unless it is a terminal]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write this at the top of the page [default: the name of the program]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    #[command(flatten)]
    sources: SourceOptions,

    /// Leave source text out of the page
    #[arg(long, help_heading = "Sources")]
    no_source: bool,

    /// Put at most this much source text into the page, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 1024, help_heading = "Sources")]
    source_limit: usize,
}

impl Options {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let profile = self.input.load()?;
        let whole = page::totals(&profile);
        // Lines, so that source can be shown; the page itself makes functions of them.
        let (profile, context) = self.view.look(profile, Granularity::Lines)?;
        let is_relative = context.total != whole[profile.default_type];
        let options = page::Options {
            title: self.title,
            totals: (!is_relative).then_some(whole),
            filters: context.filters,
            source_paths: self.sources.paths(),
            source_limit: if self.no_source { 0 } else { self.source_limit.saturating_mul(1024) },
        };
        output::write(self.output.as_deref(), page::render(&profile, &options).as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}
