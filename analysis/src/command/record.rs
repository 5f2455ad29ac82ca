//! `sigprof record`: profiles a command.

use super::output::profile_file;
use clap::{Args, ValueEnum, ValueHint, error::ErrorKind as Usage};
use sigprof::Clock;
use sigprof_analysis::{
    Error,
    granularity::Granularity,
    graph::Trim,
    profile::Profile,
    rank,
    record::{self, Recorded, Refusal},
    report::{Colors, Context, top},
};
use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Number of functions shown at the end.
const HOTTEST: usize = 10;

/// Run a command and profile all its processes
///
/// The command keeps its terminal and its standard streams. `sigprof record` exits with the command's status, or is killed by the same signal;
/// with 127 if the command is not found, 126 if it cannot be executed, and 1 if it cannot be recorded.
///
/// Reports show the command and its unaccounted time: CPU time that no sample represents. Killed processes cannot report theirs.
///
/// Sampling is done by libprofiler.so through LD_PRELOAD: $SIGPROF_LIBRARY, otherwise beside this executable, otherwise in ../lib.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof record -- ./server --port 8080   # Ctrl-C ends the server, the profile is written
  sigprof record -o make.pb.gz make -j4    # make, and every compiler that it starts
  sigprof record --clock wall -- ./slow    # where it waits, too
  sigprof record -F 1000 --no-children -- perl script.pl
  sigprof top sigprof.pb.gz")]
pub(crate) struct RecordArgs {
    /// Profile to write; an existing file is kept as FILE.old. Uncompressed if the name ends in .pb.
    /// In MPI programs, the rank is added to the name, such as sigprof.rank-3.pb.gz
    #[arg(short, long, value_name = "FILE", default_value = record::DEFAULT_OUTPUT, value_parser = profile_file(),
        value_hint = ValueHint::FilePath)]
    output: PathBuf,

    /// Clock: the time that is sampled, and its timers
    #[arg(short, long, value_enum, default_value_t, help_heading = "Sampling")]
    clock: ClockName,

    /// Samples per second, 1 to 10000
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = sigprof::DEFAULT_FREQUENCY,
        value_parser = |text: &str| number(text, sigprof::MAX_FREQUENCY), help_heading = "Sampling")]
    frequency: u32,

    /// Maximum number of frames of a call stack, 1 to 4095; the innermost are kept
    #[arg(long, value_name = "FRAMES", default_value_t = sigprof::DEFAULT_DEPTH as u32,
        value_parser = |text: &str| number(text, sigprof::MAX_DEPTH as u32 - 1), help_heading = "Sampling", hide_short_help = true)]
    max_depth: u32,

    /// Maximum memory of the profiler in each process, 8M to 1G
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes, help_heading = "Sampling", hide_short_help = true)]
    max_memory: usize,

    /// Profiling signal, for programs that use SIGPROF themselves (SIGALRM with --clock wall): SIGRTMIN to SIGRTMAX, such as
    /// SIGRTMIN+3
    #[arg(long, value_name = "SIGNAL", help_heading = "Sampling", hide_short_help = true)]
    timer_signal: Option<String>,

    /// Profile only the command itself, not the processes that it starts
    #[arg(long)]
    no_children: bool,

    /// Do not keep the files of running programs open: code of files that are deleted or replaced meanwhile has no names
    #[arg(long, hide_short_help = true)]
    no_keep_files: bool,

    /// Print only errors and warnings
    #[arg(short, long)]
    quiet: bool,

    /// Show progress even if the command writes to the terminal
    #[arg(long, conflicts_with = "quiet", hide_short_help = true)]
    live: bool,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Names of the clocks.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ClockName {
    /// perf if the kernel permits it, otherwise cpu
    #[default]
    Auto,
    /// CPU time, one timer for each thread; at most one tick in each kernel tick
    Cpu,
    /// CPU time, one timer for the process, as in gperftools
    Itimer,
    /// CPU time, one perf event for each thread: also finds work in step with the kernel's tick
    Perf,
    /// Elapsed time, of waiting threads, too
    Wall,
}

