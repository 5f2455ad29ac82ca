//! The process: ID, start time, privileges, limits, fork hooks.
//!
//! # Safety
//! Calls without pointers, or with pointers to borrowed buffers, static functions and locals.
#![allow(unsafe_code)]

use super::{
    arch::system_call,
    decimal::decimal,
    entry::Entry,
    file::{File, check},
};

/// Returns the process ID. Signal-safe: `getpid` is listed in `signal-safety(7)`.
pub(crate) fn id() -> u32 {
    std::process::id()
}

/// Returns the kernel's PID: `getpid` may be interposed or cached. Signal-safe: one system call.
pub(crate) fn id_by_system_call() -> u32 {
    // SAFETY: no arguments; it cannot fail.
    unsafe { system_call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Returns the effective user ID. Signal-safe: `geteuid` is listed in `signal-safety(7)`.
pub(crate) fn effective_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Whether the program has more rights than its user: the environment is then not trusted.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: no precondition.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
    secure != 0
        || nix::unistd::getuid() != nix::unistd::geteuid()
        || nix::unistd::getgid() != nix::unistd::getegid()
}

/// Returns the start time in clock ticks since boot. Signal-safe: system calls.
///
/// # Errors
/// The error number of `open(2)` or `read(2)`: `ENOENT` without /proc.
pub(crate) fn start_ticks() -> Result<u64, i32> {
    start_ticks_of(c"/proc/self/stat")
}

/// # Errors
/// As [`start_ticks`].
pub(crate) fn start_ticks_of(stat: &core::ffi::CStr) -> Result<u64, i32> {
    let mut line = [0; 1024];
    let got = File::read(stat)?.read_some(&mut line)?;
    start_ticks_in(line.get(..got).unwrap_or_default()).ok_or(libc::EINVAL)
}

/// Returns field 22 of a line of /proc/PID/stat (proc_pid_stat(5)).
pub(crate) fn start_ticks_in(line: &[u8]) -> Option<u64> {
    // Only the name, in parentheses, may contain parentheses.
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    let field = line.get(name_end + 1..)?.split(|&byte| byte == b' ').nth(20)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Writes the working directory without a NUL; returns its length. None if it does not fit, was
/// removed, or is outside the process's root. Signal-safe: one system call.
pub(crate) fn working_directory(buffer: &mut [u8]) -> Option<usize> {
    let (start, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the kernel writes at most `length` bytes into the borrowed buffer.
    let written = check(unsafe { system_call(libc::SYS_getcwd, [start, length, 0, 0, 0, 0]) }).ok()?;
    // The kernel counts the NUL, and prefixes a directory outside the root with "(unreachable)".
    (buffer.first() == Some(&b'/')).then(|| written.saturating_sub(1))
}

/// Whether a line of /proc/PID/stat is of a process with an exited main thread.
pub(crate) fn is_zombie_in(line: &[u8]) -> bool {
    let state = line.iter().rposition(|&byte| byte == b')').and_then(|name_end| line.get(name_end + 2));
    matches!(state, Some(b'Z' | b'X'))
}

/// Whether this process's main thread has exited while others run. Signal-safe: system calls.
pub(crate) fn has_main_thread_exited() -> bool {
    let mut line = [0; 128];
    let got = File::read(c"/proc/self/stat").and_then(|file| file.read_some(&mut line)).unwrap_or(0);
    is_zombie_in(line.get(..got).unwrap_or_default())
}

/// Returns the PID namespace's inode. Signal-safe: `stat` is listed in `signal-safety(7)`.
pub(crate) fn namespace() -> Option<u64> {
    Some(Entry::at(c"/proc/self/ns/pid").status_following_links().ok()?.identity.1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// The process exists, possibly as a zombie.
    Exists,
    /// No process has this ID, or another process has it.
    Gone,
    Unknown,
}

/// Looks for the process in this PID namespace. Signal-safe: `kill` and other system calls.
pub(crate) fn liveness(id: u32, start_ticks: u64) -> Liveness {
    let Some(raw) = i32::try_from(id).ok().filter(|raw| *raw > 0) else { return Liveness::Gone };
    // SAFETY: signal 0 is not delivered; no pointer is passed.
    let exists = unsafe { libc::kill(raw, 0) } == 0 || super::errno::get() != libc::ESRCH;
    if !exists {
        return Liveness::Gone;
    }
    // /proc of another PID namespace would describe another process.
    let mut own = [0; 20];
    if link(c"/proc/self", &mut own) != decimal(&mut [0; 20], self::id().into()) {
        return Liveness::Unknown;
    }
    let mut path = [0; 32];
    let mut digits = [0; 20];
    let parts = [b"/proc/".as_slice(), decimal(&mut digits, id.into()), b"/stat"];
    for (place, byte) in path.iter_mut().zip(parts.into_iter().flatten()) {
        *place = *byte;
    }
    match core::ffi::CStr::from_bytes_until_nul(&path).ok().and_then(|stat| start_ticks_of(stat).ok()) {
        Some(ticks) if ticks == start_ticks => Liveness::Exists,
        Some(_) => Liveness::Gone,
        None => Liveness::Unknown,
    }
}

/// Returns the program's path, truncated; empty without /proc. Signal-safe: one system call.
pub(crate) fn program(buffer: &mut [u8]) -> &[u8] {
    link(c"/proc/self/exe", buffer)
}

fn link<'b>(path: &core::ffi::CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    let path = path.as_ptr() as usize;
    let (start, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    let arguments = [libc::AT_FDCWD as usize, path, start, length, 0, 0];
    // SAFETY: the path is NUL-terminated; the kernel writes at most `length` bytes into the buffer.
    let result = unsafe { system_call(libc::SYS_readlinkat, arguments) };
    buffer.get(..check(result).unwrap_or(0)).unwrap_or_default()
}

/// Returns RLIMIT_FSIZE in bytes, or None for no limit.
pub(crate) fn file_size_limit() -> Option<usize> {
    use nix::sys::resource::{Resource, getrlimit};
    let (soft, _) = getrlimit(Resource::RLIMIT_FSIZE).ok()?;
    usize::try_from(soft).ok().filter(|_| soft != libc::RLIM_INFINITY)
}

pub(crate) fn address_space_limit() -> Option<usize> {
    use nix::sys::resource::{Resource, getrlimit};
    let (soft, _) = getrlimit(Resource::RLIMIT_AS).ok()?;
    usize::try_from(soft).ok().filter(|_| soft != libc::RLIM_INFINITY)
}

pub(crate) fn has_limited_memory() -> bool {
    use nix::sys::resource::{Resource, getrlimit};
    [Resource::RLIMIT_AS, Resource::RLIMIT_DATA]
        .map(getrlimit)
        .iter()
        .any(|limits| limits.is_ok_and(|(soft, _)| soft != libc::RLIM_INFINITY))
}

pub(crate) fn pending_signals_limit() -> Option<usize> {
    use nix::sys::resource::{Resource, getrlimit};
    let (soft, _) = getrlimit(Resource::RLIMIT_SIGPENDING).ok()?;
    usize::try_from(soft).ok().filter(|_| soft != libc::RLIM_INFINITY)
}

pub(crate) fn open_files_limit() -> Option<usize> {
    use nix::sys::resource::{Resource, getrlimit};
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    usize::try_from(soft).ok().filter(|_| soft != libc::RLIM_INFINITY)
}

/// Whether the calling thread has a seccomp filter. Signal-safe: one system call.
pub(crate) fn has_seccomp_filter() -> bool {
    // SAFETY: no pointer is passed.
    unsafe { system_call(libc::SYS_prctl, [libc::PR_GET_SECCOMP as usize, 0, 0, 0, 0, 0]) > 0 }
}

/// Whether the kernel is older than `release`. Signal-safe: one system call.
pub(crate) fn kernel_is_before(release: (u32, u32)) -> bool {
    // SAFETY: all fields are arrays of bytes, for which zero is a value.
    let mut names: libc::utsname = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is a local.
    unsafe { system_call(libc::SYS_uname, [&raw mut names as usize, 0, 0, 0, 0, 0]) };
    release_of(names.release.iter().map(|&byte| byte as u8)).is_some_and(|running| running < release)
}

/// Returns the first two numbers of a release, such as `6.1.0-18-amd64`.
fn release_of(text: impl Iterator<Item = u8>) -> Option<(u32, u32)> {
    let mut numbers = [None::<u32>; 2];
    let mut place = 0;
    for byte in text {
        match byte {
            b'0'..=b'9' => {
                let number = numbers.get_mut(place)?;
                *number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(u32::from(byte - b'0')));
            }
            b'.' if place == 0 => place = 1,
            _ => break,
        }
    }
    let [major, minor] = numbers;
    Some((major?, minor?))
}

/// # Errors
/// `ENOMEM` of `pthread_atfork(3)`.
pub(crate) fn at_fork(
    prepare: Option<unsafe extern "C" fn()>,
    parent: Option<unsafe extern "C" fn()>,
    child: Option<unsafe extern "C" fn()>,
) -> Result<(), i32> {
    // SAFETY: the functions are static and take no argument.
    match unsafe { libc::pthread_atfork(prepare, parent, child) } {
        0 => Ok(()),
        error => Err(error),
    }
}

/// Runs `child` in a child process without fork hooks and other threads: it must use nothing that
/// another thread may have locked. Returns its result, 0 to 255.
#[cfg(all(test, not(loom)))]
pub(crate) fn in_raw_fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: without a stack or flags, clone(2) is fork(2): the child has a copy of this memory.
    let id = unsafe { system_call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]) };
    assert!(id >= 0, "clone: {id}");
    if id == 0 {
        let status = child() as usize;
        // SAFETY: terminates the child; no destructor runs.
        unsafe { system_call(libc::SYS_exit_group, [status, 0, 0, 0, 0, 0]) };
    }
    let mut status = 0;
    let arguments = [id as usize, &raw mut status as usize, 0, 0, 0, 0];
    // SAFETY: the status is a local.
    let waited = unsafe { system_call(libc::SYS_wait4, arguments) };
    assert!(waited == id && libc::WIFEXITED(status), "child {id}: {waited}, status {status:#x}");
    libc::WEXITSTATUS(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_a_start_time_in_the_past() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let start = start_ticks().unwrap();
        assert!(start > 0 && start as f64 <= uptime * 1000.0, "{start} {uptime}");
        assert_eq!(start_ticks(), Ok(start));
    }

    #[test]
    fn parses_names_with_parentheses_and_spaces() {
        let fields: Vec<String> = (3..=30).map(|i| i.to_string()).collect();
        let line = format!("17 (a) b (c) {}\n", fields.join(" "));
        assert_eq!(start_ticks_in(line.as_bytes()), Some(22));
        for line in
            ["", "17", "17 (a", "17 (a) S 1 2", "17 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x"]
        {
            assert_eq!(start_ticks_in(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn identifies_a_process_by_its_start_time() {
        let start = start_ticks().unwrap();
        assert_eq!(liveness(id(), start), Liveness::Exists);
        assert_eq!(liveness(id(), start + 1), Liveness::Gone);
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(liveness(child.id(), start), Liveness::Gone);
        assert_eq!([liveness(0, start), liveness(u32::MAX, start)], [Liveness::Gone; 2]);
    }

    #[test]
    fn returns_the_working_directory_if_it_fits() {
        use std::os::unix::ffi::OsStrExt;
        let mut buffer = [0; 4096];
        let length = working_directory(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], std::env::current_dir().unwrap().as_os_str().as_bytes());
        assert_eq!(working_directory(&mut buffer[..length]), None);
    }

    #[test]
    fn compares_the_first_two_numbers_of_a_release() {
        let of = |text: &str| release_of(text.bytes());
        assert_eq!(of("6.1.0-18-amd64\0"), Some((6, 1)));
        assert_eq!(
            (of("6.18\0\0"), of("10.0-rc1"), of("6"), of("")),
            (Some((6, 18)), Some((10, 0)), None, None)
        );
        assert!(!kernel_is_before((2, 6)) && kernel_is_before((1000, 0)));
    }

    #[test]
    fn returns_the_path_of_this_program() {
        use std::os::unix::ffi::OsStrExt;
        let mut buffer = [0; 4096];
        assert_eq!(program(&mut buffer), std::env::current_exe().unwrap().as_os_str().as_bytes());
    }
}
