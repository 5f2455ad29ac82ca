//! Runs programs with a known environment, with or without the profiler, and with a time limit.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::library::shared_library;
use super::skip::{Lack, skip};

/// Seconds after which a program hangs.
const SECONDS: &str = "SIGPROF_TEST_SECONDS";
/// Each program takes at most 1/50 of it, or 1/5 with twenty programs at a time.
const DEFAULT_SECONDS: u64 = 600;

/// The time after which a program hangs.
pub(super) fn time_limit() -> Duration {
    let seconds = std::env::var(SECONDS).map_or(Ok(DEFAULT_SECONDS), |seconds| seconds.parse());
    Duration::from_secs(seconds.unwrap_or_else(|_| panic!("{SECONDS} is not a number")))
}

#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// Seconds of CPU time that the process used, including programs that it replaced.
    pub(crate) used: f64,
}

impl Finished {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The lines on standard error except the profiler's summary lines.
    pub(crate) fn complaints(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| !is_end_line(line)).collect()
    }

    pub(crate) fn end_lines(&self) -> usize {
        self.stderr.lines().filter(|line| is_end_line(line)).count()
    }

    #[track_caller]
    pub(crate) fn expect_success(self) -> Self {
        assert!(self.status.success(), "{}\nstdout: {}\nstderr: {}", self.status, self.text(), self.stderr);
        self
    }
}

/// Whether `line` is `PROFILE: interrupts/evictions/bytes = N/N/N`, with ` (clock NAME)` if it is
/// not gperftools'. It may be followed in parentheses by the reason for no interrupts, or by the
/// unaccounted time, which a busy machine can cause.
fn is_end_line(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("PROFILE: interrupts/evictions/bytes = ") else { return false };
    let (figures, reason) = rest.split_once(' ').unwrap_or((rest, ""));
    let clock = reason.strip_prefix("(clock ").and_then(|clock| clock.split_once(')'));
    let reason = clock.map_or(reason, |(_, reason)| reason.trim_start());
    let figures: Option<Vec<u64>> = figures.split('/').map(|figure| figure.parse().ok()).collect();
    match figures.as_deref() {
        Some([0, _, _]) => reason.is_empty() || (reason.starts_with('(') && reason.ends_with(')')),
        Some([_, _, _]) => {
            let is_missing_time = reason.contains(" s unaccounted: ") && !reason.contains(" lost)");
            reason.is_empty() || is_missing_time
        }
        _ => false,
    }
}

/// Names the program, with its arguments, that runs the programs under test.
const EMULATOR: &str = "SIGPROF_TEST_EMULATOR";

pub(crate) fn is_for_aarch64() -> bool {
    cfg!(target_arch = "aarch64")
        || std::env::var(EMULATOR).is_ok_and(|emulator| emulator.contains("aarch64"))
}

/// A program with an empty environment, except for the variables that every program needs.
pub(crate) fn plain(program: impl AsRef<OsStr>) -> Command {
    let emulator = std::env::var(EMULATOR).unwrap_or_default();
    let mut words = emulator.split_whitespace();
    let mut command = match words.next() {
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.args(words).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.env_clear().env("LC_ALL", "C");
    // TMPDIR shows `ci/run_tests.py` which test run started the process.
    for name in ["PATH", "TMPDIR"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// A program that runs with the library under test preloaded and `CPUPROFILE` set to `profile`.
pub(crate) fn profiled(program: impl AsRef<OsStr>, profile: &Path) -> Command {
    let mut command = preload(program);
    command.env("CPUPROFILE", profile);
    command
}

/// A program that runs with the library under test preloaded, and no `CPUPROFILE`.
pub(crate) fn preload(program: impl AsRef<OsStr>) -> Command {
    let mut command = plain(program);
    match std::env::var_os(EMULATOR) {
        // The emulator itself must not load the library (qemu(1), "User Mode Emulation").
        Some(_) => {
            let library = shared_library().to_str().expect("a plain path");
            command.env("QEMU_SET_ENV", format!("LD_PRELOAD={library}"))
        }
        None => command.env("LD_PRELOAD", shared_library()),
    };
    command
}

/// A tool of the tests, with their environment: a compiler, a reader of profiles.
pub(crate) fn tool(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_remove("LD_LIBRARY_PATH").env("LC_ALL", "C");
    command
}

/// Whether a script exited with status 77 because it may not create mounts; skips the test then.
#[track_caller]
pub(crate) fn lacks_mounts(finished: &Finished) -> bool {
    let lacks = exit_code(finished.status) == 77 || finished.stderr.contains("unshare:");
    if lacks {
        skip(Lack::Right, format_args!("no namespaces and mounts: {}", finished.stderr));
    }
    lacks
}

/// Whether the tests run as root, which `purpose` needs; skips the test otherwise.
#[track_caller]
pub(crate) fn is_root(purpose: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip(Lack::Right, format_args!("only root can {purpose}"));
    }
    is_root
}

/// Runs `command` until it exits, with an empty standard input.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Finished {
    command.stdin(Stdio::null());
    wait(start(command))
}

/// Starts `command` in its own process group and captures its output.
#[track_caller]
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command.spawn().unwrap_or_else(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        panic!(
            "cannot start {program}: {error}; ci/setup.sh installs the Debian package {}",
            package_of(&program)
        )
    })
}

