//! Lines on stderr.
//!
//! Each is one `write` of a buffer on the stack, so it is signal-safe. It is dropped if it would
//! block. If the environment started the profile, lines go to a copy of stderr made at load,
//! because programs such as GNU sort close descriptor 2 before they exit; to descriptor 2 if the
//! application closed the copy. With `CPUPROFILE_QUIET` there is no copy, so a reader of stderr
//! finds its end as usual. A descriptor is used only if it is still the same file as at load.
//!
//! # Safety
//! System calls on own descriptors.
#![allow(unsafe_code)]

use crate::preload::settings;
use core::{
    fmt::Write,
    sync::atomic::{AtomicI32, AtomicU64, Ordering},
    time::Duration,
};
use sigprof::{
    Summary, ThreadUse,
    interface::{self, Diagnostic, Failure, Line, SpoolUse, StatisticsChoice, StoppedSession},
};

const STDERR: i32 = 2;

static COPY: AtomicI32 = AtomicI32::new(-1);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// Stores the identity of stderr.
pub(crate) fn open() {
    if let Some((device, inode)) = interface::identity(STDERR) {
        DEVICE.store(device, Ordering::Relaxed);
        INODE.store(inode, Ordering::Relaxed);
    }
}

/// Copies stderr to a high descriptor.
pub(crate) fn keep() {
    const HIGH: i32 = 1000;
    for lowest in [HIGH, 100, 20] {
        // SAFETY: makes a new descriptor, which `exec` closes.
        let copy = unsafe { libc::fcntl(STDERR, libc::F_DUPFD_CLOEXEC, lowest) };
        if copy >= 0 {
            COPY.store(copy, Ordering::Release);
            interface::at_fork_in_child(close_in_child);
            return;
        }
    }
}

/// A forked daemon has no copy: its starter may wait for the end of stderr.
unsafe extern "C" fn close_in_child() {
    let copy = COPY.swap(-1, Ordering::AcqRel);
    let expected = (DEVICE.load(Ordering::Relaxed), INODE.load(Ordering::Relaxed));
    if copy >= 0 && interface::identity(copy) == Some(expected) {
        // SAFETY: the descriptor is still the file that it was made for.
        unsafe { libc::close(copy) };
    }
}

/// The summary line, which starts as gperftools', or the reason for having no profile.
pub(crate) fn end_of_profile(stopped: &StoppedSession<'_>) {
    if !stopped.has_file() {
        return;
    }
    match stopped.file_bytes() {
        Err(failure)
            if stopped.is_collected() && stopped.spool_path().is_none() && is_of_recording(failure) => {}
        Err(failure) => no_profile(stopped.path(), failure, stopped.spool_path()),
        Ok(_) if settings().quiet => {}
        Ok(bytes) => {
            let mut line = Line::new();
            let _ = write!(line, "PROFILE: interrupts/evictions/bytes = {}/0/{bytes}", stopped.samples());
            let _ = write!(line, " (clock {})", stopped.summary().clock);
            if let Some(reason) = stopped.no_samples() {
                let _ = write!(line, " (no samples: {reason})");
            }
            if stopped.lost() > 0 {
                let _ = write!(line, " ({} lost)", stopped.lost());
            }
            let summary = stopped.summary();
            if summary.is_short_of_time() && stopped.no_samples().is_none() {
                let _ = line.write_str(" (");
                seconds(&mut line, summary.unaccounted);
                let _ = line.write_str(" of ");
                seconds(&mut line, summary.clock_time());
                let _ = line.write_str(" s unaccounted: ");
                let _ = match summary.blocking_threads {
                    0 => line.write_str("the system sent no ticks, or the profiling signal was blocked)"),
                    1 => line.write_str("a thread blocks the profiling signal)"),
                    threads => write!(line, "{threads} threads block the profiling signal)"),
                };
            }
            if summary.is_in_step() {
                in_step(&mut line, summary);
            }
            send(line);
            if stopped.summary().spool == SpoolUse::Truncated {
                warn(
                    "the spool was full, so a kill would have lost samples; set CPUPROFILE_SPOOL to a directory with more space",
                );
            }
        }
    }
    let has_lost = stopped.summary().losses.table_full > 0 && !settings().quiet;
    if let Some(reason) = stopped.spill_failure().filter(|_| has_lost) {
        let mut line = Line::new();
        let _ = line.write_str(
            "sigprof: samples were lost, since they could not be spilled to a file beside the profile at ",
        );
        line.path(stopped.path());
        let _ = write!(line, ": {reason}");
        send(line);
    }
    if settings().statistics != StatisticsChoice::Off {
        statistics(stopped);
    }
}

#[inline(never)]
fn in_step(line: &mut Line, summary: &Summary) {
    let _ = line.write_str(" (code in step with the kernel's timer interrupts, which count ");
    seconds(line, summary.interrupted);
    let _ = line.write_str(" of ");
    seconds(line, summary.process_cpu);
    let _ = write!(line, " s: shares can be wrong with clock {})", summary.clock);
}

