//! Lines on stderr.
//!
//! Each is one `write` of a buffer on the stack, so it may be sent from a signal handler; it is left out where nobody
//! takes it at once. When the environment asks for a profile it goes through a copy of stderr made at load, since
//! programs close descriptor 2 before they exit (GNU sort does), or to descriptor 2 where the host has closed ours. Who asks
//! for quiet has no such copy: a reader of stderr comes to its end when the host closes it, as without us. A
//! descriptor is used only if it still is the file it was at load: otherwise it may have become one of the host's own.
//!
//! # Safety
//! Calls on descriptors of our own.
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

/// Notes which file stderr is.
pub(crate) fn open() {
    if let Some((device, inode)) = interface::identity(STDERR) {
        DEVICE.store(device, Ordering::Relaxed);
        INODE.store(inode, Ordering::Relaxed);
    }
}

/// Copies stderr to a high descriptor, where it is in nobody's way.
pub(crate) fn keep() {
    const HIGH: i32 = 1000;
    for lowest in [HIGH, 100, 20] {
        // SAFETY: a new descriptor for an open file; it is closed by exec.
        let copy = unsafe { libc::fcntl(STDERR, libc::F_DUPFD_CLOEXEC, lowest) };
        if copy >= 0 {
            COPY.store(copy, Ordering::Release);
            interface::at_fork_in_child(close_in_child);
            return;
        }
    }
}

/// A daemon lets go of its starter's stderr, which may wait for just that; so its forked child has no copy.
unsafe extern "C" fn close_in_child() {
    let copy = COPY.swap(-1, Ordering::AcqRel);
    let expected = (DEVICE.load(Ordering::Relaxed), INODE.load(Ordering::Relaxed));
    if copy >= 0 && interface::identity(copy) == Some(expected) {
        // SAFETY: the descriptor is ours: it is still the file that we opened it for.
        unsafe { libc::close(copy) };
    }
}

/// The line at the end of a profile, which begins as gperftools' does; or why there is none.
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

/// Why functions can have wrong shares.
#[inline(never)]
fn in_step(line: &mut Line, summary: &Summary) {
    let _ = line.write_str(" (code in step with the kernel's timer interrupts, which count ");
    seconds(line, summary.interrupted);
    let _ = line.write_str(" of ");
    seconds(line, summary.process_cpu);
    let _ = write!(line, " s: shares can be wrong with clock {})", summary.clock);
}

/// Seconds, to hundredths.
fn seconds(line: &mut Line, time: Duration) {
    let _ = write!(line, "{}.{:02}", time.as_secs(), time.subsec_millis() / 10);
}

/// One line of `name=figure` with all that became of ticks and walks, the path last, which may hold anything and be cut; then
/// one for each of the busiest threads, whose name is last for the same reason.
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

/// The line of a thread.
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

/// One line that says why there is no profile at `path`.
pub(crate) fn failed(path: &[u8], failure: Failure) {
    no_profile(path, failure, None);
}

/// True where a recorder's process may write neither a spool nor a file, as one does that has become another user. stderr is the
/// command's own then, and the recorder says how much time is missing.
pub(crate) fn is_of_recording(failure: Failure) -> bool {
    let is_refused = |errno| [libc::EACCES, libc::EPERM].contains(&errno);
    settings().keeps_spool && matches!(failure, Failure::Output { errno, .. } if is_refused(errno))
}

/// The same, and where the program's handler is, if that is the reason. Not for signal context.
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

/// One line that says that another profiler was loaded before this one.
pub(crate) fn defers_to(first: &[u8]) {
    let mut line = Line::new();
    let _ = line.write_str("sigprof: ");
    line.path(&interface::own_file().unwrap_or_default());
    let _ = line.write_str(" is inactive: the profiler in ");
    line.path(first);
    let _ = line.write_str(" was loaded first");
    send(line);
}

/// The same, and where the samples are kept that could not be written.
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

/// One line that says why the profile at `path` is as it was before a flush.
pub(crate) fn not_flushed(path: &[u8], failure: Failure) {
    let mut line = Line::new();
    let _ = line.write_str("sigprof: cannot update the profile at ");
    line.path(path);
    let _ = write!(line, ": {failure}");
    send(line);
}

/// One line that says what is wrong with the profile at `path`.
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
        Diagnostic::OtherClock { asked, used, failure } => {
            let mut line = Line::new();
            let _ = write!(line, "sigprof: using clock {used} instead of {asked} for the profile at ");
            line.path(path);
            let _ = write!(line, ": {failure}");
            send(line);
        }
        Diagnostic::OtherSignal { asked, used, failure } => {
            let mut line = Line::new();
            let _ = write!(line, "sigprof: using signal {used} instead of {asked} for the profile at ");
            line.path(path);
            let _ = write!(line, ": {failure}");
            send(line);
        }
        Diagnostic::FirstThreadAlone => {
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

/// One line that says why the signal called `name` cannot switch profiling.
pub(crate) fn no_toggle(name: &[u8], failure: Failure) {
    let mut line = Line::new();
    let _ = line.write_str("sigprof: CPUPROFILESIGNAL=");
    line.path(name);
    let _ = write!(line, " cannot start profiling, which stays off: {failure}");
    send(line);
}

/// One line that says why there is no spool in the directory that the user has named.
pub(crate) fn no_spool(directory: &[u8], action: &str, reason: &str) {
    let mut line = Line::new();
    let _ = line.write_str("sigprof: no spool in CPUPROFILE_SPOOL=");
    line.path(directory);
    let _ = write!(line, ", a kill would lose the samples: cannot {action}: {reason}");
    send(line);
}

/// One line with a warning.
pub(crate) fn warn(warning: &str) {
    let mut line = Line::new();
    let _ = write!(line, "sigprof: {warning}");
    send(line);
}

/// Sends the line where the user wants statistics, to stderr unless a file is named.
fn send_statistics(mut line: Line) {
    if let StatisticsChoice::File(path) = &settings().statistics {
        return interface::append_line(path, line.finished());
    }
    send(line);
}

/// Writes the line to the first place that is still what it was at load.
fn send(mut line: Line) {
    let expected = (DEVICE.load(Ordering::Relaxed), INODE.load(Ordering::Relaxed));
    let line = line.finished();
    for descriptor in [COPY.load(Ordering::Acquire), STDERR] {
        if descriptor >= 0 && interface::write_line(descriptor, expected, line) {
            return;
        }
    }
}