impl From<ClockName> for Clock {
    fn from(name: ClockName) -> Self {
        match name {
            ClockName::Auto => Self::Auto,
            ClockName::Cpu => Self::Cpu,
            ClockName::Itimer => Self::Itimer,
            ClockName::Perf => Self::Perf,
            ClockName::Wall => Self::Wall,
        }
    }
}

impl RecordArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let clock = self.clock.into();
        if let Some(name) = self.timer_signal.as_deref().filter(|name| !record::can_tick(clock, name)) {
            let own = if clock == Clock::Wall { "SIGALRM" } else { "SIGPROF" };
            let reason = format!(
                "invalid value '{name}' for '--timer-signal <SIGNAL>': must be {own} or a real-time signal, such as SIGRTMIN+3"
            );
            let _ = clap::Error::raw(
                Usage::ValueValidation,
                reason + "\n\nFor more information, try '--help'.\n",
            )
            .print();
            return Ok(ExitCode::from(2));
        }
        let options = record::RecordOptions {
            clock,
            frequency: self.frequency,
            depth: self.max_depth as usize,
            max_memory: self.max_memory,
            timer_signal: self.timer_signal,
            children: !self.no_children,
            keep_files: !self.no_keep_files,
            output: output_of_rank(self.output),
            quiet: self.quiet,
            live: self.live,
        };
        let recorded = match record::record(&self.command, &options) {
            Ok(recorded) => recorded,
            Err(Refusal::Other(error)) => return Err(error),
            Err(refusal) => {
                // stderr may be closed.
                let _ = writeln!(io::stderr(), "sigprof: {refusal}");
                return Ok(ExitCode::from(refusal.exit_status()));
            }
        };
        // Output errors are ignored: the command's status matters more.
        let _ = tell(&recorded, self.quiet);
        Ok(recorded.end.repeat())
    }
}

/// Adds the rank of this process in a parallel program to the name of a file: each rank has its own
/// profile.
fn output_of_rank(path: PathBuf) -> PathBuf {
    let is_device = std::fs::metadata(&path).is_ok_and(|status| !status.is_file());
    match rank::of_variables(|name| std::env::var(name).ok()) {
        Some(rank) if !is_device && path.file_name().is_some() && path != Path::new("-") => {
            rank::with_rank(&path, rank)
        }
        _ => path,
    }
}

/// Prints problems and the summary.
fn tell(recorded: &Recorded, is_quiet: bool) -> io::Result<()> {
    let mut text = Vec::new();
    for problem in &recorded.problems {
        writeln!(text, "sigprof: {problem}")?;
    }
    if !is_quiet {
        recorded.summary.write(recorded.profile.as_ref(), &mut text)?;
        let sampled = recorded.profile.as_ref().filter(|profile| !profile.samples.is_empty());
        if let Some(profile) = sampled {
            print_hottest(profile, &mut text)?;
            writeln!(text)?;
        }
        recorded.summary.write_next_step(sampled.is_some(), &mut text)?;
    }
    // With one write, because other processes may write to the terminal.
    io::stderr().write_all(&text)
}

/// Writes the hottest functions.
fn print_hottest(profile: &Profile, out: &mut Vec<u8>) -> io::Result<()> {
    let mut profile = profile.clone();
    // The user knows the command.
    profile.comments.clear();
    let mut context = Context::new(&profile);
    Granularity::Functions.apply(&mut profile, true);
    if anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never {
        context.colors = Colors::terminal();
    }
    context.width = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
    let trim = Trim { nodes: HOTTEST, ..Trim::ALL };
    writeln!(out)?;
    top::write(&profile, &context, &trim, out)
}

/// Parses a number from 1 to `most`.
fn number(text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("must be between 1 and {most}"))
}

/// Parses a number of bytes with an optional unit.
fn bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.as_bytes().last().map(u8::to_ascii_uppercase) {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = digits
        .parse::<usize>()
        .map_err(|_| "must be a number of bytes between 8M and 1G, such as 64M".to_owned())?;
    let bytes = number.saturating_mul(1 << shift);
    if (sigprof::SMALLEST_MAX_MEMORY..=sigprof::LARGEST_MAX_MEMORY).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("must be between 8M and 1G".to_owned())
    }
}
