//! Files, without allocation and without cancellation points.
//!
//! All of this may run in a signal handler (a toggle) or at process exit, in a thread that the host has asked to
//! end: libc's `open`, `read`, `write` and `close` would act on that request, the system calls themselves do not.
//! Each is on the list of `signal-safety(7)`.
//!
//! # Safety
//! System calls whose pointers are borrowed buffers or NUL-terminated paths that outlive the call.
#![allow(unsafe_code)]

use super::{arch::system_call, thread::Time};
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
    pub(crate) fn push_decimal(&mut self, mut number: u64) -> Result<(), i32> {
        let mut digits = [b'0'; 20];
        let mut used = 0;
        for digit in digits.iter_mut().rev() {
            *digit += (number % 10) as u8;
            number /= 10;
            used += 1;
            if number == 0 {
                break;
            }
        }
        self.push(digits.get(digits.len() - used..).unwrap_or_default())
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

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        self.c_str_from(0)
    }

    /// The path from byte `start` on.
    pub(crate) fn c_str_from(&self, start: usize) -> &CStr {
        CStr::from_bytes_until_nul(self.bytes.get(start..).unwrap_or_default()).unwrap_or_default()
    }
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Regular,
    Directory,
    SymbolicLink,
    /// A device, a pipe or a socket.
    Special,
}

/// What `path` names; a symbolic link is not followed unless `follow` says so.
///
/// # Errors
/// The error number of `stat(2)`.
pub(crate) fn kind(path: &CStr, follow: bool) -> Result<FileKind, i32> {
    Ok(match mode(path, follow)? & libc::S_IFMT {
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFLNK => FileKind::SymbolicLink,
        _ => FileKind::Special,
    })
}

/// Type and permissions of a file, by the call that knows inode numbers of 64 bits on every machine.
fn mode(path: &CStr, follow: bool) -> Result<libc::mode_t, i32> {
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: all fields are integers, for which zero is a value.
    let mut status: libc::stat64 = unsafe { core::mem::zeroed() };
    // SAFETY: the path is NUL-terminated, the structure a local, and both outlive the call.
    let result = unsafe { libc::fstatat64(libc::AT_FDCWD, path.as_ptr(), &mut status, flags) };
    if result == 0 { Ok(status.st_mode) } else { Err(super::errno::get()) }
}

/// What lets a program of 32 bits open files of more than 2 GiB; nothing elsewhere.
pub(super) const LARGE: i32 = if cfg!(target_pointer_width = "32") { libc::O_LARGEFILE } else { 0 };

/// Milliseconds that a write waits for a full pipe to move.
const MOST_WAITS: u32 = 2000;

/// A file descriptor of ours, closed when dropped.
pub(crate) struct File(i32);

impl File {
    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// The error number of `open(2)`.
    pub(crate) fn read(path: &CStr) -> Result<Self, i32> {
        Self::open(path, libc::O_RDONLY)
    }

    /// Opens an existing file for writing from its start; `truncate` empties it. Neither a terminal that it names
    /// becomes ours, nor is a pipe without reader waited for.
    ///
    /// # Errors
    /// The error number of `open(2)`; `ENXIO` for a pipe that nobody reads.
    pub(crate) fn write_existing(path: &CStr, truncate: bool) -> Result<Self, i32> {
        let flags = libc::O_WRONLY | libc::O_NOCTTY | libc::O_NONBLOCK;
        Self::open(path, if truncate { flags | libc::O_TRUNC } else { flags })
    }

