//! Runs a command with the profiler preloaded, and makes one profile of all its processes.
//!
//! | file | what it does |
//! | --- | --- |
//! | `library` | finds the library |
//! | `program` | finds the program, and looks whether it can be recorded |
//! | `output` | tries the profile's file beforehand, and writes it |
//! | `directory` | the private directory of the spools, and what it says of the recording |
//! | `preload` | what LD_PRELOAD names the library by |
//! | `environment` | what the command's processes are told |
//! | `run` | starts the command, hands signals on, waits for it |
//! | `live` | the line on the terminal meanwhile |
//! | `objects` | holds the files of the processes open while these run |
//! | `clock` | the clocks that ran, and whether perf events are permitted |
//! | `collect` | makes one profile of what the processes leave behind |
//! | `parts` | files of what was collected meanwhile |
//! | `tally` | sums of what the processes reported |
//! | `summary` | what came of it, in a few lines |
//!
//! Each process of the command keeps its samples in a spool of its own and leaves it there at its end, however that comes
//! about. So processes that ended, were killed, crashed, or became other programs are all collected in the same way, and what a recorder
//! that is killed itself leaves behind is collected later by `sigprof recover`.

mod clock;
mod collect;
mod directory;
mod environment;
pub mod library;
mod live;
mod objects;
mod output;
mod parts;
mod preload;
mod program;
mod refusal;
mod run;
mod summary;
mod tally;

pub use collect::{Collected, CollectedFiles, Collector};
pub use directory::{Claim, Left, Session, left_behind};
pub use output::{Output, reason_alone};
pub use refusal::Refusal;
pub use run::End;
pub use summary::Summary;
pub use tally::Tally;

use crate::{
    Error,
    error::ErrorKind,
    profile::{COMMAND, Profile},
    symbolize::{self, Symbolizer},
};
use directory::PrivateDirectory;
use live::Live;
use sigprof::{
    Clock,
    interface::{Environment, signal_number},
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Where the profile goes unless the user says otherwise.
pub const DEFAULT_OUTPUT: &str = "sigprof.pb.gz";

/// How often the recorder looks at what the processes do.
const PACE: Duration = Duration::from_millis(100);
/// How long it waits for processes that outlive the command by a little.
const PATIENCE: Duration = Duration::from_millis(500);
/// So many spools are collected while the command runs: a directory holds 256.
const MANY_SPOOLS: usize = 48;

/// How a command is recorded.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which time is sampled.
    pub clock: Clock,
    /// Samples for each second of it.
    pub frequency: u32,
    /// Frames of a call chain at most.
    pub depth: usize,
    /// Bytes of memory that each process's profiler takes at most.
    pub max_memory: usize,
    /// The signal of the ticks, where it is not the clock's own: a name or a number.
    pub timer_signal: Option<String>,
    /// The processes that the command starts are recorded, too.
    pub children: bool,
    /// The files that the processes run are kept open: code of those that are deleted or replaced has names.
    pub keep_files: bool,
    /// The profile's file.
    pub output: PathBuf,
    /// Nothing is said but what went wrong.
    pub quiet: bool,
    /// The line on the terminal is shown whatever the command writes there.
    pub live: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Clock::default(),
            frequency: sigprof::DEFAULT_FREQUENCY,
            depth: sigprof::DEFAULT_DEPTH,
            max_memory: sigprof::DEFAULT_MAX_MEMORY,
            timer_signal: None,
            children: true,
            keep_files: true,
            output: DEFAULT_OUTPUT.into(),
            quiet: false,
            live: false,
        }
    }
}

impl Options {
    /// Finds what the library would not take as it is.
    ///
    /// # Errors
    /// What that is.
    fn check(&self) -> Result<(), Error> {
        let settings: Vec<(&str, String)> = environment::settings(self).collect();
        let pairs = settings.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        match Environment::from_pairs(pairs, signal_number).warnings.first() {
            None => Ok(()),
            Some(warning) => Err(Error::new(ErrorKind::Request, warning.clone())),
        }
    }
}

/// Whether ticks of a clock can be the signal of this name or number.
pub fn can_tick(clock: Clock, signal: &str) -> bool {
    let options = Options { clock, timer_signal: Some(signal.into()), ..Options::default() };
    // An empty one would be none at all.
    !signal.trim().is_empty() && options.check().is_ok()
}

/// What came of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// How the command ended.
    pub end: End,
    /// The profile; None where no process left one.
    pub profile: Option<Profile>,
    /// What is to be said of it.
    pub summary: Summary,
    /// Why the profile is not written, or not whole.
    pub problems: Vec<Error>,
}

