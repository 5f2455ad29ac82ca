//! `sigprof diff`: comparison of functions in two profiles.

use super::{Input, NameOptions, top::TopOptions};
use clap::{Args, ValueHint};
use sigprof_analysis::{Error, record::DEFAULT_OUTPUT};
use std::{path::PathBuf, process::ExitCode};

/// Compare two profiles: what each function takes more or less
///
/// old and new are a function's own time in the two profiles (with --cum, its time with all callees); diff is new minus old, and
/// diff% its share of the total of OLD. Samples are counted, so the counts of two equal runs differ, in 19 of 20 cases by less
/// than ±. If the difference of a row is within ±, the row is dimmed. Load, caches and input differ between runs, too: compare
/// several.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof diff before.prof after.prof
  sigprof diff                             # the last two of `sigprof record`
  sigprof diff --significant --cum before.prof after.prof
  sigprof flamegraph --diff-base before.prof -o diff.svg after.prof")]
pub(crate) struct DiffArgs {
    /// The older profile [default: sigprof.pb.gz.old]
    #[arg(value_hint = ValueHint::FilePath)]
    old: Option<PathBuf>,

    /// The newer profile [default: sigprof.pb.gz]
    #[arg(value_hint = ValueHint::FilePath)]
    new: Option<PathBuf>,

    #[command(flatten)]
    names: NameOptions,

    #[command(flatten)]
    table: TopOptions,
}

impl DiffArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let old = self.old.unwrap_or_else(|| format!("{DEFAULT_OUTPUT}.old").into());
        let new = self.new.unwrap_or_else(|| DEFAULT_OUTPUT.into());
        self.table.print(&Input::comparison(old, new, self.names))
    }
}
