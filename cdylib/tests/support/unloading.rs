//! Runs of `programs/unloading.c`: libraries that are loaded and unloaded under ticks.

use std::process::Command;

use super::library::shared_library;
use super::process::{Finished, plain, profiled, run};
use super::profile::{Profile, Record};
use super::scratch::{Linkage, Scratch};
use super::symbols::{Root, Symbolizer};

pub(crate) struct Outcome {
    /// The library's first address.
    library: usize,
    pub(crate) rounds: usize,
    pub(crate) at_same_place: usize,
    /// The page of code without call frame information.
    guess_page: usize,
}

pub(crate) struct Settings {
    pub(crate) frequency: u32,
    pub(crate) rounds: usize,
    /// As in the program's usage; may be empty.
    pub(crate) order: &'static str,
}

/// Runs `programs/unloading.c` with two libraries that differ in the sizes of their frames.
#[track_caller]
pub(crate) fn run_unloading(scratch: &Scratch, settings: &Settings) -> (Outcome, Profile) {
    let program = scratch.compile("unloading.c", Linkage::None, &[]);
    run_with(scratch, profiled(program, &scratch.path("prof")), settings)
}

/// The same in a program that opens the profiler itself, which does not see libraries close.
#[track_caller]
pub(crate) fn run_unseen_unloading(scratch: &Scratch, settings: &Settings) -> (Outcome, Profile) {
    let mut command = plain(scratch.compile("unloading.c", Linkage::None, &[]));
    command.env("LD_PRELOAD", scratch.compile_library("open_late.c", &[]));
    command.env("OPEN_LATE", shared_library()).env("CPUPROFILE", scratch.path("prof"));
    run_with(scratch, command, settings)
}

#[track_caller]
fn run_with(scratch: &Scratch, mut command: Command, settings: &Settings) -> (Outcome, Profile) {
    let libraries = ["2048", "1024"].map(|block| {
        // The compiler's start files have code without call frame information, in which ticks come.
        let flags = ["-nostartfiles", &format!("-DBLOCK={block}")];
        let library = scratch.compile_library("unloaded.c", &flags);
        let path = scratch.path(&format!("with_{block}.so"));
        std::fs::rename(library, &path).expect("our own directory");
        path
    });
    command.env("CPUPROFILE_FREQUENCY", settings.frequency.to_string());
    command.args(libraries).arg(settings.rounds.to_string());
    command.args(Some(settings.order).filter(|order| !order.is_empty()));
    let finished = run(&mut command).expect_success();
    // The summary line reports lost ticks.
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    (parse(&finished), Profile::read(&scratch.path("prof")))
}

fn parse(finished: &Finished) -> Outcome {
    let text = finished.text();
    let fields: Vec<&str> = text.split_whitespace().collect();
    let hex = |text: &str| usize::from_str_radix(text.trim_start_matches("0x"), 16).expect("an address");
    let [library, rounds, at_same_place, guess_page] = fields[..] else { panic!("{text}") };
    let [rounds, at_same_place] = [rounds, at_same_place].map(|count| count.parse().expect("a number"));
    Outcome { library: hex(library), rounds, at_same_place, guess_page: hex(guess_page) }
}

/// The library's functions in the order of the stack, and their callers.
pub(crate) const CALLERS: [(&str, &str); 4] = [
    ("innermost", "in_library"),
    ("in_library", "use_library"),
    // Stripped, so named by their files: the loader calls them.
    ("on_load", "ld-linux"),
    ("on_unload", "ld-linux"),
];

/// Panics unless each frame in the library is followed by its caller, and the stack leads to the
/// entry point. Returns the innermost of the library's functions in the stack.
#[track_caller]
fn expect_right_chain(symbols: &mut Symbolizer, profile: &Profile, record: &Record) -> Option<&'static str> {
    let names = symbols.names(profile, record);
    let mut found = None;
    for (i, name) in names.iter().enumerate() {
        let Some((function, caller)) = CALLERS.iter().find(|(function, _)| name == function) else {
            continue;
        };
        let next = names.get(i + 1).map_or("nobody", String::as_str);
        assert!(next.contains(caller), "{function} was called by {next}: {names:?}");
        found = found.or(Some(*function));
    }
    if found.is_some() {
        assert_eq!(symbols.root(profile, record), Root::Process, "{names:?}");
    }
    found
}

/// Panics unless all stacks are right that do not come from guessed frames. Returns, for each
/// function of [`CALLERS`], the ticks for which it is the library's innermost one.
#[track_caller]
pub(crate) fn ticks_in_right_chains(outcome: &Outcome, profile: &Profile) -> [usize; CALLERS.len()] {
    let mut symbols = Symbolizer::default();
    let mut counts = [0; CALLERS.len()];
    for record in &profile.records {
        if outcome.is_guessed(record) {
            continue;
        }
        let found = expect_right_chain(&mut symbols, profile, record);
        let in_library = record.pcs.iter().any(|&pc| outcome.is_in_library(pc));
        // The reverse may be false: in a few rounds the library is at another address.
        assert!(!in_library || found.is_some(), "{:?}", symbols.names(profile, record));
        if let Some(place) = CALLERS.iter().position(|(function, _)| Some(*function) == found) {
            counts[place] += record.count;
        }
    }
    counts
}

impl Outcome {
    /// Whether a tick was sent in code without call frame information.
    pub(crate) fn is_guessed(&self, record: &Record) -> bool {
        (self.guess_page..self.guess_page + 4096).contains(&record.pcs[0])
    }

    pub(crate) fn is_in_library(&self, pc: usize) -> bool {
        (self.library..self.library + 0x5000).contains(&pc)
    }
}
