//! What came of a recording, in a few lines.

use super::{End, Tally};
use crate::profile::{LabelValue, Profile, label};
use sigprof::NoSamples;
use std::{
    collections::HashSet,
    fmt,
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

/// Whose time is in no sample.
const UNRECORDED: &str = "programs that cannot be recorded (static, of musl, of another machine, with other rights, or without \
                          LD_PRELOAD or CPUPROFILE in their environment) or ended before their first tick, or of \
                          threads that block the signal of the ticks";
/// The same of time that programs know of themselves.
const UNTOLD: &str =
    "programs that ended before their first or next tick, of which a higher frequency finds more";

/// What came of a recording.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How the command ended.
    pub end: End,
    /// How long it took.
    pub elapsed: Duration,
    /// CPU time of the command, and of the processes below it that ended with it, whether they were recorded or not.
    pub used: Duration,
    /// What the processes said of themselves.
    pub tally: Tally,
    /// The profile's file; None where there is none.
    pub path: Option<PathBuf>,
    /// Its length.
    pub bytes: u64,
    /// The directory that holds what was not collected.
    pub left: Option<PathBuf>,
}

impl Summary {
    /// Writes the lines.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, profile: Option<&Profile>, out: &mut impl Write) -> io::Result<()> {
        let (tally, counts) = (&self.tally, Counts::of(profile));
        if let End::Killed(number) = self.end {
            writeln!(out, "sigprof: the command was ended by {}", name_of(number))?;
        }
        write!(
            out,
            "sigprof: {}, {} in {}, {}, {}",
            several(counts.samples, "sample"),
            format_args!("{} of {}", Seconds(counts.time), counts.kind),
            Seconds(self.elapsed),
            several(counts.processes, "process"),
            several(counts.threads, "thread"),
        )?;
        write!(out, "; {} lost", tally.lost)?;
        if tally.walks > 0 {
            let share = 100.0 * tally.whole_walks as f64 / tally.walks as f64;
            write!(out, "; {share:.1} % of call chains whole")?;
        }
        writeln!(out)?;
        if counts.samples == 0 {
            writeln!(out, "sigprof: there are no samples: {}", self.reason())?;
        } else if counts.is_of_cpu && self.is_short_of(counts.time) {
            let (used, whose) = (Seconds(self.used), self.whose_rest(counts.time));
            writeln!(out, "sigprof: the command used {used} of CPU; the rest is of {whose}")?;
        }
        if tally.killed > 0 {
            let whose = several(tally.killed, "process");
            writeln!(
                out,
                "sigprof: {whose} ended without a word (killed, crashed, or as Go programs do); the samples until then are there"
            )?;
        }
        if tally.cut > 0 {
            let whose = several(tally.cut, "process");
            writeln!(
                out,
                "sigprof: the memory for the samples of {whose} was full: call chains met later may be missing"
            )?;
        }
        if tally.running > 0 {
            let (whose, verb) =
                (several(tally.running, "process"), if tally.running == 1 { "runs" } else { "run" });
            writeln!(
                out,
                "sigprof: {whose} still {verb}: `sigprof recover` makes the profile when that is over; what starts from now on is not recorded"
            )?;
        }
        if let Some(path) = &self.path {
            writeln!(out, "sigprof: the profile is {}", path.display())?;
        }
        Ok(())
    }

    /// True where much of the time that was used is in no sample.
    fn is_short_of(&self, sampled: Duration) -> bool {
        const LEAST: Duration = Duration::from_millis(250);
        let missing = self.used.saturating_sub(sampled);
        missing > LEAST && missing > self.used / 5
    }

    /// Whose most of the time is that is in no sample.
    fn whose_rest(&self, sampled: Duration) -> &'static str {
        let missing = self.used.saturating_sub(sampled);
        if self.tally.behind_last_ticks >= missing / 2 { UNTOLD } else { UNRECORDED }
    }

    /// Why there are no samples.
    fn reason(&self) -> String {
        let tally = &self.tally;
        if tally.programs == 0 && tally.running > 0 {
            return "the processes that are recorded still run".into();
        }
        if tally.programs == 0 {
            return format!("the library was in no process; the command is one of {UNRECORDED}");
        }
        let is_of_others = matches!(tally.no_samples, None | Some(NoSamples::NoTimeUsed));
        if is_of_others && self.is_short_of(Duration::ZERO) {
            return format!("{} of CPU were used by {}", Seconds(self.used), self.whose_rest(Duration::ZERO));
        }
        match tally.no_samples {
            Some(reason) => reason.to_string(),
            None => "the command was ended before its first tick".into(),
        }
    }
}

