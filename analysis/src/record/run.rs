//! Start of the command, forwarding of signals, and wait for its exit.
//!
//! The recorder must outlive the command, so signals that would terminate it are blocked and read.
//!
//! | origin of a signal | action |
//! | --- | --- |
//! | the terminal: Ctrl-C, Ctrl-\, Ctrl-Z, hang-up, new size | none: the command also receives it |
//! | a process (`kill`) | forwarded to the command |
//! | the command | none: it would get its own signal back |
//!
//! If the terminal stops the command, the recorder stops itself, and continues the command later. A
//! signal to the whole process group reaches the command twice: the recorder cannot detect this.

use super::{
    Refusal, environment,
    program::{Program, SHELL},
};
use crate::{Error, error::ErrorKind};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn},
    sys::{
        resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit},
        signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, raise, signal},
        signalfd::{SfdFlags, SignalFd},
        time::TimeValLike as _,
    },
    unistd::Pid,
};
use std::{
    ffi::{CString, OsString},
    os::{fd::AsFd as _, unix::ffi::OsStringExt as _},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

const HANDED_ON: [Signal; 12] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGWINCH,
    Signal::SIGPWR,
    Signal::SIGURG,
];

/// How the command exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Killed(i32),
}

impl End {
    /// Terminates this process like the command, with its status or by its signal, so that shells
    /// report the same. If the signal does not kill it, the status is 128 plus the number.
    pub fn repeat(self) -> ExitCode {
        match self {
            Self::Exited(status) => ExitCode::from(status),
            Self::Killed(number) => {
                if let Ok(number) = Signal::try_from(number) {
                    // The command has written its core file, if enabled.
                    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
                    set_default(number);
                    let _ = SigSet::from(number).thread_unblock();
                    let _ = raise(number);
                }
                ExitCode::from(u8::try_from(number).map_or(u8::MAX, |number| number.saturating_add(128)))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Pace,
    /// The command has exited, stopped, or continued.
    Change,
}

pub(super) struct Child {
    process: Pid,
    signals: SignalFd,
    /// [`time_of_children`] at the start: children from before `exec` in this process (cargo's).
    time_before: Duration,
}

/// Starts the command. It inherits standard streams, working directory, process group, terminal,
/// and ignored and blocked signals, except that SIGPIPE and SIGCHLD have their default disposition.
///
/// # Errors
/// If it could not be started.
pub(super) fn start(
    program: &Program,
    command: &[OsString],
    variables: Vec<(OsString, OsString)>,
) -> Result<Child, Refusal> {
    let failed = |errno: Errno| {
        let reason = std::io::Error::from(errno);
        Refusal::Other(
            Error::new(ErrorKind::Io, format!("cannot prepare to run a command: {reason}")).caused_by(reason),
        )
    };
    let mut arguments = command.to_vec();
    let mut path = program.path.as_path();
    if program.is_bare_script {
        // As execvp(3) does.
        path = Path::new(SHELL);
        arguments[0] = path.into();
        arguments.insert(1, program.path.clone().into());
    }
    let text = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| failed(Errno::EINVAL));
    let arguments: Vec<CString> =
        arguments.into_iter().map(|argument| text(argument.into_vec())).collect::<Result<_, _>>()?;
    let variables: Vec<CString> =
        variables.into_iter().map(|variable| text(environment::entry(variable))).collect::<Result<_, _>>()?;

    // If it is inherited as ignored, the command's exit status is lost.
    set_default(Signal::SIGCHLD);
    let mut watched = SigSet::from_iter(HANDED_ON);
    watched.add(Signal::SIGCHLD);
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&watched, flags).map_err(failed)?;
    let before = watched.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(failed)?;
    let spawn = || {
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_sigmask(&before)?;
        // Rust programs ignore it, which other programs do not expect.
        attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
        attributes
            .set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF)?;
        posix_spawn(path, &PosixSpawnFileActions::init()?, &attributes, &arguments, &variables)
    };
    let time_before = time_of_children();
    match spawn() {
        Ok(process) => Ok(Child { process, signals, time_before }),
        Err(errno) => {
            let _ = before.thread_set_mask();
            Err(Refusal::NotExecutable(program.path.clone().into(), std::io::Error::from(errno).to_string()))
        }
    }
}

