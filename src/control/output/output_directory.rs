//! The output directory.
//!
//! It is opened at the start, so it remains valid after `chroot`, `chdir` or a rename. If it is not
//! open or was removed, its path is used, but only with the same root directory.
//!
//! # Safety
//! Declares a structure of integers zeroable.
#![allow(unsafe_code)]

use super::{Buffers, fails};
use crate::{
    error::Failure,
    sample::spill_file::SpillDirectory,
    sys::{
        directory::Directory,
        entry::{Entry, Status},
        errno,
        file::PathBuffer,
        links,
        memory::{MappedBox, Zeroable},
        process,
    },
};
use core::ffi::CStr;

pub(crate) struct OutputDirectory {
    paths: MappedBox<Paths>,
    kept: Option<Directory>,
    /// Device and inode.
    root: Option<(u64, u64)>,
    /// The effective user ID at the start.
    user: u32,
    /// Permissions of a new file after the umask at the start.
    pub(super) permissions: u32,
}

/// Absolute paths without a slash at their ends; the root is empty.
#[repr(C)]
struct Paths {
    /// As requested.
    requested: PathBuffer,
    /// Without symbolic links.
    resolved: PathBuffer,
}

// SAFETY: path buffers, for which zeros are valid: empty paths.
unsafe impl Zeroable for Paths {}

pub(super) enum DirectoryHandle<'p> {
    Kept(&'p Directory),
    Opened(Directory),
    /// No descriptor is available.
    ByPath,
}

impl DirectoryHandle<'_> {
    /// The file at `path`, which is in this directory; its name starts at byte `name`.
    pub(super) fn entry<'n>(&'n self, path: &'n PathBuffer, name: usize) -> Entry<'n> {
        self.directory()
            .map_or(Entry::at(path.as_c_str()), |directory| Entry::within(directory, path.tail(name)))
    }

    pub(super) fn directory(&self) -> Option<&Directory> {
        match self {
            Self::Kept(directory) => Some(directory),
            Self::Opened(directory) => Some(directory),
            Self::ByPath => None,
        }
    }
}

impl OutputDirectory {
    /// Opens the directory of `path`.
    ///
    /// # Errors
    /// Why this failed.
    pub(crate) fn of(path: &[u8]) -> Result<Self, Failure> {
        let mut buffers = Buffers::new()?;
        super::absolute(path, &mut buffers.target)?;
        let (requested, _) = split(buffers.target.as_bytes());
        let length = requested.len();
        buffers.target.truncate(length);
        let Buffers { target, requested, links, .. } = &mut *buffers;
        requested.replace(target.as_bytes()).map_err(fails("take the path"))?;
        links::resolve(target, links).map_err(super::to_failure)?;
        Self::open(requested.as_bytes(), target.as_bytes())
    }

    /// Opens the directory `resolved`; `requested` is its path before resolution.
    ///
    /// # Errors
    /// The failed system call. A lack of descriptors is not an error.
    pub(super) fn open(requested: &[u8], resolved: &[u8]) -> Result<Self, Failure> {
        let mut place = Self {
            paths: MappedBox::zeroed()
                .map_err(|errno| Failure::System { action: "map memory for the output", errno })?,
            kept: None,
            root: root().ok(),
            user: process::effective_user(),
            permissions: 0o666,
        };
        place.paths.requested.replace(requested).map_err(fails("take the path"))?;
        place.paths.resolved.replace(resolved).map_err(fails("take the path"))?;
        match Directory::open(place.path()) {
            Ok(directory) => {
                // Symbolic links of /proc may lead to another directory than they name.
                let requested = if requested.is_empty() { c"/" } else { place.paths.requested.as_c_str() };
                let status =
                    Entry::at(requested).status_following_links().map_err(fails("find the directory"))?;
                if status.identity != directory.identity() {
                    return Err(fails("find the directory")(errno::ENOENT));
                }
                place.kept = directory.duplicate_high();
            }
            Err(errno::EMFILE | errno::ENFILE) => {}
            Err(errno) => return Err(fails("open the directory")(errno)),
        }
        Ok(place)
    }