/// What a profile comes to.
struct Counts {
    samples: u64,
    time: Duration,
    kind: String,
    is_of_cpu: bool,
    processes: u64,
    threads: u64,
}

impl Counts {
    fn of(profile: Option<&Profile>) -> Self {
        let Some(profile) = profile else {
            let (samples, time, processes, threads) = (0, Duration::ZERO, 0, 0);
            return Self { samples, time, kind: "CPU".into(), is_of_cpu: true, processes, threads };
        };
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let last = profile.sample_types.len() - 1;
        let kind: &str = &profile.sample_types[last].kind;
        let is_of_cpu = kind == "cpu";
        let number = |labels: &[crate::profile::Label], key: &str| {
            labels.iter().find(|found| &*found.key == key).and_then(|found| match found.value {
                LabelValue::Number(number, _) => Some(number),
                LabelValue::Text(_) => None,
            })
        };
        let (mut processes, mut threads) = (HashSet::new(), HashSet::new());
        for labels in &profile.label_sets {
            let process = number(labels, label::PROCESS_ID);
            processes.extend(process);
            threads.extend(number(labels, label::THREAD_ID).map(|thread| (process, thread)));
        }
        Self {
            samples: count(profile.total(0)),
            time: Duration::from_nanos(count(profile.total(last))),
            kind: if is_of_cpu { "CPU".into() } else { format!("{kind} time") },
            is_of_cpu,
            processes: processes.len() as u64,
            threads: threads.len() as u64,
        }
    }
}

/// So many of a kind.
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
            elapsed: Duration::from_millis(1500),
            used: Duration::from_millis(900),
            tally: Tally { programs: 1, walks: 200, whole_walks: 199, ..Tally::default() },
            path: None,
            bytes: 0,
            left: None,
        }
    }

    fn text(summary: &Summary) -> String {
        let mut text = Vec::new();
        summary.write(None, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn no_samples_have_a_reason() {
        let mut summary = summary();
        assert!(text(&summary).contains("no samples: 0.90 s of CPU were used by programs that cannot"));
        assert!(
            text(&summary).contains(" or ended before their first tick, or"),
            "what was swept has said nothing"
        );
        summary.tally.unaccounted = Duration::from_millis(500);
        assert!(text(&summary).contains("programs that cannot"), "of threads that block the signal");
        summary.tally.behind_last_ticks = Duration::from_millis(500);
        assert!(text(&summary).contains("no samples: 0.90 s of CPU were used by programs that ended before"));
        summary.used = Duration::ZERO;
        assert!(text(&summary).contains("no samples: the command was ended before its first tick"));
        summary.used = Duration::from_secs(1);
        summary.tally.no_samples = Some(NoSamples::NoTicks);
        assert!(text(&summary).contains("no samples: no tick came"));
        summary.tally.no_samples = Some(NoSamples::NoTimeUsed);
        summary.used = Duration::ZERO;
        assert!(text(&summary).contains("less time than one period"));
        summary.tally.programs = 0;
        assert!(text(&summary).contains("no samples: the library was in no process"));
        summary.tally.running = 1;
        assert!(text(&summary).contains("no samples: the processes that are recorded still run"));
    }

    #[test]
    fn what_ended_badly_and_what_still_runs_is_said() {
        let mut summary = summary();
        summary.end = End::Killed(9);
        summary.tally.killed = 2;
        summary.tally.running = 1;
        let text = text(&summary);
        for part in ["ended by SIGKILL", "2 processes ended without a word", "1 process still runs", "99.5 %"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