impl Child {
    pub(super) fn process(&self) -> u32 {
        self.process.as_raw().unsigned_abs()
    }

    /// Waits for the exit and forwards signals. Calls `look` every `pace` and before changes.
    pub(super) fn wait(&mut self, pace: Duration, mut look: impl FnMut(Moment)) -> End {
        let mut next = Instant::now() + pace;
        loop {
            let rest = next.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(rest).unwrap_or(PollTimeout::ZERO);
            let mut descriptors = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            // Errors such as EINTR need no handling.
            let _ = poll(&mut descriptors, timeout);
            while let Ok(Some(info)) = self.signals.read_signal() {
                if info.ssi_signo == Signal::SIGCHLD as u32 {
                    look(Moment::Change);
                    if let Some(end) = self.take_change() {
                        return end;
                    }
                } else {
                    self.hand_on(info.ssi_signo, info.ssi_code, info.ssi_pid);
                }
            }
            if Instant::now() >= next {
                look(Moment::Pace);
                // In case that SIGCHLD was lost.
                if let Some(end) = self.take_change() {
                    return end;
                }
                next = Instant::now() + pace;
            }
        }
    }

    /// Unblocks the signals, after discarding pending ones, which were for the command.
    pub(super) fn let_signals_through(&self) {
        while let Ok(Some(_)) = self.signals.read_signal() {}
        let _ = SigSet::from_iter(HANDED_ON).thread_unblock();
    }

    /// Processes state changes of the command; returns its end.
    fn take_change(&self) -> Option<End> {
        use rustix::process::{WaitOptions, waitpid};
        loop {
            // By rustix, because nix cannot represent real-time signals.
            let process = rustix::process::Pid::from_raw(self.process.as_raw());
            match waitpid(process, WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((_, status))) => {
                    if let Some(status) = status.exit_status() {
                        return Some(End::Exited(status as u8));
                    }
                    if let Some(signal) = status.terminating_signal() {
                        return Some(End::Killed(signal));
                    }
                    if let Some(signal) = status.stopping_signal() {
                        self.stop_with_it(signal);
                    }
                }
                Ok(None) => return None,
                Err(rustix::io::Errno::INTR) => {}
                // ECHILD, which cannot happen.
                Err(_) => return Some(End::Exited(1)),
            }
        }
    }

    /// Stops this process if the terminal has stopped the command; then continues the command.
    fn stop_with_it(&self, number: i32) {
        let by_terminal = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
        if by_terminal.iter().any(|signal| *signal as i32 == number) {
            let _ = raise(Signal::SIGSTOP);
            let _ = kill(self.process, Signal::SIGCONT);
        }
    }

    /// Returns the CPU time of the command and of all waited-for descendants.
    pub(super) fn time(&self) -> Duration {
        time_of_children().saturating_sub(self.time_before)
    }

    fn hand_on(&self, number: u32, code: i32, sender: u32) {
        // Positive codes are the kernel's: see the module.
        let is_sent = code <= 0 && sender != self.process();
        let signal = i32::try_from(number).ok().and_then(|number| Signal::try_from(number).ok());
        if let Some(signal) = signal.filter(|_| is_sent) {
            let _ = kill(self.process, signal);
        }
    }
}

/// Raises the soft limit of descriptors to the hard limit.
pub(super) fn take_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Returns the CPU time of all waited-for children and their descendants.
fn time_of_children() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Duration::ZERO };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.unsigned_abs())
}

#[expect(unsafe_code, reason = "a signal's action is set")]
fn set_default(number: Signal) {
    // SAFETY: SIG_DFL installs no handler function. No code relies on the replaced handler: Rust's,
    // for stack overflows, is replaced only when that signal is about to kill this process.
    let _ = unsafe { signal(number, SigHandler::SigDfl) };
}
