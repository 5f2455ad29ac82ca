//! Directories in which no other user may replace files. As in `file.rs`, without allocation and
//! cancellation points; for toggles and forked children too.
//!
//! # Safety
//! System calls with pointers to borrowed buffers or NUL-terminated paths that outlive the call.
#![allow(unsafe_code)]

use super::{
    arch::system_call,
    entries,
    entry::Entry,
    file::{File, PathBuffer, check},
    memory::MappedBox,
};
use core::ffi::CStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No access; a missing directory is created with mode 0700.
    Private,
    /// Read access, in a directory that the user chose.
    Readable,
}

// <linux/magic.h>.
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;
const EXT: u32 = 0xef53;
const XFS: u32 = 0x5846_5342;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// Whether a written page keeps its block. Elsewhere (btrfs, network) a write may need new
    /// blocks or a server, and raise SIGBUS in a mapping without them.
    pub(crate) is_in_place: bool,
    /// Free bytes for this user.
    pub(crate) free: u64,
}

pub(crate) struct PrivateDirectory(File);

impl PrivateDirectory {
    /// Opens `path`, or creates it. The last component must not be a symbolic link.
    ///
    /// # Errors
    /// The error number of `mkdir(2)` or `open(2)`; `EPERM` for another owner, `EACCES` for a mode
    /// that permits more than `access`.
    pub(crate) fn open_own(path: &CStr, access: Access) -> Result<Self, i32> {
        match Self::open_existing(path, access) {
            Err(libc::ENOENT) => {
                let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, 0o700, 0, 0, 0];
                // SAFETY: the path is NUL-terminated and outlives the call.
                match check(unsafe { system_call(libc::SYS_mkdirat, arguments) }) {
                    Ok(_) => give_to_owner(path)?,
                    Err(libc::EEXIST) => {}
                    Err(error) => return Err(error),
                }
                Self::open_existing(path, access)
            }
            other => other,
        }
    }

    /// # Errors
    /// As [`PrivateDirectory::open_own`]; `ENOENT` if it is missing.
    pub(crate) fn open_existing(path: &CStr, access: Access) -> Result<Self, i32> {
        let directory = Self::open(path)?;
        let status = directory.0.status()?;
        let forbidden = if access == Access::Private { 0o077 } else { 0o022 };
        if status.owner != super::process::effective_user() {
            return Err(libc::EPERM);
        }
        if status.permissions & forbidden != 0 { Err(libc::EACCES) } else { Ok(directory) }
    }

    fn open(path: &CStr) -> Result<Self, i32> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        File::open_at(libc::AT_FDCWD, path, flags).map(Self)
    }

    /// # Errors
    /// The error number of `open(2)`.
    pub(crate) fn create_new(&self, name: &CStr) -> Result<File, i32> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let file = File::open_with_mode(self.0.number(), name, flags, 0o600)?;
        // SAFETY: an owned descriptor. The umask may exclude the user; a failure is harmless.
        unsafe { libc::fchmod(file.number(), 0o600) };
        Ok(file)
    }

    /// # Errors
    /// The error number of `fstatfs(2)`.
    pub(crate) fn file_system(&self) -> Result<FileSystem, i32> {
        // SAFETY: all fields are integers or arrays of them, for which zero is a value.
        let mut status: libc::statfs64 = unsafe { core::mem::zeroed() };
        // SAFETY: the structure is a local.
        if unsafe { libc::fstatfs64(self.0.number(), &mut status) } != 0 {
            return Err(super::errno::get());
        }
        #[allow(clippy::unnecessary_cast, reason = "of another width on other machines")]
        let (kind, block) = (status.f_type as u32, status.f_bsize as u64);
        let is_in_place = [TMPFS, RAMFS, EXT, XFS].contains(&kind);
        // tmpfs without a limit reports no blocks.
        let free = if status.f_blocks == 0 { u64::MAX } else { status.f_bavail.saturating_mul(block) };
        Ok(FileSystem { is_in_place, free })
    }

    pub(crate) fn remove(&self, name: &CStr) {
        let arguments = [self.0.number() as usize, name.as_ptr() as usize, 0, 0, 0, 0];
        // SAFETY: the name is NUL-terminated and outlives the call.
        unsafe { system_call(libc::SYS_unlinkat, arguments) };
    }

    /// # Errors
    /// The error number of `open(2)`: `ELOOP` for a symbolic link.
    pub(crate) fn read(&self, name: &CStr) -> Result<File, i32> {
        File::open_at(self.0.number(), name, libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK)
    }

    /// Whether no process holds a lock on the file `name`; false if that is unknown.
    pub(crate) fn is_unlocked(&self, name: &CStr) -> bool {
        let Ok(file) = self.read(name) else { return false };
        // A shared lock, so that several processes can test; closing the file releases it.
        let arguments = [file.number() as usize, (libc::LOCK_SH | libc::LOCK_NB) as usize, 0, 0, 0, 0];
        // SAFETY: `flock` on an owned descriptor; no pointer is passed.
        check(unsafe { system_call(libc::SYS_flock, arguments) }).is_ok()
    }

    /// Calls `visit` until it returns false.
    pub(crate) fn for_each(&self, visit: impl FnMut(&CStr) -> bool) {
        entries::for_each(self.0.number(), visit);
    }
}

