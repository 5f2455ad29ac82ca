//! Files, without allocation and cancellation points: signal handlers (toggles) and exiting threads
//! that the application has cancelled use them. libc's `open`, `read`, `write` and `close` are
//! cancellation points; the system calls, all listed in `signal-safety(7)`, are not.
//!
//! # Safety
//! System calls with pointers to borrowed buffers or NUL-terminated paths that outlive the call.
#![allow(unsafe_code)]

use super::{arch::system_call, decimal::decimal, thread::Timespec};
use core::ffi::{CStr, c_long};

/// Bytes of the longest path, including its NUL.
pub(crate) const PATH_BYTES: usize = libc::PATH_MAX as usize;

/// A path in a buffer of fixed size, always NUL-terminated.
pub(crate) struct PathBuffer {
    bytes: [u8; PATH_BYTES],
    /// Without the NUL; at most `PATH_BYTES - 1`.
    length: usize,
}

// SAFETY: bytes and a length; the empty path is all zeros.
unsafe impl super::memory::Zeroable for PathBuffer {}

impl PathBuffer {
    #[cfg(test)]
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; PATH_BYTES], length: 0 }
    }

    /// # Errors
    /// `ENAMETOOLONG` if they do not fit, `EINVAL` if they contain a NUL; the path is unchanged.
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

    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) fn push_decimal(&mut self, number: u64) -> Result<(), i32> {
        self.push(decimal(&mut [0; 20], number))
    }

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

    pub(crate) fn truncate(&mut self, length: usize) {
        if length < self.length {
            self.length = length;
            for byte in self.bytes.iter_mut().skip(length) {
                *byte = 0;
            }
        }
    }

    /// # Errors
    /// As [`push`](Self::push); the path is then empty.
    pub(crate) fn replace(&mut self, bytes: &[u8]) -> Result<(), i32> {
        self.truncate(0);
        self.push(bytes)
    }

    /// Replaces the path by what `write` stores; it returns the length or a negative error number.
    pub(super) fn fill(&mut self, write: impl FnOnce(&mut [u8]) -> isize) -> Result<(), i32> {
        self.truncate(0);
        let result = write(self.bytes.get_mut(..PATH_BYTES - 1).unwrap_or_default());
        self.length = usize::try_from(result).map_err(|_| -result as i32)?.min(PATH_BYTES - 1);
        Ok(())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(crate) fn tail(&self, start: usize) -> &CStr {
        let tail = self.bytes.get(start.min(self.length)..).unwrap_or_default();
        CStr::from_bytes_until_nul(tail).unwrap_or_default()
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        self.tail(0)
    }
}

/// Makes 32-bit programs open files above 2 GiB.
const LARGE: i32 = if cfg!(target_pointer_width = "32") { libc::O_LARGEFILE } else { 0 };

/// Milliseconds that a write waits for a full pipe.
const MAX_WAITS: u32 = 2000;

pub(crate) struct File(i32);

impl File {
    /// Opens a file for reading, without waiting for a pipe's writer.
    ///
    /// # Errors
    /// The error number of `open(2)`.
    pub(crate) fn read(path: &CStr) -> Result<Self, i32> {
        Self::open_at(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_NOCTTY | libc::O_NONBLOCK)
    }

    /// Opens `path` with O_CLOEXEC. A new file has mode 0666, less the umask.
    pub(super) fn open_at(directory: i32, path: &CStr, flags: i32) -> Result<Self, i32> {
        Self::open_with_mode(directory, path, flags, 0o666)
    }

    pub(super) fn open_with_mode(directory: i32, path: &CStr, flags: i32, mode: usize) -> Result<Self, i32> {
        let flags = (flags | libc::O_CLOEXEC | LARGE) as usize;
        // SAFETY: the path is NUL-terminated and outlives the call.
        let result = restart(|| unsafe {
            system_call(libc::SYS_openat, [directory as usize, path.as_ptr() as usize, flags, mode, 0, 0])
        });
        result.map(|descriptor| Self(descriptor as i32))
    }

    /// # Errors
    /// The error number of `read(2)`.
    pub(crate) fn read_some(&self, buffer: &mut [u8]) -> Result<usize, i32> {
        let (start, length) = (buffer.as_mut_ptr() as usize, buffer.len());
        // SAFETY: the kernel writes at most `length` bytes into the borrowed buffer.
        restart(|| unsafe { system_call(libc::SYS_read, [self.0 as usize, start, length, 0, 0, 0]) })
    }

    /// # Errors
    /// The error number of `write(2)`; `ETIMEDOUT` for a pipe that stays full for two seconds.
    /// SIGXFSZ or SIGPIPE of the failed call is discarded, if the caller blocks all signals.
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
                // No process empties the pipe: the application must not wait longer.
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

    pub(crate) fn set_permissions(&self, permissions: u32) {
        // SAFETY: `fchmod` on an owned descriptor. If it fails, the umask's permissions remain.
        unsafe { libc::fchmod(self.0, permissions & 0o777) };
    }

    pub(crate) fn empty(&self) {
        // SAFETY: `ftruncate` on an owned descriptor. Devices and pipes refuse it.
        unsafe { libc::ftruncate64(self.0, 0) };
    }

    pub(super) fn number(&self) -> i32 {
        self.0
    }

