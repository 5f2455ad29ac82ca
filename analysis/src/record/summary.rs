//! Summary of a recording.

use super::{DEFAULT_OUTPUT, End, Tally};
use crate::profile::{Profile, Threads};
use sigprof::NoSamples;
use std::{
    borrow::Cow,
    collections::HashSet,
    fmt,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// Possible causes of unaccounted time, if the processes report none.
const UNRECORDED: &str = "processes may have exited before their first tick, may block the profiling signal, or may be programs \
                          that cannot be recorded (static, musl, other architecture, setuid, or started without LD_PRELOAD or CPUPROFILE)";
/// The cause that processes report.
const BETWEEN_TICKS: &str = "processes or threads exited between ticks; a higher frequency (-F) catches more";

/// The result of a recording.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How the command exited.
    pub end: End,
    /// Samples for each second.
    pub frequency: u32,
    /// Time from the start of the command to its end.
    pub elapsed: Duration,
    /// CPU time of the command and of its descendants that it waited for, recorded or not.
    pub used: Duration,
    /// What the processes reported.
    pub tally: Tally,
    /// The profile's file; None if there is none.
    pub path: Option<PathBuf>,
    /// Length of the profile's file, in bytes; 0 for a device or a pipe.
    pub bytes: u64,
    /// The directory of samples that were not collected.
    pub left: Option<PathBuf>,
    /// How to get a better clock than the one that ran.
    pub hint: Option<String>,
}

impl Summary {
    /// Writes the figures, and a line for each problem.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, profile: Option<&Profile>, out: &mut impl Write) -> io::Result<()> {
        let (tally, counts) = (&self.tally, SummaryFigures::of(profile));
        if let End::Killed(number) = self.end {
            writeln!(out, "sigprof: the command was killed by {}", name_of(number))?;
        }
        write!(
            out,
            "sigprof: {} ({} of {}{}) in {}",
            several(counts.samples, "sample"),
            Seconds(counts.time),
            counts.kind,
            self.clocks(),
            Seconds(self.elapsed),
        )?;
        if counts.samples > 0 {
            write!(
                out,
                "; {}, {}; {} lost",
                several(counts.processes, "process"),
                several(counts.threads, "thread"),
                several(tally.lost, "sample"),
            )?;
        }
        if tally.walks > 0 {
            let share = 100.0 * tally.complete_walks as f64 / tally.walks as f64;
            write!(out, "; {share:.1} % of stacks complete")?;
        }
        writeln!(out)?;
        if counts.samples == 0 {
            writeln!(out, "sigprof: no samples: {}", self.reason())?;
        } else if counts.is_of_cpu && self.is_short_of(counts.time) {
            let (used, missing) = (Seconds(self.used), Seconds(self.used.saturating_sub(counts.time)));
            let cause = self.cause(counts.time);
            writeln!(out, "sigprof: {missing} of the {used} of CPU time is unaccounted: {cause}")?;
        }
        // Not if they are a small part of the programs.
        if tally.in_step > tally.process_cpu / 4 {
            writeln!(
                out,
                "sigprof: some code runs in step with the kernel's timer interrupts, which count {} of {} of CPU time: \
                 shares of functions can be wrong by as much, because clocks cpu and itimer sample only then",
                Seconds(tally.interrupted),
                Seconds(tally.in_step),
            )?;
        }
        if let Some(hint) = &self.hint {
            writeln!(out, "sigprof: hint: {hint}")?;
        }
        if tally.killed > 0 {
            let (processes, verb) = (several(tally.killed, "process"), was(tally.killed));
            writeln!(
                out,
                "sigprof: {processes} {verb} killed, crashed, or did not report (Go programs do not); the samples were kept"
            )?;
        }
        if tally.cut > 0 {
            let processes = several(tally.cut, "process");
            writeln!(
                out,
                "sigprof: the sample memory of {processes} was full; some call stacks are missing (raise --max-memory)"
            )?;
        }
        if tally.running > 0 {
            let (processes, verb) = (several(tally.running, "process"), is(tally.running));
            writeln!(
                out,
                "sigprof: {processes} {verb} still running; after the exit, `sigprof recover` writes the profile. \
                 Processes that start from now on are not recorded"
            )?;
        }
        Ok(())
    }

    /// Writes the profile's path, and if it has samples the commands that show it.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_next_step(&self, has_samples: bool, out: &mut impl Write) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let shown = from_here(path);
        write!(out, "sigprof: wrote {}", shown.display())?;
        if self.bytes > 0 && has_samples {
            let operand = match shown.to_string_lossy() {
                name if name == DEFAULT_OUTPUT => String::new(),
                name => format!(" {}", quoted(&name)),
            };
            write!(out, "; to see it: sigprof report{operand}   (or: sigprof top{operand})")?;
        }
        writeln!(out)
    }

    /// The clocks that ran, after a comma: `, clock perf`.
    fn clocks(&self) -> String {
        let names: Vec<_> = self.tally.clocks.keys().map(String::as_str).collect();
        match names[..] {
            [] => String::new(),
            [name] => format!(", clock {name}"),
            _ => format!(", clocks {}", names.join(" and ")),
        }
    }

    /// True if a large part of the CPU time is unaccounted.
    fn is_short_of(&self, sampled: Duration) -> bool {
        const LEAST: Duration = Duration::from_millis(250);
        let missing = self.used.saturating_sub(sampled);
        missing > LEAST && missing > self.used / 5
    }

    fn cause(&self, sampled: Duration) -> &'static str {
        let missing = self.used.saturating_sub(sampled);
        if self.tally.behind_last_ticks >= missing / 2 { BETWEEN_TICKS } else { UNRECORDED }
    }

    fn reason(&self) -> String {
        let tally = &self.tally;
        if tally.programs == 0 && tally.running > 0 {
            return "the recorded processes are still running".into();
        }
        if tally.programs == 0 {
            return format!("libprofiler.so was not loaded into any process: {UNRECORDED}");
        }
        let is_of_others = matches!(tally.no_samples, None | Some(NoSamples::NoTimeUsed));
        if is_of_others && self.is_short_of(Duration::ZERO) {
            return format!(
                "{} of CPU time was used, but {}",
                Seconds(self.used),
                self.cause(Duration::ZERO)
            );
        }
        match tally.no_samples {
            Some(NoSamples::NoTimeUsed) => {
                let (programs, possessive) =
                    (several(tally.programs, "program"), if tally.programs == 1 { "its" } else { "their" });
                let period = 1000.0 / f64::from(self.frequency.max(1));
                let advice =
                    if self.frequency < 1000 { "try -F 1000, or a longer run" } else { "try a longer run" };
                format!(
                    "{programs} ran, and {possessive} CPU time was below one period ({period} ms); {advice}"
                )
            }
            Some(reason) => reason.to_string(),
            None => "the command exited before its first tick; try a higher frequency (-F), or a longer run"
                .into(),
        }
    }
}