/// Runs `command`, and writes its profile.
///
/// # Errors
/// Why the command was not run. What goes wrong later is told in the result: the command's own end comes first.
pub fn record(command: &[OsString], options: &Options) -> Result<Recorded, Refusal> {
    let Some(name) = command.first() else {
        return Err(Error::new(ErrorKind::Request, "no command to record").into());
    };
    options.check()?;
    let library = library::find()?;
    let program = program::find(name, std::env::var_os("PATH"), &library)?;
    let output = Output::prepare(&options.output)?;
    let directory = PrivateDirectory::make(&output, options.clock)?;
    let library = preload::name_for(&program, &directory.preloadable(&library)?);
    let places = environment::ProcessDirectories {
        library: &library,
        spools: directory.spools(),
        target: directory.target(),
    };
    let variables = environment::of_command(std::env::vars_os(), options, &places, std::process::id());
    let events = clock::Events::try_for(options);
    let started = Instant::now();
    let mut child = run::start(&program, command, variables)?;
    // Behind the command's start, which has the limit that it was given: at the end each spool takes a descriptor.
    run::take_descriptors();
    let mut collector = Collector::new(directory.spools(), directory.session());
    if options.keep_files {
        collector.keep_objects();
    }
    let mut live = Live::new(options, child.process());
    let end = child.wait(PACE, |moment| match moment {
        run::Moment::Pace => {
            collector.look_for_objects();
            collector.relieve(MANY_SPOOLS);
            live.draw(started.elapsed(), || collector.so_far());
        }
        run::Moment::Change => live.clear(),
    });
    let elapsed = started.elapsed();
    collector.wait_for_others(PATIENCE);
    let used = child.time();
    let Collected { mut profile, tally, mut problems, sources, kept, ancestors } = collector.finish();
    if let Some(profile) = &mut profile {
        profile.duration_nanos = i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX);
        profile.comments.push(shown(command).into());
        profile.comments.push(unsampled(tally.unaccounted, options.clock).into());
        profile
            .comments
            .extend(clock::described(&tally.clocks).map(|clocks| format!("clock: {clocks}").into()));
    }
    let frequency = options.frequency;
    let mut summary =
        Summary { end, frequency, elapsed, used, tally, path: None, bytes: 0, left: None, hint: None };
    summary.hint = events.hint().filter(|_| summary.tally.clocks.contains_key("cpu"));
    match profile.as_ref().map(|profile| output.write(profile)) {
        Some(Ok(written)) => {
            summary.bytes = written.bytes;
            summary.path = Some(written.path);
            problems.extend(sources.remove());
        }
        // All is still there, for `sigprof recover`.
        Some(Err(error)) => problems.push(error.advise(format!(
            "what was recorded is kept, and `sigprof recover -o FILE {}` writes it",
            std::process::id()
        ))),
        None => problems.extend(sources.remove()),
    }
    let is_needed = summary.tally.running > 0 || !problems.is_empty();
    summary.left = directory.close(is_needed, summary.path.is_some());
    // From here on nothing is lost to who does not want to wait for names.
    child.let_signals_through();
    if let Some(profile) = &mut profile {
        // Now, since binaries may be gone later, and the names of code that a process made are.
        let mut symbolizer = Symbolizer::new(symbolize::Options { kept, ancestors, ..Default::default() });
        symbolizer.symbolize(profile, &mut |_| {});
        // They are still those that ran: later they tell whether they are.
        symbolizer.note_build_ids(profile);
        if summary.path.is_some() {
            match output.rewrite(profile) {
                Ok(written) => summary.bytes = written.bytes,
                Err(error) => problems.push(error),
            }
        }
    }
    Ok(Recorded { end, profile, summary, problems })
}

/// The command as a line of text.
fn shown(command: &[OsString]) -> String {
    const MOST: usize = 200;
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let text = words.join(" ");
    // Of a script that is an argument its beginning does.
    let line = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = line.collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(MOST).collect();
    format!("{COMMAND}{cut}{}", if cut.len() < line.len() { "..." } else { "" })
}

/// How much time the processes have used that no sample stands for, for readers that see the profile alone.
fn unsampled(time: Duration, clock: Clock) -> String {
    format!("unaccounted: {:.6} s of {}", time.as_secs_f64(), live::unit(clock))
}

/// The directory of a path, which may be a name alone.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_line_of_bounded_length() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(shown(&words(&["perl", "-e", "\n  print 1;\n\x1b x"])), "command: perl -e print 1; x");
        let long = shown(&words(&["ä".repeat(300).as_str()]));
        assert_eq!(long, format!("command: {}...", "ä".repeat(200)));
    }

    #[test]
    fn time_in_no_sample_is_said_with_whose_it_is() {
        let time = Duration::from_micros(34_567);
        assert_eq!(unsampled(time, Clock::Cpu), "unaccounted: 0.034567 s of CPU time");
        assert_eq!(unsampled(time, Clock::Wall), "unaccounted: 0.034567 s of threads' time");
    }

    #[test]
    fn options_that_the_library_would_not_take_are_refused() {
        assert!(Options::default().check().is_ok());
        let signal = Options { timer_signal: Some("SIGUSR1".into()), ..Options::default() };
        assert!(signal.check().is_err_and(|error| error.to_string().contains("SIGRTMIN")));
    }
}