/// With hundredths.
fn seconds(line: &mut Line, time: Duration) {
    let _ = write!(line, "{}.{:02}", time.as_secs(), time.subsec_millis() / 10);
}

/// Prints one line of `name=figure`, with the path last because it may be cut and contain any
/// bytes; then a line for each of the busiest threads, for the same reason with its name last.
fn statistics(stopped: &StoppedSession<'_>) {
    let summary = stopped.summary();
    let (walks, losses) = (summary.walks, summary.losses);
    let figures = [
        ("samples", summary.samples),
        ("timer_ticks", summary.timer_ticks),
        ("foreign_ticks", summary.foreign_ticks),
        ("early_ticks", summary.early_ticks),
        ("filtered", summary.filtered),
        ("excluded", summary.excluded),
        ("walks", walks.total()),
        ("complete", walks.complete),
        ("depth", walks.depth),
        ("unreadable", walks.unreadable),
        ("no_rule", walks.no_rule),
        ("loops", walks.loops),
        ("unloading", walks.unloading),
        ("spilled", summary.spilled),
        ("rule_hits", summary.rule_hits),
        ("rule_misses", summary.rule_misses),
        ("rules_evaluated", summary.rules_evaluated),
        ("frames_without_rule", summary.frames_without_rule),
        ("no_slot", losses.no_slot),
        ("table_full", losses.table_full),
        ("no_pc", losses.no_pc),
        ("spill_lost", losses.spill_lost),
        ("stuck_handlers", losses.stuck_handlers),
        ("objects_missed", losses.objects_missed),
        ("timers_refused", summary.timers_refused),
        ("without_event", summary.without_event),
        ("blocking_threads", u64::from(summary.blocking_threads)),
        ("threads", summary.threads.count()),
        ("unnamed_samples", summary.threads.others()),
        ("unaccounted_micros", summary.unaccounted.as_micros() as u64),
        ("interrupted_micros", summary.interrupted.as_micros() as u64),
        ("cpu_micros", summary.process_cpu.as_micros() as u64),
    ];
    let mut line = Line::new();
    let _ = line.write_str("sigprof: statistics:");
    for (name, figure) in figures {
        let _ = write!(line, " {name}={figure}");
    }
    let _ = write!(line, " clock={} spool=", summary.clock);
    let _ = match summary.spool {
        SpoolUse::Off => line.write_str("off"),
        SpoolUse::Complete => line.write_str("complete"),
        SpoolUse::Truncated => line.write_str("truncated"),
        SpoolUse::Removed => line.write_str("removed"),
        _ => line.write_str("unavailable"),
    };
    let _ = line.write_str(" profile=");
    line.path(stopped.path());
    send_statistics(line);
    for used in summary.threads.busiest() {
        thread(used);
    }
}

fn thread(used: &ThreadUse) {
    let mut line = Line::new();
    let _ = write!(line, "sigprof: thread: process={} thread={}", interface::process(), used.thread.id);
    let _ = write!(line, " samples={}", used.samples);
    if let Some(cpu) = used.cpu {
        let _ = write!(line, " cpu_micros={}", cpu.as_micros() as u64);
    }
    let _ = line.write_str(" name=");
    line.bytes(used.thread.name.as_bytes());
    send_statistics(line);
}

/// Reports why there is no profile at `path`.
pub(crate) fn failed(path: &[u8], failure: Failure) {
    no_profile(path, failure, None);
}

/// Whether the process can write neither spool nor file for a recorder, such as after a change of
/// user. stderr is the command's, and the recorder reports the missing time.
pub(crate) fn is_of_recording(failure: Failure) -> bool {
    let is_refused = |errno| [libc::EACCES, libc::EPERM].contains(&errno);
    settings().keeps_spool && matches!(failure, Failure::Output { errno, .. } if is_refused(errno))
}

/// As [`failed`], with the object of the program's handler. Not for signal context.
pub(crate) fn refused(path: &[u8], failure: Failure) {
    let mut line = Line::new();
    let _ = line.write_str("sigprof: no profile at ");
    line.path(path);
    let _ = write!(line, ": {failure}");
    if let Failure::HandlerTaken { handler, .. } = failure {
        if let Some(file) = interface::file_of(handler) {
            let _ = line.write_str(", in ");
            line.path(&file);
        }
    }
    send(line);
}

/// Reports that another profiler was loaded first.
pub(crate) fn defers_to(first: &[u8]) {
    let mut line = Line::new();
    let _ = line.write_str("sigprof: ");
    line.path(&interface::own_file().unwrap_or_default());
    let _ = line.write_str(" is inactive: the profiler in ");
    line.path(first);
    let _ = line.write_str(" was loaded first");
    send(line);
}

