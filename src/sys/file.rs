//! Files, without allocation and without cancellation points.
//!
//! All of this may run in a signal handler (a toggle) or at process exit, in a thread that the host has asked to
//! end: libc's `open`, `read`, `write` and `close` would act on that request, the system calls themselves do not.
//! Each is on the list of `signal-safety(7)`.
//!
//! # Safety
//! System calls whose pointers are borrowed buffers or NUL-terminated paths that outlive the call.
#![allow(unsafe_code)]

use super::{arch::system_call, decimal::decimal, thread::Timespec};
use core::ffi::{CStr, c_long};

/// Bytes of the longest path the kernel takes, its NUL included.
pub(crate) const PATH_BYTES: usize = libc::PATH_MAX as usize;

/// A path in a buffer of fixed size, always NUL-terminated.
pub(crate) struct PathBuffer {
    bytes: [u8; PATH_BYTES],
    /// Number of bytes before the NUL; at most `PATH_BYTES - 1`.
    length: usize,
}

// SAFETY: bytes and a length; the empty path is all zeros.
unsafe impl super::memory::Zeroable for PathBuffer {}

impl PathBuffer {
    #[cfg(test)]
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; PATH_BYTES], length: 0 }
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// `ENAMETOOLONG` where they do not fit, `EINVAL` where they hold a NUL; the path is then unchanged.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), i32> {
        if bytes.contains(&0) {
            return Err(libc::EINVAL);
        }
        let end = self.length + bytes.len();
        if end >= PATH_BYTES {
            return Err(libc::ENAMETOOLONG);
        }
        let place = self.bytes.get_mut(self.length..end).ok_or(libc::ENAMETOOLONG)?;
        place.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }

    /// Appends a number in decimal.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) fn push_decimal(&mut self, number: u64) -> Result<(), i32> {
        self.push(decimal(&mut [0; 20], number))
    }

    /// Appends a number as 16 hexadecimal digits.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) fn push_hexadecimal(&mut self, number: u64) -> Result<(), i32> {
        let mut digits = [0u8; 16];
        for (place, digit) in digits.iter_mut().rev().enumerate() {
            let nibble = (number >> (4 * place) & 15) as u8;
            *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        }
        self.push(&digits)
    }

    /// Drops all but the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        if length < self.length {
            self.length = length;
            for byte in self.bytes.iter_mut().skip(length) {
                *byte = 0;
            }
        }
    }

    /// Replaces the path.
    ///
    /// # Errors
    /// As [`push`](Self::push); the path is then empty.
    pub(crate) fn replace(&mut self, bytes: &[u8]) -> Result<(), i32> {
        self.truncate(0);
        self.push(bytes)
    }

    /// Replaces the path by what `write` puts into the room that it is given; it gives the number of bytes, or a
    /// negative error number.
    pub(super) fn fill(&mut self, write: impl FnOnce(&mut [u8]) -> isize) -> Result<(), i32> {
        self.truncate(0);
        let result = write(self.bytes.get_mut(..PATH_BYTES - 1).unwrap_or_default());
        self.length = usize::try_from(result).map_err(|_| -result as i32)?.min(PATH_BYTES - 1);
        Ok(())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// The path from its byte `start` on.
    pub(crate) fn tail(&self, start: usize) -> &CStr {
        let tail = self.bytes.get(start.min(self.length)..).unwrap_or_default();
        CStr::from_bytes_until_nul(tail).unwrap_or_default()
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        self.tail(0)
    }
}

/// What lets a program of 32 bits open files of more than 2 GiB; nothing elsewhere.
const LARGE: i32 = if cfg!(target_pointer_width = "32") { libc::O_LARGEFILE } else { 0 };

/// Milliseconds that a write waits for a full pipe to move.
const MAX_WAITS: u32 = 2000;

/// A file descriptor of ours, closed when dropped.
pub(crate) struct File(i32);

impl File {
    /// Opens an existing file for reading; a pipe in its place is not waited for.
    ///
    /// # Errors
    /// The error number of `open(2)`.
    pub(crate) fn read(path: &CStr) -> Result<Self, i32> {
        Self::open_at(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_NOCTTY | libc::O_NONBLOCK)
    }

