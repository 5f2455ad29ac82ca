//! Signal dispositions and masks.
//!
//! # Safety
//! Calls of `sigaction` with borrowed structures, and calls of handlers that the host registered for just that.
#![allow(unsafe_code)]

use super::{
    arch::{self, Registers, system_call},
    process,
    thread::Time,
};
use crate::sync::{AtomicPtr, Ordering};
use core::{mem, ptr};

/// C's `struct sigaction`.
pub type CAction = libc::sigaction;

/// C's `stack_t`.
pub type AlternateStack = libc::stack_t;

/// C's `sigset_t`.
pub type SignalSet = libc::sigset_t;

/// The type of `sigaction(2)`.
pub type SigactionFunction =
    unsafe extern "C" fn(libc::c_int, *const libc::sigaction, *mut libc::sigaction) -> libc::c_int;

/// What the kernel tells a handler about a signal.
pub type SignalInfo = libc::siginfo_t;

/// The context that a handler interrupted: a `ucontext_t`.
pub(crate) type Context = libc::c_void;

/// A handler installed with `SA_SIGINFO`.
pub(crate) type Handler = extern "C" fn(libc::c_int, *mut SignalInfo, *mut Context);

/// The C library's own `sigaction`. The shared library interposes the name, and stores here what is behind it before our
/// handler is installed, which therefore never comes to the name itself.
static REAL_SIGACTION: AtomicPtr<()> = AtomicPtr::new(libc::sigaction as *mut ());

/// Tells which function is the C library's own `sigaction`; for the shared library, which interposes the name.
pub(crate) fn set_real_sigaction(function: SigactionFunction) {
    REAL_SIGACTION.store(function as *mut (), Ordering::Release);
}

/// A signal's disposition, as the kernel keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    /// The handler's address, or `SIG_DFL`, or `SIG_IGN`.
    pub(crate) handler: usize,
    /// `SA_*` flags.
    pub(crate) flags: i32,
    /// Signals blocked while the handler runs: bit n - 1 for signal n.
    pub(crate) mask: u64,
}

impl Action {
    /// The disposition of a signal that nobody touched.
    pub(crate) const DEFAULT: Self = Self { handler: libc::SIG_DFL, flags: 0, mask: 0 };

    /// The handler that ignores a signal.
    pub(crate) const IGNORED: usize = libc::SIG_IGN;

    /// Neither default nor ignored.
    pub(crate) fn is_handler(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    /// True when the handler is to run once only.
    pub(crate) fn resets(&self) -> bool {
        self.flags & libc::SA_RESETHAND != 0
    }

    pub(crate) fn from_c(action: &libc::sigaction) -> Self {
        Self { handler: action.sa_sigaction, flags: action.sa_flags, mask: mask_bits(&action.sa_mask) }
    }

    /// What the kernel makes of it: these two signals are never blocked.
    pub(crate) fn as_kept(self) -> Self {
        Self { mask: self.mask & !(1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1)), ..self }
    }

    pub(crate) fn to_c(self) -> libc::sigaction {
        // SAFETY: all fields are integers or an optional function pointer, for which zero is a value.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = self.handler;
        action.sa_flags = self.flags;
        action.sa_mask = mask_set(self.mask);
        action
    }
}

/// The present disposition of `signal`. Signal-safe: `sigaction` is on the list of `signal-safety(7)`.
///
/// # Errors
/// `EINVAL` for a number that is no signal.
pub(crate) fn action(signal: i32) -> Result<Action, i32> {
    let mut old = Action::DEFAULT.to_c();
    // SAFETY: a null new action changes nothing; the old one is written into a local.
    if unsafe { real_sigaction()(signal, ptr::null(), &mut old) } == 0 {
        Ok(Action::from_c(&old))
    } else {
        Err(super::errno::get())
    }
}

/// The handler of `signal` that the kernel calls, or `SIG_DFL`, or `SIG_IGN`, whatever stands between us and the C
/// library's `sigaction`. Signal-safe: one system call.
pub(crate) fn kernel_handler(signal: i32) -> usize {
    // The kernel's structure begins with the handler everywhere, and none of ours is larger (sigaction(2)).
    let mut action = [libc::SIG_DFL; 8];
    let arguments = [signal as usize, 0, action.as_mut_ptr() as usize, size_of::<u64>(), 0, 0];
    // SAFETY: a null new action changes nothing; the old one is written into a local.
    unsafe { system_call(libc::SYS_rt_sigaction, arguments) };
    let [handler, ..] = action;
    handler
}