/// As [`failed`], with the spool that holds the samples.
fn no_profile(path: &[u8], failure: Failure, spool: Option<&[u8]>) {
    let mut line = Line::new();
    let _ = line.write_str("sigprof: no profile at ");
    line.path(path);
    let _ = write!(line, ": {failure}");
    if let Some(spool) = spool {
        let _ = line.write_str("; to recover its samples: sigprof recover ");
        line.path(spool);
    }
    send(line);
}

pub(crate) fn not_flushed(path: &[u8], failure: Failure) {
    let mut line = Line::new();
    let _ = line.write_str("sigprof: cannot update the profile at ");
    line.path(path);
    let _ = write!(line, ": {failure}");
    send(line);
}

/// Reports a problem of the profile at `path`.
pub(crate) fn diagnostic(path: &[u8], notice: Diagnostic<'_>) {
    match notice {
        Diagnostic::NoProfile { failure, spool: None } if is_of_recording(failure) => {}
        Diagnostic::NoProfile { failure, spool } => no_profile(path, failure, spool),
        Diagnostic::NoList(failure) => {
            let mut line = Line::new();
            let _ = line.write_str("sigprof: no list of mapped files in the profile at ");
            line.path(path);
            let _ = write!(line, ": {failure}");
            send(line);
        }
        Diagnostic::NoTicks(failure) => {
            let mut line = Line::new();
            let _ = line.write_str("sigprof: profiling stopped");
            if !path.is_empty() {
                let _ = line.write_str(" for the profile at ");
                line.path(path);
            }
            let _ = write!(line, ": {failure}");
            send(line);
        }
        Diagnostic::TimerTaken => {
            let mut line = Line::new();
            let _ = line.write_str(
                "sigprof: the program armed ITIMER_PROF by a direct system call; CPU time may be missing in the profile at ",
            );
            line.path(path);
            send(line);
        }
        Diagnostic::StillArmed(failure) => {
            let mut line = Line::new();
            let _ = line.write_str("sigprof: the next program will ignore the profiling signal, since the timer could not be stopped for the profile at ");
            line.path(path);
            let _ = write!(line, ": {failure}");
            send(line);
        }
        Diagnostic::OtherClock { requested, used, failure } => {
            let mut line = Line::new();
            let _ = write!(line, "sigprof: using clock {used} instead of {requested} for the profile at ");
            line.path(path);
            let _ = write!(line, ": {failure}");
            send(line);
        }
        Diagnostic::OtherSignal { requested, used, failure } => {
            let mut line = Line::new();
            let _ = write!(line, "sigprof: using signal {used} instead of {requested} for the profile at ");
            line.path(path);
            let _ = write!(line, ": {failure}");
            send(line);
        }
        Diagnostic::MainThreadAlone => {
            let mut line = Line::new();
            let _ = line.write_str("sigprof: only the first thread is sampled in the profile at ");
            line.path(path);
            let _ = line.write_str(
                ": the program handles the signal of clock wall itself (set CPUPROFILE_TIMER_SIGNAL), or is in a sandbox",
            );
            send(line);
        }
        Diagnostic::Lost(periods) => {
            let mut line = Line::new();
            let _ = write!(line, "sigprof: {periods} lost for the profile at ");
            line.path(path);
            send_statistics(line);
        }
    }
}

/// Reports why the signal `name` cannot start profiling.
pub(crate) fn no_toggle(name: &[u8], failure: Failure) {
    let mut line = Line::new();
    let _ = line.write_str("sigprof: CPUPROFILESIGNAL=");
    line.path(name);
    let _ = write!(line, " cannot start profiling, which stays off: {failure}");
    send(line);
}

/// Reports why the user's directory has no spool.
pub(crate) fn no_spool(directory: &[u8], action: &str, reason: &str) {
    let mut line = Line::new();
    let _ = line.write_str("sigprof: no spool in CPUPROFILE_SPOOL=");
    line.path(directory);
    let _ = write!(line, ", a kill would lose the samples: cannot {action}: {reason}");
    send(line);
}

pub(crate) fn warn(warning: &str) {
    let mut line = Line::new();
    let _ = write!(line, "sigprof: {warning}");
    send(line);
}

/// Prints a line of statistics to the chosen file, otherwise to stderr.
fn send_statistics(mut line: Line) {
    if let StatisticsChoice::File(path) = &settings().statistics {
        return interface::append_line(path, line.finished());
    }
    send(line);
}

/// Prints the line to the first descriptor that still is stderr as it was at load.
fn send(mut line: Line) {
    let expected = (DEVICE.load(Ordering::Relaxed), INODE.load(Ordering::Relaxed));
    let line = line.finished();
    for descriptor in [COPY.load(Ordering::Acquire), STDERR] {
        if descriptor >= 0 && interface::write_line(descriptor, expected, line) {
            return;
        }
    }
}
