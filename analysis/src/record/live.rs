//! Status line on the terminal while a command runs.
//!
//! The command may write to the same terminal at any cursor position, so a status line could erase
//! its output. If the command's standard output is that terminal, the line is disabled when a
//! process has written anything (`/proc/PID/io`). `--live` forces the line; `--quiet` disables it.

use super::{RecordOptions, parts::CollectedSoFar};
use sigprof::Clock;
use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

/// Shorter runs have no line.
const BEGIN: Duration = Duration::from_millis(400);
const REFRESH: Duration = Duration::from_millis(250);

/// The status line; see the module.
pub(super) struct Live {
    state: State,
    process: u32,
    /// Draw it whatever the command writes.
    is_forced: bool,
    shares_terminal: bool,
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
    pub(super) fn new(options: &RecordOptions, process: u32) -> Self {
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

    /// Draws the line if it is due; only then calls `so_far`.
    pub(super) fn draw(&mut self, elapsed: Duration, so_far: impl FnOnce() -> CollectedSoFar) {
        if self.state == State::Off || elapsed < self.next {
            return;
        }
        self.next = elapsed + REFRESH;
        if !is_in_foreground() {
            return;
        }
        let CollectedSoFar { samples, time } = so_far();
        // A carriage return, so that the command's output begins at the start of the line.
        let line = format!("\r\x1b[K{}\r", text(elapsed, samples, time, self.unit));
        // Checked last: reading spools takes time, in which the command may write.
        if self.shares_terminal && !self.is_forced && has_written(self.process) {
            self.state = State::Off;
            return;
        }
        if io::stderr().write_all(line.as_bytes()).is_ok() {
            self.state = State::Drawn;
        }
    }

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

/// Returns the name of the time that a clock samples.
pub(super) fn unit(clock: Clock) -> &'static str {
    if clock == Clock::Wall { "threads' time" } else { "CPU time" }
}

fn text(elapsed: Duration, samples: u64, time: Duration, unit: &str) -> String {
    let (elapsed, time) = (elapsed.as_secs_f64(), time.as_secs_f64());
    format!("sigprof: {elapsed:.1} s, {samples} samples, {time:.2} s of {unit}")
}

/// False in the background: the terminal belongs to the shell, and a write may stop this process.
fn is_in_foreground() -> bool {
    match rustix::termios::tcgetpgrp(io::stderr()) {
        Ok(group) => group == rustix::process::getpgrp(),
        // Not the controlling terminal.
        Err(_) => true,
    }
}

/// Whether the process or a descendant has written anything; true if unknown.
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
    fn does_not_overwrite_output_written_while_spools_are_read() {
        let mut command = Command::new("cat");
        let mut cat = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut live = Live::new(&RecordOptions { quiet: true, ..RecordOptions::default() }, cat.id());
        (live.state, live.shares_terminal) = (State::Hidden, true);
        live.draw(BEGIN, || {
            // Twice: the reader may get the data before the kernel counts the write.
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
    fn line_has_elapsed_time_samples_and_sampled_time() {
        let line = text(Duration::from_millis(1540), 103, Duration::from_millis(1030), unit(Clock::Cpu));
        assert_eq!(line, "sigprof: 1.5 s, 103 samples, 1.03 s of CPU time");
    }
}