/// Changes the disposition of `signal`, and gives the one before. Signal-safe, as [`action`].
///
/// # Errors
/// `EINVAL` for a number that is no signal, or one that cannot be handled.
///
/// # Safety
/// * The action's handler, if it is one, must be sound to run in any thread at any instruction.
pub(crate) unsafe fn set_action(signal: i32, action: Action) -> Result<Action, i32> {
    let new = action.to_c();
    let mut old = Action::DEFAULT.to_c();
    // SAFETY: both structures are locals; the handler is the caller's word.
    if unsafe { real_sigaction()(signal, &new, &mut old) } == 0 {
        Ok(Action::from_c(&old))
    } else {
        Err(super::errno::get())
    }
}

/// The C library's own `sigaction`.
pub(crate) fn real_sigaction() -> SigactionFunction {
    let function = REAL_SIGACTION.load(Ordering::Acquire);
    // SAFETY: `libc::sigaction` has this type, and so has what `set_real_sigaction` stores.
    unsafe { mem::transmute::<*mut (), SigactionFunction>(function) }
}

/// Installs `handler` for `signal`: with every signal blocked while it runs, restarting the system calls that it
/// interrupts, and on the alternate stack if `stack` says so. Signal-safe, as [`action`].
///
/// # Errors
/// `EINVAL` for a number that is no signal, or one that cannot be handled.
pub(crate) fn install(signal: i32, handler: Handler, stack: HandlerStack) -> Result<(), i32> {
    let on_stack = if stack == HandlerStack::Alternate { libc::SA_ONSTACK } else { 0 };
    let action = Action {
        handler: handler as *const () as usize,
        flags: libc::SA_SIGINFO | libc::SA_RESTART | on_stack,
        mask: u64::MAX,
    };
    // SAFETY: the handlers of this crate keep the contract of signal context.
    unsafe { set_action(signal, action) }.map(|_| ())
}

/// Ignores `signal`, as the next program of this process then does. Signal-safe: one system call, which takes less stack than
/// libc's function, for who has little.
pub(crate) fn ignore(signal: i32) {
    // The kernel's structure begins with the handler on every machine; no flag, and no signal in the mask.
    let action: [usize; 6] = [Action::IGNORED, 0, 0, 0, 0, 0];
    let arguments = [signal as usize, action.as_ptr() as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the structure is a local, and longer than the kernel's; there is no handler.
    unsafe { system_call(libc::SYS_rt_sigaction, arguments) };
}

/// Where a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerStack {
    /// On the interrupted thread's stack.
    Interrupted,
    /// On the thread's alternate stack, where it has one: threads of Go programs have little else.
    Alternate,
}

/// Bytes that our handler may need of a stack, beside the kernel's frame.
const HANDLER_BYTES: usize = 2048;

/// True for an alternate stack that the kernel's frame and our handler fit on. Programs still register stacks of the
/// size that was enough before processors had wide registers (`sigaltstack(2)`, AT_MINSIGSTKSZ).
pub(crate) fn is_large_enough(stack: &libc::stack_t) -> bool {
    // SAFETY: no precondition.
    let kernel_frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    stack.ss_flags & libc::SS_DISABLE != 0
        || stack.ss_size >= kernel_frame.max(libc::MINSIGSTKSZ) + HANDLER_BYTES
}

/// The calling thread's alternate stack. Signal-safe: by system call, since the shared library interposes the function.
pub(crate) fn alternate_stack() -> libc::stack_t {
    let mut present = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    let arguments = [0, &raw mut present as usize, 0, 0, 0, 0];
    // SAFETY: a null new stack changes nothing; the present one is written into a local.
    unsafe { system_call(libc::SYS_sigaltstack, arguments) };
    present
}