/// Waits until a program that `start` started exits; kills its group and panics if it hangs.
#[track_caller]
pub(crate) fn wait(mut child: Child) -> Finished {
    let child_id = child.id();
    let group = Pid::from_raw(child_id.try_into().expect("a process id"));
    let (ended, end) = mpsc::channel::<()>();
    let limit = time_limit();
    let watchdog = std::thread::spawn(move || {
        let hangs = end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        // If the group has exited since, there is nothing to report.
        hangs && killpg(group, Signal::SIGKILL).is_ok()
    });
    drop(child.stdin.take());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reader = std::thread::spawn(move || read(stderr));
    let stdout = read(stdout);
    let stderr = reader.join().expect("the reader does not panic");
    // Before it is reaped, because its clock is removed then.
    waitid(Id::Pid(group), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
        .expect("nobody else has waited for the program");
    let used = cpu_seconds(group);
    let status = child.wait().expect("the program has ended");
    drop(ended);
    let hung = watchdog.join().expect("the watchdog does not panic");
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    discard_spools(child_id, &stderr);
    assert!(!hung, "the program was still running after {limit:?}; its standard error:\n{stderr}");
    Finished { status, stdout, stderr, used }
}

#[track_caller]
pub(crate) fn has_ended(child: &Child) -> bool {
    let process = Pid::from_raw(child.id().try_into().expect("a process id"));
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    waitid(Id::Pid(process), flags).expect("it is ours") != WaitStatus::StillAlive
}

fn read(output: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut output) = output {
        output.read_to_end(&mut bytes).expect("a pipe can be read");
    }
    bytes
}

/// The CPU time of an exited process that is not yet reaped.
fn cpu_seconds(process: Pid) -> f64 {
    let clock = ClockId::pid_cpu_clock_id(process).expect("the process is there");
    let time = clock_gettime(clock).expect("its clock can be read");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// Removes the spools in the default directory of a program that was killed or could not write its
/// profile. Tests of spools have their own directory.
fn discard_spools(process: u32, stderr: &str) {
    let directory = sigprof::recover::default_directory();
    let own = format!("{process}-");
    for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&own) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    for (_, kept) in
        stderr.lines().filter_map(|line| line.split_once("; to recover its samples: sigprof recover "))
    {
        if Path::new(kept).parent() == Some(&directory) {
            let _ = std::fs::remove_file(kept);
        }
    }
}

/// The exit status, or 128 plus the number of the signal that killed the program, as in shells.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).expect("the program has ended")
}

fn package_of(program: &str) -> &str {
    let name = program.rsplit('/').next().unwrap_or(program);
    match name {
        "go" => "golang-go",
        "google-pprof" => "google-perftools",
        "nm" | "readelf" => "binutils",
        "sort" => "coreutils",
        "setpriv" | "unshare" => "util-linux",
        other => other,
    }
}

/// Starts the profiler; its timer does not expire in the first second of CPU time.
pub(crate) fn quietly(command: &mut Command) -> &mut Command {
    command.env("CPUPROFILE_FREQUENCY", "1")
}

/// The same for programs with threads: with other clocks, the first tick of a per-thread timer is
/// at a random time in the first second.
pub(crate) fn quietly_with_threads(command: &mut Command) -> &mut Command {
    quietly(command).env("CPUPROFILE_CLOCK", "itimer")
}

/// Runs `program` under the profiler in a shell that first runs `preparation`.
pub(crate) fn in_shell(preparation: &str, program: &Path, profile: &Path) -> Command {
    let script = format!(
        "{preparation}; LD_PRELOAD=$1 CPUPROFILE=$2; export LD_PRELOAD CPUPROFILE; shift 2; exec \"$@\""
    );
    let mut command = plain("sh");
    command.args(["-c", &script, "sh"]).arg(shared_library()).arg(profile).arg(program);
    command
}

pub(crate) fn assignment(name: &str, value: &Path) -> String {
    format!("{name}={}", value.display())
}
