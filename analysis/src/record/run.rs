//! Starts the command, hands signals on to it, and waits for its end.
//!
//! The recorder must outlive the command, so no signal that ends a program usually ends it: they are blocked, and read from a descriptor.
//!
//! | where a signal comes from | what happens |
//! | --- | --- |
//! | the terminal: Ctrl-C, Ctrl-\, Ctrl-Z, a hang-up, a new size | nothing: the kernel sends it to the command, too |
//! | a process (`kill`) | the command gets it |
//! | the command itself | nothing: it would get its own signal back |
//!
//! Where the terminal stops the command the recorder stops, too, for the shell to see; when it goes on, so does the command.
//! A signal that is sent to the whole process group arrives twice at the command, since nobody can tell it from one that is sent
//! to the recorder alone.

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

/// The signals that are handed on.
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

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exited(u8),
    /// By the signal of this number.
    Killed(i32),
}

impl End {
    /// Ends this process as the command ended: with its status, or by its signal, so that shells say the same as they would of
    /// the command. Where that signal does not end this process its status is 128 and the number, as shells have it.
    pub fn repeat(self) -> ExitCode {
        match self {
            Self::Exited(status) => ExitCode::from(status),
            Self::Killed(number) => {
                if let Ok(number) = Signal::try_from(number) {
                    // The command has left its own core file, where one was wanted.
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

/// What the recorder is called back for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Some time has passed.
    Pace,
    /// The command has ended, has been stopped, or goes on.
    Change,
}

/// The command, as it runs.
pub(super) struct Child {
    process: Pid,
    signals: SignalFd,
    /// What [`time_of_children`] was when it started: of the children that the program in whose place the recorder runs had
    /// before, as cargo has compilers.
    time_before: Duration,
}

/// Starts it. Its standard streams, its working directory, its process group and its terminal are the recorder's; so are the
/// signals that it ignores or blocks, but for SIGPIPE and SIGCHLD, which it does not ignore.
///
/// # Errors
/// Why it could not be started.
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

    // Whoever started us may ignore it, and the command's end would be lost.
    set_default(Signal::SIGCHLD);
    let mut watched = SigSet::from_iter(HANDED_ON);
    watched.add(Signal::SIGCHLD);
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&watched, flags).map_err(failed)?;
    let before = watched.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(failed)?;
    let spawn = || {
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_sigmask(&before)?;
        // Rust programs ignore it, and few others expect that.
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
    /// Process id.
    pub(super) fn process(&self) -> u32 {
        self.process.as_raw().unsigned_abs()
    }

    /// Waits for its end, and hands signals on meanwhile. Calls `look` now and then, `pace` apart, and before each change of the
    /// command's state is taken note of.
    pub(super) fn wait(&mut self, pace: Duration, mut look: impl FnMut(Moment)) -> End {
        let mut next = Instant::now() + pace;
        loop {
            let rest = next.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(rest).unwrap_or(PollTimeout::ZERO);
            let mut descriptors = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            // An error is a signal that came, or nothing that waiting would mend.
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
                // A signal that never came must not make us wait for ever.
                if let Some(end) = self.take_change() {
                    return end;
                }
                next = Instant::now() + pace;
            }
        }
    }

    /// Lets signals do what they do by default again. What has come meanwhile was for the command.
    pub(super) fn let_signals_through(&self) {
        while let Ok(Some(_)) = self.signals.read_signal() {}
        let _ = SigSet::from_iter(HANDED_ON).thread_unblock();
    }

    /// Takes note of what has become of the command; gives its end.
    fn take_change(&self) -> Option<End> {
        use rustix::process::{WaitOptions, waitpid};
        loop {
            // By rustix, since nix knows no real-time signals, one of which may have ended it.
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
                // Somebody else has waited for it, which nobody can.
                Err(_) => return Some(End::Exited(1)),
            }
        }
    }

    /// Stops, if the terminal has stopped the command, until somebody lets us go on; and the command with us.
    fn stop_with_it(&self, number: i32) {
        let by_terminal = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
        if by_terminal.iter().any(|signal| *signal as i32 == number) {
            let _ = raise(Signal::SIGSTOP);
            let _ = kill(self.process, Signal::SIGCONT);
        }
    }

    /// CPU time of the command and of all processes below it that were waited for.
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

/// Has as many descriptors as the system grants.
pub(super) fn take_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// CPU time of all children that were waited for, and of theirs.
fn time_of_children() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Duration::ZERO };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.unsigned_abs())
}

/// Lets a signal do what it does by default.
#[expect(unsafe_code, reason = "a signal's action is set")]
fn set_default(number: Signal) {
    // SAFETY: no function of ours becomes a handler, and none of this process's is relied on: Rust's own, for stack overflows, is
    // replaced only when the process is about to end by that signal.
    let _ = unsafe { signal(number, SigHandler::SigDfl) };
}