/// Keeps the calling thread from being interrupted, until it is dropped: every signal is blocked, and a request to
/// cancel the thread waits.
///
/// Signal-safe: a system call, and `pthread_setcancelstate`, which glibc's manual (section "POSIX Thread Cancelability")
/// calls async-signal-safe. It takes a few bytes of the stack, of which a handler on an alternate stack may have no more.
pub(crate) struct AllBlocked {
    mask: u64,
    cancel_state: libc::c_int,
}

unsafe extern "C" {
    /// `pthread_setcancelstate(3)`.
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc's `<pthread.h>`.
const CANCEL_DISABLE: libc::c_int = 1;

/// All signals but the two that glibc keeps to itself, 32 and 33: for cancellation, and for `setuid` in all threads.
const ALL: u64 = !(1 << 31 | 1 << 32);

impl AllBlocked {
    pub(crate) fn new() -> Self {
        // Miri has no signals, and knows neither call.
        if cfg!(miri) {
            return Self { mask: 0, cancel_state: 0 };
        }
        // Added to what is blocked: the host may have blocked glibc's two by a system call.
        let mask = exchange_mask(libc::SIG_BLOCK, ALL);
        let mut cancel_state = 0;
        // SAFETY: the state is a known one, the old one is written into a local.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut cancel_state) };
        Self { mask, cancel_state }
    }

    /// True when the thread had `signal` blocked before.
    #[cfg(test)]
    pub(crate) fn had_blocked(&self, signal: i32) -> bool {
        self.mask >> (signal - 1) & 1 == 1
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        if cfg!(miri) {
            return;
        }
        let mut unused = 0;
        // SAFETY: the state is the one that was found.
        unsafe { pthread_setcancelstate(self.cancel_state, &mut unused) };
        exchange_mask(libc::SIG_SETMASK, self.mask);
    }
}

/// Lets no request to cancel the calling thread be fulfilled any more. Signal-safe, as [`AllBlocked`].
pub(crate) fn refuse_cancellation() {
    let mut unused = 0;
    // SAFETY: the state is a known one, the old one is written into a local.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut unused) };
}

/// Changes the calling thread's mask as `rt_sigprocmask(2)` does, and gives the one before: bit n - 1 for signal n.
fn exchange_mask(how: libc::c_int, new: u64) -> u64 {
    let mut old = 0u64;
    let arguments = [how as usize, &raw const new as usize, &raw mut old as usize, size_of::<u64>(), 0, 0];
    // SAFETY: the kernel reads and writes eight bytes each, of two locals.
    unsafe { system_call(libc::SYS_rt_sigprocmask, arguments) };
    old
}

/// Where a signal comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `setitimer(2)`: the kernel marks it with `SI_KERNEL`, which no other process can send.
    IntervalTimer,
    /// A timer of `timer_create(2)`, with the value that it was made with.
    PosixTimer {
        value: usize,
    },
    /// A file that sends its signal when it has something to read (`F_SETSIG` of `fcntl(2)`), by its descriptor.
    File(i32),
    Elsewhere,
}

impl Origin {
    /// The origin of the signal that `info` tells of.
    ///
    /// # Safety
    /// * `info` is what the kernel tells of a signal.
    pub(crate) unsafe fn of(info: *const SignalInfo) -> Self {
        // SAFETY: the caller's word.
        let info = unsafe { &*info };
        match info.si_code {
            libc::SI_KERNEL => Self::IntervalTimer,
            // SAFETY: such a signal has a value.
            libc::SI_TIMER => Self::PosixTimer { value: unsafe { info.si_value() }.sival_ptr as usize },
            POLL_IN => {
                // SAFETY: such a signal's structure has these fields, and is larger.
                let file = unsafe { ptr::from_ref(info).cast::<FileInfo>().read() };
                Self::File(file.fields.descriptor)
            }
            _ => Self::Elsewhere,
        }
    }
}

/// `POLL_IN` of `sigaction(2)`.
const POLL_IN: libc::c_int = 1;

/// What the kernel tells of a file's signal: `siginfo_t` with the fields of `_sigpoll`, of which libc has no accessors.
#[repr(C)]
struct FileInfo {
    /// Signal, error and code.
    head: [libc::c_int; 3],
    fields: FileFields,
}

#[repr(C)]
struct FileFields {
    band: libc::c_long,
    descriptor: libc::c_int,
}