/// Shortens a path to its file name, if it is in the working directory.
fn from_here(path: &Path) -> Cow<'_, Path> {
    let here = std::env::current_dir().ok();
    match path.file_name() {
        Some(name) if here.is_some() && path.parent() == here.as_deref() => Cow::Borrowed(Path::new(name)),
        _ => Cow::Borrowed(path),
    }
}

pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if word.chars().all(is_plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

struct SummaryFigures {
    samples: u64,
    time: Duration,
    kind: String,
    is_of_cpu: bool,
    processes: u64,
    threads: u64,
}

impl SummaryFigures {
    fn of(profile: Option<&Profile>) -> Self {
        let Some(profile) = profile else {
            let (samples, time, processes, threads) = (0, Duration::ZERO, 0, 0);
            return Self { samples, time, kind: "CPU time".into(), is_of_cpu: true, processes, threads };
        };
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let last = profile.sample_types.len() - 1;
        let kind: &str = &profile.sample_types[last].kind;
        let is_of_cpu = kind == "cpu";
        let threads = Threads::of(profile);
        let processes: HashSet<i64> = threads.iter().filter_map(|(thread, _)| thread.process_id).collect();
        Self {
            samples: count(profile.total(0)),
            time: Duration::from_nanos(count(profile.total(last))),
            kind: if is_of_cpu { "CPU time".into() } else { format!("{kind} time") },
            is_of_cpu,
            processes: processes.len() as u64,
            threads: threads.iter().filter(|(thread, _)| thread.id.is_some()).count() as u64,
        }
    }
}

fn was(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

fn is(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

fn several(number: u64, kind: &str) -> String {
    let ending = match (number, kind.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {kind}{ending}")
}

/// A time in seconds, to hundredths.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} s", self.0.as_secs_f64())
    }
}

fn name_of(number: i32) -> String {
    match nix::sys::signal::Signal::try_from(number) {
        Ok(signal) => signal.as_str().into(),
        Err(_) => format!("signal {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        Summary {
            end: End::Exited(0),
            frequency: 100,
            elapsed: Duration::from_millis(1500),
            used: Duration::from_millis(900),
            tally: Tally { programs: 1, walks: 200, complete_walks: 199, ..Tally::default() },
            path: None,
            bytes: 0,
            left: None,
            hint: None,
        }
    }

    fn text(summary: &Summary) -> String {
        let mut text = Vec::new();
        summary.write(None, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn code_in_step_with_timer_interrupts_is_reported() {
        let mut summary = summary();
        summary.tally.process_cpu = Duration::from_secs(40);
        summary.tally.in_step = Duration::from_secs(10);
        summary.tally.interrupted = Duration::from_secs(6);
        assert!(!text(&summary).contains("in step"), "a quarter of the programs' time");
        summary.tally.process_cpu = Duration::from_secs(39);
        let expected = "some code runs in step with the kernel's timer interrupts, which count 6.00 s of 10.00 s of CPU time";
        assert!(text(&summary).contains(expected), "{}", text(&summary));
    }

    #[test]
    fn reports_why_there_are_no_samples() {
        let mut summary = summary();
        let says = |summary: &Summary, part: &str| {
            let text = text(summary);
            assert!(text.contains(&format!("no samples: {part}")), "{part}: {text}");
        };
        // A process without a spool reports nothing.
        says(&summary, "0.90 s of CPU time was used, but processes may have exited before");
        summary.tally.unaccounted = Duration::from_millis(500);
        says(&summary, "0.90 s of CPU time was used, but processes may have exited before");
        summary.tally.behind_last_ticks = Duration::from_millis(500);
        says(&summary, "0.90 s of CPU time was used, but processes or threads exited between ticks");
        summary.used = Duration::ZERO;
        says(&summary, "the command exited before its first tick");
        summary.used = Duration::from_secs(1);
        summary.tally.no_samples = Some(NoSamples::NoTicks);
        says(&summary, "no tick arrived");
        summary.tally.no_samples = Some(NoSamples::NoTimeUsed);
        summary.used = Duration::ZERO;
        says(&summary, "1 program ran, and its CPU time was below one period (10 ms); try -F 1000, or");
        summary.frequency = 4000;
        says(&summary, "1 program ran, and its CPU time was below one period (0.25 ms); try a longer run");
        summary.tally.programs = 0;
        says(&summary, "libprofiler.so was not loaded into any process");
        summary.tally.running = 1;
        says(&summary, "the recorded processes are still running");
    }

    #[test]
    fn reports_killed_and_running_processes() {
        let mut summary = summary();
        summary.end = End::Killed(9);
        summary.tally.killed = 2;
        summary.tally.running = 1;
        let text = text(&summary);
        for part in ["killed by SIGKILL", "2 processes were killed", "1 process is still running", "99.5 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn prints_a_valid_command_as_next_step() {
        let line = |path: &Path| {
            let mut text = Vec::new();
            Summary { path: Some(path.into()), bytes: 1, ..summary() }
                .write_next_step(true, &mut text)
                .unwrap();
            String::from_utf8(text).unwrap()
        };
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            line(&here.join(DEFAULT_OUTPUT)),
            "sigprof: wrote sigprof.pb.gz; to see it: sigprof report   (or: sigprof top)\n"
        );
        assert!(line(&here.join("other.pb")).contains(": sigprof report other.pb "));
        assert!(line(Path::new("/tmp/it's mine")).contains(r": sigprof report '/tmp/it'\''s mine' "));
        let mut text = Vec::new();
        Summary { path: Some("/dev/null".into()), ..summary() }.write_next_step(true, &mut text).unwrap();
        assert_eq!(text, b"sigprof: wrote /dev/null\n");
    }
}