/// Sets the mode of the new directory `path` to 0700, despite the umask.
fn give_to_owner(path: &CStr) -> Result<(), i32> {
    // By descriptor, because the path may have been replaced. O_PATH needs no permission.
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let directory = File::open_at(libc::AT_FDCWD, path, flags)?;
    let mut link = MappedBox::<PathBuffer>::zeroed()?;
    link.push(b"/proc/self/fd/")?;
    link.push_decimal(directory.number() as u64)?;
    let arguments = [libc::AT_FDCWD as usize, link.as_c_str().as_ptr() as usize, 0o700, 0, 0, 0];
    // SAFETY: the path is NUL-terminated and outlives the call.
    check(unsafe { system_call(libc::SYS_fchmodat, arguments) })?;
    Ok(())
}

/// Removes the file `path` if it has this device and inode; returns whether it did.
pub(crate) fn remove_same(path: &CStr, expected: (u64, u64)) -> bool {
    let entry = Entry::at(path);
    entry.status().is_ok_and(|status| status.identity == expected) && entry.unlink().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::CString, fs, os::unix::ffi::OsStrExt, os::unix::fs::PermissionsExt};

    fn c_path(path: &std::path::Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).unwrap()
    }

    #[test]
    fn creates_directories_and_refuses_shared_ones() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("own");
        assert_eq!(
            PrivateDirectory::open_existing(&c_path(&path), Access::Private).err(),
            Some(libc::ENOENT)
        );
        assert!(!path.exists());
        assert!(PrivateDirectory::open_own(&c_path(&path), Access::Private).is_ok());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
        for (mode, private, readable) in [
            (0o755, Some(libc::EACCES), None),
            (0o720, Some(libc::EACCES), Some(libc::EACCES)),
            (0o702, Some(libc::EACCES), Some(libc::EACCES)),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let result = |access| PrivateDirectory::open_own(&c_path(&path), access).err();
            assert_eq!((result(Access::Private), result(Access::Readable)), (private, readable), "{mode:o}");
        }
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(
            PrivateDirectory::open_own(&c_path(&link), Access::Readable).is_err(),
            "a link is not followed"
        );
    }

    #[test]
    fn visits_all_entries_each_time() {
        let scratch = tempfile::tempdir().unwrap();
        let expected: std::collections::BTreeSet<String> = (0..300).map(|i| format!("file {i}")).collect();
        for name in &expected {
            fs::write(scratch.path().join(name), name).unwrap();
        }
        let directory = PrivateDirectory::open_own(&c_path(scratch.path()), Access::Readable).unwrap();
        for _ in 0..2 {
            let mut seen = std::collections::BTreeSet::new();
            directory.for_each(|name| {
                seen.insert(name.to_str().unwrap().to_owned());
                true
            });
            assert!(seen.remove(".") && seen.remove(".."));
            assert_eq!(seen, expected);
        }
        let mut visits = 0;
        directory.for_each(|_| {
            visits += 1;
            visits < 3
        });
        assert_eq!(visits, 3);
        let mut buffer = [0; 20];
        let got = directory.read(c"file 7").unwrap().read_some(&mut buffer).unwrap();
        assert_eq!(&buffer[..got], b"file 7");
    }

    #[test]
    fn reports_a_held_lock() {
        use nix::fcntl::{Flock, FlockArg};
        let scratch = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::open_own(&c_path(scratch.path()), Access::Readable).unwrap();
        assert!(!directory.is_unlocked(c"file"), "there is none");
        let file = fs::File::create(scratch.path().join("file")).unwrap();
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        assert!(!directory.is_unlocked(c"file"));
        drop(lock);
        assert!(
            directory.is_unlocked(c"file") && directory.is_unlocked(c"file"),
            "and nothing is held of it"
        );
    }

    #[test]
    fn removes_only_the_same_file() {
        let scratch = tempfile::tempdir().unwrap();
        let path = c_path(&scratch.path().join("file"));
        let directory = PrivateDirectory::open_own(&c_path(scratch.path()), Access::Readable).unwrap();
        let file = directory.create_new(c"file").unwrap();
        let identity = file.status().unwrap().identity;
        assert!(directory.create_new(c"file").is_err());
        assert!(!remove_same(&path, (identity.0, identity.1 + 1)));
        assert!(remove_same(&path, identity) && !remove_same(&path, identity));
    }
}