/// What the kernel tells of a signal of `setitimer(2)`.
pub(crate) fn interval_timer_info(signal: i32) -> SignalInfo {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut info: SignalInfo = unsafe { mem::zeroed() };
    info.si_signo = signal;
    info.si_code = libc::SI_KERNEL;
    info
}

/// True while `signal` is pending for the calling thread or for the process. Signal-safe: one system call.
pub(crate) fn is_pending(signal: i32) -> bool {
    let mut pending = 0u64;
    // SAFETY: the kernel writes eight bytes, of a local.
    unsafe {
        system_call(libc::SYS_rt_sigpending, [&raw mut pending as usize, size_of::<u64>(), 0, 0, 0, 0])
    };
    pending >> (signal - 1) & 1 == 1
}

/// Takes `signal` back as often as it is pending for the calling thread, which has it blocked, and `is_ours` says so of
/// its origin. What is not ours stays pending; if the calling thread is not the first one, with this process as its
/// sender. Signal-safe: system calls.
pub(crate) fn take_back(signal: i32, is_ours: impl Fn(Origin) -> bool) {
    // The kernel keeps one signal that was sent to the thread and one that was sent to the process, beside timers' own.
    const KEPT: usize = 8;
    let mut kept = [const { None::<SignalInfo> }; KEPT];
    for place in &mut kept {
        let Some(info) = take_pending(signal) else { break };
        // SAFETY: the kernel has filled it.
        if !is_ours(unsafe { Origin::of(&info) }) {
            *place = Some(info);
        }
    }
    for info in kept.iter().flatten() {
        let arguments =
            [process::id() as usize, signal as usize, core::ptr::from_ref(info) as usize, 0, 0, 0];
        // SAFETY: the information is a local; a process's first thread may tell it whatever it likes.
        if unsafe { system_call(libc::SYS_rt_sigqueueinfo, arguments) } != 0 {
            // Any other may not tell of another sender (EPERM): better that than no signal.
            // SAFETY: no pointer is passed; the signal is blocked here, and was pending for the process before.
            unsafe { system_call(libc::SYS_kill, [process::id() as usize, signal as usize, 0, 0, 0, 0]) };
        }
    }
}

/// True for signals that the kernel queues.
pub(crate) fn is_real_time(signal: i32) -> bool {
    const FIRST: i32 = 32;
    signal >= FIRST
}

/// Takes back a signal that is pending for the calling thread, which has it blocked.
pub(crate) fn discard_pending(signal: i32) {
    let _ = take_pending(signal);
}

/// Takes a signal back as often as it is pending, whosever it is. Not inlined, so that who has little stack has it for one
/// thing after another.
#[inline(never)]
pub(crate) fn discard_all_pending(signal: i32) {
    while take_pending(signal).is_some() {}
}

/// By system call: the shared library interposes the function, to hide just what is looked for here.
fn take_pending(signal: i32) -> Option<SignalInfo> {
    let set = 1u64 << (signal - 1);
    let now = Time { seconds: 0, nanos: 0 };
    // SAFETY: all fields are integers, for which zero is a value.
    let mut info: SignalInfo = unsafe { mem::zeroed() };
    let arguments =
        [&raw const set as usize, &raw mut info as usize, &raw const now as usize, size_of::<u64>(), 0, 0];
    // SAFETY: set, information and time are locals.
    let taken = unsafe { system_call(libc::SYS_rt_sigtimedwait, arguments) };
    (taken == signal as isize).then_some(info)
}

/// The registers that a signal interrupted.
///
/// # Safety
/// * `context` is what the kernel gave to our handler, or a valid `ucontext_t`.
pub(crate) unsafe fn interrupted_registers(context: *const Context) -> Registers {
    // SAFETY: the caller's word.
    Registers::interrupted(unsafe { &*context.cast::<libc::ucontext_t>() })
}

/// The last byte that the kernel wrote to make `context`: it proves a page of the stack that the handler runs on.
///
/// # Safety
/// * `context` is what the kernel gave to our handler, which has not returned.
pub(crate) unsafe fn last_written(context: *const Context) -> usize {
    // SAFETY: the caller's word: the structure is valid.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    // SAFETY: the caller's word: the kernel made it.
    unsafe { arch::last_written(context) }
}