    /// Sets the length; new bytes are zero and occupy no blocks yet.
    ///
    /// # Errors
    /// The error number of `ftruncate(2)`. SIGXFSZ is discarded, if the caller blocks all signals.
    pub(crate) fn set_length(&self, length: u64) -> Result<(), i32> {
        let length = i64::try_from(length).map_err(|_| libc::EFBIG)?;
        loop {
            // SAFETY: `ftruncate` on an owned descriptor.
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

    /// # Errors
    /// The error number of `close(2)`: written data may be missing.
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

/// Duplicates to a high number: programs rely on low ones. None if RLIMIT_NOFILE leaves no room.
/// Signal-safe, as `fcntl(2)`.
pub(super) fn duplicate_high(descriptor: i32) -> Option<i32> {
    // Not so high that the kernel's descriptor table becomes large.
    let limit = super::process::open_files_limit().unwrap_or(usize::MAX);
    let high = (limit - limit / 8).min(1000) as i32;
    [high, 100, 20].into_iter().find_map(|lowest| {
        // SAFETY: a new descriptor with FD_CLOEXEC; no pointer is passed.
        let duplicate = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, lowest) };
        (duplicate >= 0).then_some(duplicate)
    })
}

pub(super) fn close(descriptor: i32) -> Result<(), i32> {
    // SAFETY: the caller owns the descriptor and does not use it again.
    let result = unsafe { system_call(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
    if result < 0 { Err(-result as i32) } else { Ok(()) }
}

/// Writes a line, or drops it after 100 ms. Blocks all signals and discards those of the write.
pub(crate) fn write_line(descriptor: i32, line: &[u8]) {
    const TIMEOUT_MILLIS: c_long = 100;
    let _blocked = super::signal::AllBlocked::new();
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    let timeout = Timespec { seconds: 0, nanos: TIMEOUT_MILLIS * 1_000_000 };
    // SAFETY: one structure and a time, both locals; no mask.
    let ready = unsafe {
        system_call(libc::SYS_ppoll, [&raw mut poll as usize, 1, &raw const timeout as usize, 0, 0, 0])
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

/// Appends a line by one write to a file, without following a symbolic link. Ignores errors.
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

/// The system call that fills `stat64`.
#[cfg(target_arch = "x86")]
const FSTAT: c_long = libc::SYS_fstat64;
#[cfg(not(target_arch = "x86"))]
const FSTAT: c_long = libc::SYS_fstat;

/// Returns device and inode. By system call: handlers use it, and fakeroot's `fstat` takes locks.
pub(crate) fn identity(descriptor: i32) -> Option<(u64, u64)> {
    try_identity(descriptor).ok()
}

/// # Errors
/// The error number of `fstat(2)`.
pub(super) fn try_identity(descriptor: i32) -> Result<(u64, u64), i32> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut status: libc::stat64 = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is a local.
    let result = unsafe { system_call(FSTAT, [descriptor as usize, &raw mut status as usize, 0, 0, 0, 0]) };
    check(result).map(|_| (status.st_dev, status.st_ino))
}

/// A file's identity in /proc/PID/maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) inode: u64,
}

/// Opens `path` for reading if it is a regular file; never waits. For ordinary context.
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

/// Opens `path` for reading, without following a symbolic link or waiting. For ordinary context.
pub(crate) fn open_unfollowed(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Sets `path` to the working directory.
///
/// # Errors
/// The error number of `getcwd(2)`; `ENOENT` if it was removed or is outside the process's root.
pub(crate) fn current_directory(path: &mut PathBuffer) -> Result<(), i32> {
    path.truncate(0);
    // SAFETY: the kernel writes at most the given number of bytes, NUL included, into the buffer.
    let result = unsafe {
        system_call(libc::SYS_getcwd, [path.bytes.as_mut_ptr() as usize, PATH_BYTES - 1, 0, 0, 0, 0])
    };
    if result < 0 {
        return Err(-result as i32);
    }
    // The kernel prefixes a directory outside the root with "(unreachable)".
    if path.bytes.first() != Some(&b'/') {
        path.bytes = [0; PATH_BYTES];
        return Err(libc::ENOENT);
    }
    path.length = path.bytes.iter().position(|&byte| byte == 0).unwrap_or(0);
    if path.length == 1 {
        // The root is empty: appended names begin with a slash.
        path.truncate(0);
    }
    Ok(())
}

/// Returns an unpredictable number, for names of temporary files.
pub(crate) fn random() -> u64 {
    let mut number = 0u64;
    // SAFETY: the kernel writes eight bytes into a local, and does not wait for entropy.
    let result = unsafe {
        system_call(
            libc::SYS_getrandom,
            [&raw mut number as usize, size_of::<u64>(), libc::GRND_NONBLOCK as usize, 0, 0, 0],
        )
    };
    // O_EXCL makes a predictable name harmless; it only has to be new.
    if result == 8 { number } else { super::clock::monotonic_nanos() ^ u64::from(super::process::id()) << 32 }
}

pub(super) fn check(result: isize) -> Result<usize, i32> {
    if result < 0 { Err(-result as i32) } else { Ok(result as usize) }
}

/// Repeats a system call that fails with EINTR.
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
    fn appends_numbers() {
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
    fn refuses_a_path_that_is_too_long() {
        let mut path = PathBuffer::new();
        path.push(&[b'x'; PATH_BYTES - 1]).unwrap();
        assert_eq!(path.push(b"y"), Err(libc::ENAMETOOLONG));
        assert_eq!(path.as_bytes().len(), PATH_BYTES - 1);
        assert_eq!(PathBuffer::new().push(b"a\0b"), Err(libc::EINVAL));
    }

    #[test]
    fn returns_the_working_directory() {
        use std::os::unix::ffi::OsStrExt;
        let expected = std::env::current_dir().unwrap();
        let mut path = PathBuffer::new();
        current_directory(&mut path).unwrap();
        assert_eq!(path.as_bytes(), expected.as_os_str().as_bytes());
    }
}