    /// Creates a file that must not exist yet, with the user's umask.
    ///
    /// # Errors
    /// The error number of `open(2)`.
    pub(crate) fn create_new(path: &CStr) -> Result<Self, i32> {
        Self::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW)
    }

    fn open(path: &CStr, flags: i32) -> Result<Self, i32> {
        let flags = (flags | libc::O_CLOEXEC | LARGE) as usize;
        let directory = libc::AT_FDCWD as usize;
        // SAFETY: the path is NUL-terminated and outlives the call.
        let result = restart(|| unsafe {
            system_call(libc::SYS_openat, [directory, path.as_ptr() as usize, flags, 0o666, 0, 0])
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
    /// The error number of `write(2)`; `ETIMEDOUT` for a pipe that stays full for two seconds. A signal that the failed call raised (SIGXFSZ, SIGPIPE) is taken back, if
    /// the caller has all signals blocked.
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
                Err(libc::EAGAIN) if waits == MOST_WAITS => return Err(libc::ETIMEDOUT),
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

    /// Gives the file the permissions of the existing file `path`, if there is one.
    pub(crate) fn take_mode_of(&self, path: &CStr) {
        if let Ok(mode) = mode(path, true) {
            // SAFETY: a plain call on our own descriptor. Where it fails the file keeps the user's umask.
            unsafe { libc::fchmod(self.0, mode & 0o777) };
        }
    }

    /// Empties the file, as far as it can be.
    pub(crate) fn empty(&self) {
        // SAFETY: a plain call on our own descriptor. A device or pipe refuses, and holds nothing to be emptied.
        unsafe { libc::ftruncate64(self.0, 0) };
    }

    /// Device and inode.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        identity(self.0)
    }

    /// Its number, for calls that take one; it stays ours.
    pub(super) fn descriptor(&self) -> i32 {
        self.0
    }

    /// The file of a descriptor that was just opened, and is nobody else's.
    pub(super) fn from_new(descriptor: i32) -> Self {
        Self(descriptor)
    }

    /// Sets the length; what is new reads as zeros and takes no room yet.
    ///
    /// # Errors
    /// The error number of `ftruncate(2)`. A signal that the failed call raised (SIGXFSZ) is taken back, if the caller
    /// has all signals blocked.
    pub(crate) fn set_length(&self, length: u64) -> Result<(), i32> {
        let length = i64::try_from(length).map_err(|_| libc::EFBIG)?;
        // SAFETY: a plain call on our own descriptor.
        if unsafe { libc::ftruncate64(self.0, length) } == 0 {
            return Ok(());
        }
        let error = super::errno::get();
        if error == libc::EFBIG {
            super::signal::discard_pending(libc::SIGXFSZ);
        }
        Err(error)
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

fn close(descriptor: i32) -> Result<(), i32> {
    // SAFETY: the descriptor is ours and used no more.
    let result = unsafe { system_call(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
    if result < 0 { Err(-result as i32) } else { Ok(()) }
}

/// Writes a line to a descriptor of the host's, or leaves it out where nobody takes it within a tenth of a second.
/// All signals are blocked meanwhile, and those that the write raises are taken back.
pub(crate) fn write_line(descriptor: i32, line: &[u8]) {
    const PATIENCE_MILLIS: c_long = 100;
    let _blocked = super::signal::AllBlocked::new();
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    let patience = Time { seconds: 0, nanos: PATIENCE_MILLIS * 1_000_000 };
    // SAFETY: one structure and a time, both locals; no mask.
    let ready = unsafe {
        system_call(libc::SYS_ppoll, [&raw mut poll as usize, 1, &raw const patience as usize, 0, 0, 0])
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

/// Device and inode of an open descriptor.
pub(crate) fn identity(descriptor: i32) -> Option<(u64, u64)> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut status: libc::stat64 = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is a local.
    let result = unsafe { libc::fstat64(descriptor, &mut status) };
    (result == 0).then_some((status.st_dev, status.st_ino))
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

/// True when the process may write the existing file `path`, by its effective ids.
pub(crate) fn is_writable(path: &CStr) -> bool {
    let directory = libc::AT_FDCWD;
    // SAFETY: the path is NUL-terminated and outlives the call.
    unsafe { libc::faccessat(directory, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) == 0 }
}

/// Replaces `path`, if it is a symbolic link, by what it points to, however many links that takes; a link whose
/// target is missing gives that target.
///
/// # Errors
/// The error number of `readlink(2)`; `ELOOP` for too many links.
pub(crate) fn resolve_links(path: &mut PathBuffer) -> Result<(), i32> {
    const MOST_LINKS: usize = 40;
    for _ in 0..MOST_LINKS {
        if kind(path.as_c_str(), false) != Ok(FileKind::SymbolicLink) {
            return Ok(());
        }
        let mut target = [0u8; PATH_BYTES];
        // SAFETY: the path is NUL-terminated; the kernel writes at most the given number of bytes into the buffer.
        let length = unsafe {
            system_call(
                libc::SYS_readlinkat,
                [
                    libc::AT_FDCWD as usize,
                    path.as_c_str().as_ptr() as usize,
                    target.as_mut_ptr() as usize,
                    PATH_BYTES - 1,
                    0,
                    0,
                ],
            )
        };
        let target = usize::try_from(length).ok().and_then(|length| target.get(..length));
        let target = target.ok_or(-length as i32)?;
        // A relative target counts from the directory that the link stands in.
        let directory = path.as_bytes().iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        path.truncate(if target.starts_with(b"/") { 0 } else { directory });
        path.push(target)?;
    }
    Err(libc::ELOOP)
}

/// Renames a file, replacing what stands at `to`.
///
/// # Errors
/// The error number of `rename(2)`.
pub(crate) fn rename(from: &CStr, to: &CStr) -> Result<(), i32> {
    let directory = libc::AT_FDCWD as usize;
    // SAFETY: both paths are NUL-terminated and outlive the call.
    let result = unsafe {
        system_call(
            libc::SYS_renameat,
            [directory, from.as_ptr() as usize, directory, to.as_ptr() as usize, 0, 0],
        )
    };
    if result < 0 { Err(-result as i32) } else { Ok(()) }
}

/// Removes a file.
///
/// # Errors
/// The error number of `unlink(2)`.
pub(crate) fn unlink(path: &CStr) -> Result<(), i32> {
    let directory = libc::AT_FDCWD as usize;
    // SAFETY: the path is NUL-terminated and outlives the call.
    let result = unsafe { system_call(libc::SYS_unlinkat, [directory, path.as_ptr() as usize, 0, 0, 0, 0]) };
    if result < 0 { Err(-result as i32) } else { Ok(()) }
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
    if result == 8 { number } else { super::clock::monotonic() ^ u64::from(super::process::id()) << 32 }
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