/// Runs `action`'s handler for a signal that was delivered to us, under the mask the host asked for.
///
/// The present mask is not put back: the return from our own handler does that. Not inlined: its sets of signals would lie on
/// the stack of each tick.
///
/// # Safety
/// * `action.is_handler()`, and the action was registered by the host for `signal`.
/// * The pointers are those that the kernel gave to our handler for this delivery.
#[inline(never)]
pub(crate) unsafe fn run_host_handler(
    action: Action,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel's context is valid while the handler runs.
    let interrupted = unsafe { &*context.cast::<libc::ucontext_t>() };
    let own = if action.flags & libc::SA_NODEFER == 0 { 1 << (signal - 1) } else { 0 };
    set_mask(mask_bits(&interrupted.uc_sigmask) | action.mask | own);
    if action.flags & libc::SA_SIGINFO != 0 {
        // SAFETY: with SA_SIGINFO the registered address is a function of this type.
        let handler = unsafe { mem::transmute::<usize, Handler>(action.handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: without SA_SIGINFO the registered address is a function of this type.
        let handler = unsafe { mem::transmute::<usize, extern "C" fn(libc::c_int)>(action.handler) };
        handler(signal);
    }
}

/// Lets the default action of `signal` happen now, as if nobody had ever handled it. Not inlined, as above.
///
/// # Safety
/// * The host must have asked for the default action: for most signals it ends the process.
#[inline(never)]
pub(crate) unsafe fn run_default_action(signal: i32) {
    // SAFETY: SIG_DFL is no handler.
    let _ = unsafe { set_action(signal, Action::DEFAULT) };
    // SAFETY: `raise` is on the list of `signal-safety(7)`.
    unsafe { libc::raise(signal) };
    let set = mask_set(1 << (signal - 1));
    // SAFETY: the set is a local; a null old set is allowed.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut()) };
}

/// The number of a signal named as users write it: `12`, `SIGUSR2` or `USR2`.
pub(crate) fn number(name: &[u8]) -> Option<i32> {
    use core::str::FromStr;
    let name = core::str::from_utf8(name).ok()?.trim();
    if let Ok(number) = name.parse::<i32>() {
        return (1..=libc::SIGRTMAX()).contains(&number).then_some(number);
    }
    if let Some(number) = real_time_number(name) {
        return Some(number);
    }
    let mut full = [0u8; 16];
    let prefix: &[u8] = if name.len() > 3 && name.get(..3).is_some_and(|p| p.eq_ignore_ascii_case("SIG")) {
        b""
    } else {
        b"SIG"
    };
    let length = prefix.len() + name.len();
    full.get_mut(..prefix.len())?.copy_from_slice(prefix);
    full.get_mut(prefix.len()..length)?.copy_from_slice(name.as_bytes());
    full.make_ascii_uppercase();
    let full = core::str::from_utf8(full.get(..length)?).ok()?;
    nix::sys::signal::Signal::from_str(full).ok().map(|signal| signal as i32)
}

/// The number of one that is named by its distance from `SIGRTMIN` or `SIGRTMAX`, as in `SIGRTMIN+3`.
fn real_time_number(name: &str) -> Option<i32> {
    let upper = name.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let distance = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i32>().ok() };
    let number = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(rest), _) if rest.is_empty() || rest.starts_with('+') => {
            libc::SIGRTMIN().checked_add(distance(rest)?)?
        }
        (_, Some(rest)) if rest.is_empty() || rest.starts_with('-') => {
            libc::SIGRTMAX().checked_add(distance(rest)?)?
        }
        _ => return None,
    };
    (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number).then_some(number)
}

fn set_mask(bits: u64) {
    let set = mask_set(bits);
    // SAFETY: the set is a local; a null old set is allowed.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &set, ptr::null_mut()) };
}

/// True when `signal` is in the set.
pub(crate) fn contains(set: &libc::sigset_t, signal: i32) -> bool {
    mask_bits(set) >> (signal - 1) & 1 == 1
}

/// The kernel's 64 signals stand in the first eight bytes of libc's set.
fn mask_bits(set: &libc::sigset_t) -> u64 {
    // SAFETY: a `sigset_t` is an array of integers, at least eight bytes long.
    unsafe { ptr::from_ref(set).cast::<u64>().read_unaligned() }
}