    /// A copy for another session.
    ///
    /// # Errors
    /// A lack of memory.
    pub(super) fn duplicate(&self) -> Result<Self, Failure> {
        let mut paths = MappedBox::<Paths>::zeroed()
            .map_err(|errno| Failure::System { action: "map memory for the output", errno })?;
        paths.requested.replace(self.requested()).map_err(fails("take the path"))?;
        paths.resolved.replace(self.resolved()).map_err(fails("take the path"))?;
        let kept = self.kept.as_ref().and_then(Directory::duplicate_high);
        Ok(Self { paths, kept, root: self.root, user: self.user, permissions: self.permissions })
    }

    pub(super) fn beside(&self) -> Option<SpillDirectory> {
        let directory = self.kept.as_ref()?.borrowed();
        let mut path = MappedBox::<PathBuffer>::zeroed().ok()?;
        path.replace(self.resolved()).ok()?;
        Some(SpillDirectory { directory, path })
    }

    pub(super) fn requested(&self) -> &[u8] {
        self.paths.requested.as_bytes()
    }

    pub(super) fn resolved(&self) -> &[u8] {
        self.paths.resolved.as_bytes()
    }

    fn path(&self) -> &CStr {
        if self.resolved().is_empty() { c"/" } else { self.paths.resolved.as_c_str() }
    }

    /// Finds the directory.
    ///
    /// # Errors
    /// Why it cannot be found.
    pub(super) fn handle(&self) -> Result<DirectoryHandle<'_>, Failure> {
        let exists = |directory: &&Directory| directory.status().is_some_and(|status| status.names > 0);
        if let Some(directory) = self.kept.as_ref().filter(exists) {
            return Ok(DirectoryHandle::Kept(directory));
        }
        if self.root != Some(root().map_err(fails("look at the root directory"))?) {
            return Err(fails("find the directory from another root than at the start")(errno::ENOENT));
        }
        match Directory::open(self.path()) {
            Ok(directory) => Ok(DirectoryHandle::Opened(directory)),
            Err(errno::EMFILE | errno::ENFILE) => Ok(DirectoryHandle::ByPath),
            Err(errno) => Err(fails("open the directory")(errno)),
        }
    }

    pub(crate) fn has_same_root(&self) -> bool {
        root().is_ok_and(|root| self.root == Some(root))
    }

    pub(super) fn has_changed_user(&self) -> bool {
        self.user != process::effective_user()
    }

    /// Whether only this user or the directory's owner can have created the file.
    pub(super) fn is_trusted(&self, handle: &DirectoryHandle<'_>, file: &Status) -> bool {
        let directory = self.status(handle);
        file.owner == process::effective_user()
            || directory.is_some_and(|directory| links::is_trusted(file, &directory))
    }

    /// Whether the kernel protects the file: another user's, in a sticky directory (/tmp).
    pub(super) fn keeps(&self, handle: &DirectoryHandle<'_>, file: &Status) -> bool {
        const ROOT: u32 = 0;
        const STICKY: u32 = 0o1000;
        let user = process::effective_user();
        let is_sticky = |directory: Status| directory.permissions & STICKY != 0 && directory.owner != user;
        user != ROOT && file.owner != user && self.status(handle).is_some_and(is_sticky)
    }

    fn status(&self, handle: &DirectoryHandle<'_>) -> Option<Status> {
        match handle.directory() {
            Some(directory) => directory.status(),
            None => Entry::at(self.path()).status().ok(),
        }
    }
}

/// Device and inode of the process's root directory.
///
/// # Errors
/// The error number of `stat(2)`.
fn root() -> Result<(u64, u64), i32> {
    Entry::at(c"/").status().map(|status| status.identity)
}

/// The directory of an absolute path without a slash at its end, and the index of the last name.
pub(super) fn split(path: &[u8]) -> (&[u8], usize) {
    let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    (path.get(..slash).unwrap_or_default(), slash + 1)
}
