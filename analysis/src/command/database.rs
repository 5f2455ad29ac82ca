//! Writing of HPCToolkit databases: options of `sigprof convert`.

use super::Input;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sigprof_analysis::{
    Error,
    error::ErrorKind,
    formats::hpctoolkit::{DatabaseWriter, WriteOptions, is_database},
    rank,
};
use std::{path::Path, process::ExitCode};

#[derive(Debug, Args)]
#[command(next_help_heading = "HPCToolkit databases")]
pub(crate) struct DatabaseOptions {
    /// Rank of the first profile; the others follow [default: labels of the samples, then file names]
    #[arg(long, value_name = "N", hide_short_help = true)]
    rank: Option<u32>,

    /// Do not copy sources into the database
    #[arg(long, hide_short_help = true)]
    no_sources: bool,

    /// Begin the call stacks of all threads at the main thread, for readers that show only this one
    #[arg(long, hide_short_help = true)]
    one_entry_point: bool,

    /// Write names in ASCII, other characters as \u{e9}, for Hatchet and other readers in Python
    #[arg(long, hide_short_help = true)]
    ascii: bool,

    /// Replace an existing database
    #[arg(long, hide_short_help = true)]
    force: bool,
}

impl DatabaseOptions {
    /// # Errors
    /// If an option was given, for another format.
    pub(crate) fn ensure_unused(&self) -> Result<(), Error> {
        let given = [
            ("rank", self.rank.is_some()),
            ("no-sources", self.no_sources),
            ("one-entry-point", self.one_entry_point),
            ("ascii", self.ascii),
            ("force", self.force),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => {
                Err(Error::new(ErrorKind::Request, format!("--{name}: only databases have it"))
                    .advise("leave it out, or use `--to hpctoolkit`"))
            }
            None => Ok(()),
        }
    }

    /// Converts profiles to a database.
    ///
    /// # Errors
    /// If a profile cannot be read, or the database not be written.
    pub(crate) fn write(&self, input: &Input, target: Option<&Path>) -> Result<ExitCode, Error> {
        let Some(target) = target.filter(|path| *path != Path::new("-")) else {
            return Err(
                Error::new(ErrorKind::Request, "a database is a directory").advise("name it with `-o DIR`")
            );
        };
        self.ensure_replaceable(target)?;
        let options = WriteOptions {
            title: input.title(),
            copies_sources: !self.no_sources,
            has_one_entry_point: self.one_entry_point,
            is_ascii: self.ascii,
        };
        let mut writer = DatabaseWriter::new(target, options)?;
        let count = input.paths().len();
        let style = ProgressStyle::with_template("sigprof: {bar:25} {pos} of {len} profiles");
        let bar =
            ProgressBar::new(count as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        // One file is not worth a bar.
        let bar = (count > 1).then_some(bar);
        let ranks: Vec<Option<i64>> = match self.rank {
            Some(first) => (i64::from(first)..).map(Some).take(count).collect(),
            None => input.paths().into_iter().map(rank::in_name).collect(),
        };
        ranks.iter().flatten().for_each(|&rank| writer.reserve_rank(rank));
        let mut ranks = ranks.into_iter();
        let done = input.for_each(|path, profile| {
            let rank = ranks.next().flatten();
            if let Some(bar) = &bar {
                bar.inc(1);
            }
            writer.add(&profile, rank).map_err(|error| error.at(path))
        });
        if let Some(bar) = &bar {
            bar.finish_and_clear();
        }
        done?;
        writer.finish(target, self.force)?;
        Ok(ExitCode::SUCCESS)
    }

    /// # Errors
    /// If something exists at `target` that must not be replaced.
    fn ensure_replaceable(&self, target: &Path) -> Result<(), Error> {
        let Ok(status) = target.symlink_metadata() else { return Ok(()) };
        let refused = |reason: &str, advice: &str| {
            Err(Error::new(ErrorKind::Request, reason).advise(advice).at(target))
        };
        let is_empty = status.is_dir() && target.read_dir().is_ok_and(|mut entries| entries.next().is_none());
        match (status.is_dir(), is_empty || is_database(target), self.force) {
            (true, true, true) => Ok(()),
            (true, true, false) => {
                refused("the directory exists", "replace it with `--force`, or name another one")
            }
            (true, false, _) => refused("the directory exists, and has other contents", "name another one"),
            (false, ..) => refused("it exists, and is not a directory", "name another one"),
        }
    }
}