fn mask_set(bits: u64) -> libc::sigset_t {
    // SAFETY: a `sigset_t` is an array of integers, for which zero is a value.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: it is at least eight bytes long.
    unsafe { ptr::from_mut(&mut set).cast::<u64>().write_unaligned(bits) };
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_named_by_number_or_name() {
        for name in ["12", "SIGUSR2", "USR2", "usr2", " SIGUSR2 "] {
            assert_eq!(number(name.as_bytes()), Some(libc::SIGUSR2), "{name}");
        }
        let [least, most] = [libc::SIGRTMIN(), libc::SIGRTMAX()];
        for (name, expected) in
            [("SIGRTMIN", least), ("rtmin+3", least + 3), ("SIGRTMAX-2", most - 2), ("RTMAX", most)]
        {
            assert_eq!(number(name.as_bytes()), Some(expected), "{name}");
        }
        for name in ["RTMIN-1", "RTMIN+31", "RTMAX+1", "RTMIN+", "RTMIN++1", "RTMAX-31", "RTMINx"] {
            assert_eq!(number(name.as_bytes()), None, "{name}");
        }
        for name in ["", "0", "-1", "65", "SIG", "NOSUCH", "SIGSIGUSR2", "12x", "a name that is far too long"]
        {
            assert_eq!(number(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn an_action_survives_the_way_through_c() {
        let action = Action { handler: 0x1234, flags: libc::SA_RESTART, mask: 1 << 40 | 5 };
        assert_eq!(Action::from_c(&action.to_c()), action);
    }

    /// What the walk takes for proof: on the interrupted stack the kernel's frame ends right below the stack pointer.
    #[test]
    fn the_kernel_writes_up_to_the_interrupted_stack_pointer() {
        use crate::sync::{AtomicBool, AtomicUsize};
        static BELOW: AtomicUsize = AtomicUsize::new(usize::MAX);
        static SAME: AtomicBool = AtomicBool::new(false);
        extern "C" fn note(_: libc::c_int, _: *mut SignalInfo, context: *mut Context) {
            // SAFETY: the kernel's context.
            let registers = unsafe { interrupted_registers(context) };
            // SAFETY: as above, and we have not returned.
            let last = unsafe { last_written(context) };
            BELOW.store(registers.sp().wrapping_sub(last), Ordering::Relaxed);
            // At the trampoline the stack pointer is at the context, or at what the kernel puts below it.
            let below = if cfg!(target_arch = "aarch64") { size_of::<SignalInfo>() } else { 0 };
            // SAFETY: all words asked for are the context's.
            let read = |place: usize| Some(unsafe { (place as *const usize).read() });
            let again = Registers::of_signal_frame(context as usize - below, read);
            SAME.store(again.is_some_and(|again| again == registers), Ordering::Relaxed);
        }
        let _one_at_a_time = AllBlocked::new();
        install(libc::SIGURG, note, HandlerStack::Interrupted).unwrap();
        let unblocked = mask_set(1 << (libc::SIGURG - 1));
        // SAFETY: the set is a local; a null old set is allowed. `AllBlocked` puts the mask back.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &unblocked, ptr::null_mut()) };
        // SAFETY: no precondition.
        unsafe { libc::raise(libc::SIGURG) };
        // What other machines do not tell is not used there.
        let below = BELOW.load(Ordering::Relaxed);
        let is_told = cfg!(target_arch = "x86_64");
        assert!(!is_told || (1..=256).contains(&below), "{below} bytes below the stack pointer");
        let has_bare_trampolines = !cfg!(target_arch = "x86");
        let same = SAME.load(Ordering::Relaxed);
        assert_eq!(same, has_bare_trampolines, "the trampoline's stack pointer leads to the same registers");
    }

    #[test]
    fn all_signals_are_blocked_and_put_back() {
        let outer = AllBlocked::new();
        assert!(!outer.had_blocked(libc::SIGUSR1));
        let inner = AllBlocked::new();
        assert!(inner.had_blocked(libc::SIGUSR1));
        drop(inner);
        assert!(AllBlocked::new().had_blocked(libc::SIGUSR1));
        drop(outer);
        assert!(!AllBlocked::new().had_blocked(libc::SIGUSR1));
    }
}
