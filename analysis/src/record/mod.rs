//! Recording of a command with the preloaded profiler, with one profile of its process tree.
//!
//! | file | purpose |
//! | --- | --- |
//! | `library` | finds the library |
//! | `program` | finds the program, and checks whether it can be recorded |
//! | `output` | checks and writes the profile's file |
//! | `directory` | the private directory of spools and session file |
//! | `preload` | the library's path in LD_PRELOAD |
//! | `environment` | environment of the command |
//! | `run` | starts the command, forwards signals, waits |
//! | `live` | the status line |
//! | `objects` | keeps files of processes open while they run |
//! | `clock` | reported clocks, and permission for perf events |
//! | `collect` | makes one profile of all processes |
//! | `parts` | files of samples collected while the command runs |
//! | `tally` | sums of the processes' reports |
//! | `summary` | the summary |
//!
//! The spool of a process stays after any kind of exit. So processes that exited, crashed, were
//! killed or called `exec` are collected alike; after a kill of the recorder by `sigprof recover`.

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
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Default path of the profile.
pub const DEFAULT_OUTPUT: &str = "sigprof.pb.gz";

/// Interval of the recorder's periodic work.
const PACE: Duration = Duration::from_millis(100);
/// Bounded wait for processes that exit shortly after the command.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Number of spools from which they are collected while the command runs; a directory holds 256.
const MANY_SPOOLS: usize = 48;

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The clock.
    pub clock: Clock,
    /// Samples for each second of the sampled time.
    pub frequency: u32,
    /// Maximum frames of a call stack.
    pub depth: usize,
    /// Maximum bytes of memory of each process's profiler.
    pub max_memory: usize,
    /// The signal of ticks instead of the clock's: a name or number.
    pub timer_signal: Option<String>,
    /// Record also the processes that the command starts.
    pub children: bool,
    /// Keep files of processes open, so that code in deleted and replaced files has names.
    pub keep_files: bool,
    /// The profile's file.
    pub output: PathBuf,
    /// Print only problems.
    pub quiet: bool,
    /// Show the status line whatever the command writes.
    pub live: bool,
}

impl Default for RecordOptions {
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

impl RecordOptions {
    /// Checks the options with the library's parser.
    ///
    /// # Errors
    /// The first that is invalid.
    fn check(&self) -> Result<(), Error> {
        let settings: Vec<(&str, String)> = environment::settings(self).collect();
        let pairs = settings.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        match Environment::from_pairs(pairs, signal_number).warnings.first() {
            None => Ok(()),
            Some(warning) => Err(Error::new(ErrorKind::Request, warning.clone())),
        }
    }
}

/// Whether a clock's ticks can have the signal of this name or number.
pub fn can_tick(clock: Clock, signal: &str) -> bool {
    let options = RecordOptions { clock, timer_signal: Some(signal.into()), ..RecordOptions::default() };
    // An empty one would mean the default.
    !signal.trim().is_empty() && options.check().is_ok()
}

/// Result of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// How the command exited.
    pub end: End,
    /// The profile; None if no process left samples.
    pub profile: Option<Profile>,
    /// The summary.
    pub summary: Summary,
    /// Why the profile is missing or incomplete.
    pub problems: Vec<Error>,
}

/// Runs `command`, and writes its profile.
///
/// # Errors
/// If the command was not run. Later errors are in the result, beside the command's status.
pub fn record(command: &[OsString], options: &RecordOptions) -> Result<Recorded, Refusal> {
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
    let events = clock::PerfEvents::try_for(options);
    let started = Instant::now();
    let mut child = run::start(&program, command, variables)?;
    // After the start, so that the command inherits the old limit. Each spool needs a descriptor.
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
    collector.wait_for_others(TIMEOUT);
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
        // Everything is kept for `sigprof recover`.
        Some(Err(error)) => problems.push(error.advise(format!(
            "what was recorded is kept, and `sigprof recover -o FILE {}` writes it",
            std::process::id()
        ))),
        None => problems.extend(sources.remove()),
    }
    let is_needed = summary.tally.running > 0 || !problems.is_empty();
    summary.left = directory.close(is_needed, summary.path.is_some());
    // The profile is written: a signal may now kill this process while it looks up names.
    child.let_signals_through();
    if let Some(profile) = &mut profile {
        // Now, because binaries and names of JIT code may be removed later.
        let mut symbolizer =
            Symbolizer::new(symbolize::SymbolizerOptions { kept, ancestors, ..Default::default() });
        symbolizer.symbolize(profile, &mut |_| {});
        // The files are still those that ran; later, build IDs identify them.
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

/// Formats the command as a comment of one line.
fn shown(command: &[OsString]) -> String {
    const MOST: usize = 200;
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let text = words.join(" ");
    // Only the beginning of a script in an argument.
    let line = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = line.collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(MOST).collect();
    format!("{COMMAND}{cut}{}", if cut.len() < line.len() { "..." } else { "" })
}

/// Formats the unaccounted time as a comment, for readers of the profile.
fn unsampled(time: Duration, clock: Clock) -> String {
    format!("unaccounted: {:.6} s of {}", time.as_secs_f64(), live::unit(clock))
}

/// Adds a word to the name of a profile, before its extension.
pub(crate) fn with_word(path: &Path, word: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let extension = [&b".pb.gz"[..], b".pb"].into_iter().find(|extension| name.ends_with(extension));
    let (stem, extension) = name.split_at(name.len() - extension.map_or(0, <[u8]>::len));
    path.with_file_name(OsString::from_vec([stem, word.as_bytes(), extension].concat()))
}

/// Returns the directory of a path, which may be a file name only.
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
    fn shows_a_command_as_one_short_line() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(shown(&words(&["perl", "-e", "\n  print 1;\n\x1b x"])), "command: perl -e print 1; x");
        let long = shown(&words(&["ä".repeat(300).as_str()]));
        assert_eq!(long, format!("command: {}...", "ä".repeat(200)));
    }

    #[test]
    fn comment_has_unaccounted_time_and_its_kind() {
        let time = Duration::from_micros(34_567);
        assert_eq!(unsampled(time, Clock::Cpu), "unaccounted: 0.034567 s of CPU time");
        assert_eq!(unsampled(time, Clock::Wall), "unaccounted: 0.034567 s of threads' time");
    }

    #[test]
    fn words_are_added_before_the_extension() {
        for (path, expected) in [
            ("/a.b/sigprof.pb.gz", "/a.b/sigprof-late.pb.gz"),
            ("run-1.5.pb", "run-1.5-late.pb"),
            ("/x/profile", "/x/profile-late"),
            ("/x/.hidden", "/x/.hidden-late"),
        ] {
            assert_eq!(with_word(Path::new(path), "-late"), Path::new(expected));
        }
    }

    #[test]
    fn refuses_invalid_options() {
        assert!(RecordOptions::default().check().is_ok());
        let signal = RecordOptions { timer_signal: Some("SIGUSR1".into()), ..RecordOptions::default() };
        assert!(signal.check().is_err_and(|error| error.to_string().contains("SIGRTMIN")));
    }
}