    /// Opens `path` from `directory`; exec closes it. A file that is created is everybody's as far as the user's umask
    /// says.
    pub(super) fn open_at(directory: i32, path: &CStr, flags: i32) -> Result<Self, i32> {
        Self::open_with_mode(directory, path, flags, 0o666)
    }

    /// The same, for a file that is created with these permissions at most.
    pub(super) fn open_with_mode(directory: i32, path: &CStr, flags: i32, mode: usize) -> Result<Self, i32> {
        let flags = (flags | libc::O_CLOEXEC | LARGE) as usize;
        // SAFETY: the path is NUL-terminated and outlives the call.
        let result = restart(|| unsafe {
            system_call(libc::SYS_openat, [directory as usize, path.as_ptr() as usize, flags, mode, 0, 0])
        });
        result.map(|descriptor| Self(descriptor as i32))
    }

    /// Reads into `buffer`: the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// The error number of `read(2)`.
    pub(crate) fn read_some(&self, buffer: &mut [u8]) -> Result<usize, i32> {
        let (start, length) = (buffer.as_mut_ptr() as usize, buffer.len());
        // SAFETY: the kernel writes at most `length` bytes into the borrowed buffer.
        restart(|| unsafe { system_call(libc::SYS_read, [self.0 as usize, start, length, 0, 0, 0]) })
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The error number of `write(2)`; `ETIMEDOUT` for a pipe that stays full for two seconds. A signal that the failed
    /// call raised (SIGXFSZ, SIGPIPE) is taken back, if the caller has all signals blocked.
    pub(crate) fn write_all(&self, mut bytes: &[u8]) -> Result<(), i32> {
        let mut waits = 0;
        while !bytes.is_empty() {
            let (start, length) = (bytes.as_ptr() as usize, bytes.len());
            // SAFETY: the kernel reads the borrowed bytes.
            let result = restart(|| unsafe {
                system_call(libc::SYS_write, [self.0 as usize, start, length, 0, 0, 0])
            });
            match result {
                Ok(0) => return Err(libc::EIO),
                Ok(written) => {
                    bytes = bytes.get(written..).unwrap_or_default();
                    waits = 0;
                }
                // A pipe that nobody empties: the program waits for it as little as for anything else of ours.
                Err(libc::EAGAIN) if waits == MAX_WAITS => return Err(libc::ETIMEDOUT),
                Err(libc::EAGAIN) => {
                    waits += 1;
                    super::thread::pause();
                }
                Err(error) => {
                    match error {
                        libc::EFBIG => super::signal::discard_pending(libc::SIGXFSZ),
                        libc::EPIPE => super::signal::discard_pending(libc::SIGPIPE),
                        _ => {}
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Sets the file's permissions, as far as the file system has any.
    pub(crate) fn set_permissions(&self, permissions: u32) {
        // SAFETY: a plain call on our own descriptor. Where it fails the file keeps what the umask left.
        unsafe { libc::fchmod(self.0, permissions & 0o777) };
    }

    /// Empties the file, as far as it can be.
    pub(crate) fn empty(&self) {
        // SAFETY: a plain call on our own descriptor. A device or pipe refuses, and holds nothing to be emptied.
        unsafe { libc::ftruncate64(self.0, 0) };
    }

    /// The descriptor's number.
    pub(super) fn number(&self) -> i32 {
        self.0
    }

    /// Sets the length; what is new reads as zeros and takes no room yet.
    ///
    /// # Errors
    /// The error number of `ftruncate(2)`. A signal that the failed call raised (SIGXFSZ) is taken back, if the caller
    /// has all signals blocked.
    pub(crate) fn set_length(&self, length: u64) -> Result<(), i32> {
        let length = i64::try_from(length).map_err(|_| libc::EFBIG)?;
        loop {
            // SAFETY: a plain call on our own descriptor.
            if unsafe { libc::ftruncate64(self.0, length) } == 0 {
                return Ok(());
            }
            match super::errno::get() {
                libc::EINTR => {}
                error => {
                    if error == libc::EFBIG {
                        super::signal::discard_pending(libc::SIGXFSZ);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Closes the file.
    ///
    /// # Errors
    /// The error number of `close(2)`: data that was written may be missing.
    pub(crate) fn close(self) -> Result<(), i32> {
        let descriptor = self.0;
        core::mem::forget(self);
        close(descriptor)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = close(self.0);
    }
}

/// Opens it once more under a high number, where it is in nobody's way: programs count on low ones. None where the limit on
/// open files leaves no room. Signal-safe, as `fcntl(2)` is.
pub(super) fn duplicate_high(descriptor: i32) -> Option<i32> {
    // Not among the first, which programs choose from, and not so high that the kernel's table of descriptors becomes large.
    let limit = super::process::open_files_limit().unwrap_or(usize::MAX);
    let high = (limit - limit / 8).min(1000) as i32;
    [high, 100, 20].into_iter().find_map(|lowest| {
        // SAFETY: a new descriptor for an open file; it is closed by exec.
        let duplicate = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, lowest) };
        (duplicate >= 0).then_some(duplicate)
    })
}

pub(super) fn close(descriptor: i32) -> Result<(), i32> {
    // SAFETY: the descriptor is ours and used no more.
    let result = unsafe { system_call(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
    if result < 0 { Err(-result as i32) } else { Ok(()) }
}

/// Writes a line to a descriptor of the host's, or leaves it out where nobody takes it within a tenth of a second.
/// All signals are blocked meanwhile, and those that the write raises are taken back.
pub(crate) fn write_line(descriptor: i32, line: &[u8]) {
    const TIMEOUT_MILLIS: c_long = 100;
    let _blocked = super::signal::AllBlocked::new();
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    let backoff = Timespec { seconds: 0, nanos: TIMEOUT_MILLIS * 1_000_000 };
    // SAFETY: one structure and a time, both locals; no mask.
    let ready = unsafe {
        system_call(libc::SYS_ppoll, [&raw mut poll as usize, 1, &raw const backoff as usize, 0, 0, 0])
    };
    if ready != 1 || poll.revents & libc::POLLOUT == 0 {
        return;
    }
    // SAFETY: the kernel reads the borrowed line.
    let written = unsafe {
        system_call(libc::SYS_write, [descriptor as usize, line.as_ptr() as usize, line.len(), 0, 0, 0])
    };
    if written < 0 {
        super::signal::discard_pending(libc::SIGPIPE);
        super::signal::discard_pending(libc::SIGXFSZ);
    }
}

/// Adds a line to the file at `path`, by one write behind whatever others have added; a file that is not there is made for
/// its user alone. Nothing is followed and nobody waited for, and what cannot be written is left out.
pub(crate) fn append_line(path: &CStr, line: &[u8]) {
    const FLAGS: i32 = libc::O_WRONLY
        | libc::O_APPEND
        | libc::O_CREAT
        | libc::O_NOFOLLOW
        | libc::O_NONBLOCK
        | libc::O_NOCTTY;
    let _blocked = super::signal::AllBlocked::new();
    let Ok(file) = File::open_with_mode(libc::AT_FDCWD, path, FLAGS, 0o600) else { return };
    write_line(file.0, line);
    let _ = file.close();
}

/// The system call that fills libc's structure for files of any size.
#[cfg(target_arch = "x86")]
const FSTAT: c_long = libc::SYS_fstat64;
#[cfg(not(target_arch = "x86"))]
const FSTAT: c_long = libc::SYS_fstat;

/// Device and inode of an open descriptor. By system call: libraries like fakeroot make a function of libc's that takes
/// locks, and handlers ask this.
pub(crate) fn identity(descriptor: i32) -> Option<(u64, u64)> {
    try_identity(descriptor).ok()
}

/// The same.
///
/// # Errors
/// The error number of `fstat(2)`.
pub(super) fn try_identity(descriptor: i32) -> Result<(u64, u64), i32> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut status: libc::stat64 = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is a local.
    let result = unsafe { system_call(FSTAT, [descriptor as usize, &raw mut status as usize, 0, 0, 0, 0]) };
    check(result).map(|_| (status.st_dev, status.st_ino))
}

/// What the kernel's lists call a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) inode: u64,
}

/// Opens `path` for reading if it is an ordinary file, which does not wait as a pipe would. For ordinary context.
pub(crate) fn open_ordinary(path: &[u8]) -> Option<(std::fs::File, FileIdentity)> {
    use std::os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt},
    };
    let path = std::ffi::OsStr::from_bytes(path);
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let status = file.metadata().ok().filter(|status| status.is_file())?;
    let (major, minor) = (nix::sys::stat::major(status.dev()), nix::sys::stat::minor(status.dev()));
    Some((file, FileIdentity { major, minor, inode: status.ino() }))
}

/// Opens `path` for reading; a symbolic link is refused, and a pipe is not waited for. For ordinary context.
pub(crate) fn open_unfollowed(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Sets `path` to the working directory.
///
/// # Errors
/// The error number of `getcwd(2)`; `ENOENT` where it has been removed or lies outside the process's root.
pub(crate) fn current_directory(path: &mut PathBuffer) -> Result<(), i32> {
    path.truncate(0);
    // SAFETY: the kernel writes at most the given number of bytes, NUL included, into the buffer.
    let result = unsafe {
        system_call(libc::SYS_getcwd, [path.bytes.as_mut_ptr() as usize, PATH_BYTES - 1, 0, 0, 0, 0])
    };
    if result < 0 {
        return Err(-result as i32);
    }
    // The kernel marks a directory outside the root with "(unreachable)" in front.
    if path.bytes.first() != Some(&b'/') {
        path.bytes = [0; PATH_BYTES];
        return Err(libc::ENOENT);
    }
    path.length = path.bytes.iter().position(|&byte| byte == 0).unwrap_or(0);
    if path.length == 1 {
        // The root: a name that is appended brings its own slash.
        path.truncate(0);
    }
    Ok(())
}

/// A number that nobody can guess, for names of temporary files.
pub(crate) fn random() -> u64 {
    let mut number = 0u64;
    // SAFETY: the kernel writes eight bytes into `number`; without entropy yet it fails, and does not wait.
    let result = unsafe {
        system_call(
            libc::SYS_getrandom,
            [&raw mut number as usize, size_of::<u64>(), libc::GRND_NONBLOCK as usize, 0, 0, 0],
        )
    };
    // O_EXCL keeps a guessable name harmless; it only has to be a fresh one.
    if result == 8 { number } else { super::clock::monotonic_nanos() ^ u64::from(super::process::id()) << 32 }
}

/// A system call's result, or its error number.
pub(super) fn check(result: isize) -> Result<usize, i32> {
    if result < 0 { Err(-result as i32) } else { Ok(result as usize) }
}

/// Repeats a system call that a signal interrupted.
pub(super) fn restart(mut call: impl FnMut() -> isize) -> Result<usize, i32> {
    loop {
        let result = call();
        if result >= 0 {
            return Ok(result as usize);
        }
        if result != -(libc::EINTR as isize) {
            return Err(-result as i32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_appended_in_full() {
        let mut path = PathBuffer::new();
        path.push(b"p").unwrap();
        path.push_decimal(0).unwrap();
        path.push(b"_").unwrap();
        path.push_decimal(u64::MAX).unwrap();
        path.push(b"_").unwrap();
        path.push_hexadecimal(0xbeef).unwrap();
        assert_eq!(path.as_bytes(), b"p0_18446744073709551615_000000000000beef");
        path.truncate(2);
        assert_eq!(path.as_c_str(), c"p0");
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused_whole() {
        let mut path = PathBuffer::new();
        path.push(&[b'x'; PATH_BYTES - 1]).unwrap();
        assert_eq!(path.push(b"y"), Err(libc::ENAMETOOLONG));
        assert_eq!(path.as_bytes().len(), PATH_BYTES - 1);
        assert_eq!(PathBuffer::new().push(b"a\0b"), Err(libc::EINVAL));
    }

    #[test]
    fn the_working_directory_is_what_std_says() {
        use std::os::unix::ffi::OsStrExt;
        let expected = std::env::current_dir().unwrap();
        let mut path = PathBuffer::new();
        current_directory(&mut path).unwrap();
        assert_eq!(path.as_bytes(), expected.as_os_str().as_bytes());
    }
}
