//! The line on the terminal while a command runs.
//!
//! The command may write to the same terminal, and nobody can tell from outside where its cursor stands: a line of ours
//! could wipe out half of one of its own. So where the command's standard output is that terminal the line gives way for
//! good as soon as one of its processes has written anything anywhere, which the system counts (`/proc/PID/io`). `--live`
//! shows it all the same, `--quiet` never.

use super::{Options, parts::CollectedSoFar};
use sigprof::Clock;
use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

/// Shorter runs have none.
const BEGIN: Duration = Duration::from_millis(400);
/// How often it is drawn.
const REFRESH: Duration = Duration::from_millis(250);

/// See the module.
pub(super) struct Live {
    state: State,
    /// The command's first process.
    process: u32,
    /// It is drawn whatever the command writes.
    is_forced: bool,
    shares_terminal: bool,
    /// What the samples stand for.
    unit: &'static str,
    next: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Off,
    Hidden,
    Drawn,
}

impl Live {
    pub(super) fn new(options: &Options, process: u32) -> Self {
        let is_shown = io::stderr().is_terminal() && !options.quiet;
        Self {
            state: if is_shown { State::Hidden } else { State::Off },
            process,
            is_forced: options.live,
            shares_terminal: io::stdout().is_terminal(),
            unit: unit(options.clock),
            next: BEGIN,
        }
    }

    /// Draws the line, if it is time to. `so_far` is asked only then.
    pub(super) fn draw(&mut self, elapsed: Duration, so_far: impl FnOnce() -> CollectedSoFar) {
        if self.state == State::Off || elapsed < self.next {
            return;
        }
        self.next = elapsed + REFRESH;
        if !is_in_foreground() {
            return;
        }
        let CollectedSoFar { samples, time } = so_far();
        // The cursor goes back, so that what the command writes begins where a line does.
        let line = format!("\r\x1b[K{}\r", text(elapsed, samples, time, self.unit));
        // Right before the line is written: spools take their time to read, and the command may write meanwhile.
        if self.shares_terminal && !self.is_forced && has_written(self.process) {
            self.state = State::Off;
            return;
        }
        if io::stderr().write_all(line.as_bytes()).is_ok() {
            self.state = State::Drawn;
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if self.state != State::Drawn {
            return;
        }
        self.state = State::Hidden;
        if self.shares_terminal && !self.is_forced && has_written(self.process) {
            return;
        }
        if is_in_foreground() {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

/// What samples of a clock stand for.
pub(super) fn unit(clock: Clock) -> &'static str {
    if clock == Clock::Wall { "threads' time" } else { "CPU time" }
}

/// What the line says.
fn text(elapsed: Duration, samples: u64, time: Duration, unit: &str) -> String {
    let (elapsed, time) = (elapsed.as_secs_f64(), time.as_secs_f64());
    format!("sigprof: {elapsed:.1} s, {samples} samples, {time:.2} s of {unit}")
}

/// False in the background: a terminal may stop a process that writes to it from there, and the shell has it anyway.
fn is_in_foreground() -> bool {
    match rustix::termios::tcgetpgrp(io::stderr()) {
        Ok(group) => group == rustix::process::getpgrp(),
        // A terminal that is not ours to be in the foreground of.
        Err(_) => true,
    }
}

/// Whether the process, or one below it, has written anything; true where that cannot be found out.
fn has_written(process: u32) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/{process}/io")) else { return true };
    let written = text.lines().find_map(|line| line.strip_prefix("wchar: ")?.trim().parse::<u64>().ok());
    if written != Some(0) {
        return true;
    }
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|word| word.parse().ok()).any(has_written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Read as _,
        process::{Command, Stdio},
    };

    #[test]
    fn what_the_command_writes_while_spools_are_read_is_not_overwritten() {
        let mut command = Command::new("cat");
        let mut cat = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut live = Live::new(&Options { quiet: true, ..Options::default() }, cat.id());
        (live.state, live.shares_terminal) = (State::Hidden, true);
        live.draw(BEGIN, || {
            // Twice: the kernel counts a write when its reader may have it already.
            for _ in 0..2 {
                cat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
                cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            }
            CollectedSoFar::default()
        });
        drop(cat.stdin.take());
        cat.wait().unwrap();
        assert!(live.state == State::Off);
    }

    #[test]
    fn the_line_has_the_time_the_samples_and_what_they_stand_for() {
        let line = text(Duration::from_millis(1540), 103, Duration::from_millis(1030), unit(Clock::Cpu));
        assert_eq!(line, "sigprof: 1.5 s, 103 samples, 1.03 s of CPU time");
    }
}
