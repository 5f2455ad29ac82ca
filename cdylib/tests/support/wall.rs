//! Runs of `programs/wall.c`, with threads that wait, with clock `wall`.

use std::process::Command;

use super::process::{Finished, profiled, run};
use super::profile::Profile;
use super::scratch::{Linkage, Scratch};
use super::symbols::Symbolizer;

/// A successful run of `programs/wall.c`, and its profile.
pub(crate) struct Run {
    pub(crate) finished: Finished,
    pub(crate) profile: Profile,
    pub(crate) symbols: Symbolizer,
}

impl Run {
    #[track_caller]
    pub(crate) fn of(scratch: &Scratch, arguments: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut command = command(scratch, arguments);
        let finished = run(command.envs(settings.iter().copied())).expect_success();
        let profile = Profile::read(&scratch.path("prof"));
        Self { finished, profile, symbols: Symbolizer::default() }
    }

    pub(crate) fn period(&self) -> f64 {
        self.profile.period_micros as f64 / 1e6
    }

    #[track_caller]
    pub(crate) fn said(&self, name: &str) -> f64 {
        let text = self.finished.text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
    }

    #[track_caller]
    pub(crate) fn counted(&self, name: &str) -> u64 {
        let words = self.finished.stderr.split_whitespace();
        let figure = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).next();
        figure.unwrap_or_else(|| panic!("no {name} in {}", self.finished.stderr)).parse().expect("a number")
    }

    /// A figure of the last statistics line.
    #[track_caller]
    pub(crate) fn last(&self, name: &str) -> f64 {
        let words = self.finished.stderr.split_whitespace();
        let figure = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).next_back();
        figure.unwrap_or_else(|| panic!("no {name} in {}", self.finished.stderr)).parse().expect("a number")
    }

    pub(crate) fn sampled_in(&mut self, function: &str) -> f64 {
        let is_within = |names: &[String]| names.iter().any(|name| name == function);
        let share = self.profile.share(|record| is_within(&self.symbols.names(&self.profile, record)));
        share * self.profile.samples() as f64 * self.period()
    }
}

pub(crate) fn command(scratch: &Scratch, arguments: &[&str]) -> Command {
    let program = scratch.compile("wall.c", Linkage::None, &["-O2", "-pthread"]);
    let mut command = profiled(program, &scratch.path("prof"));
    command.args(arguments).current_dir(scratch.root());
    command.env("CPUPROFILE_CLOCK", "wall");
    command
}
