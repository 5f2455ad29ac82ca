//! The output file in its directory: tried, replaced, or written in place.

use super::{
    fails,
    output_directory::{DirectoryHandle, OutputDirectory},
    refuse_own_output,
};
use crate::{
    error::Failure,
    sys::{
        entry::{Entry, FileKind, Status},
        errno,
        file::{self, File, PathBuffer},
        process,
    },
};

pub(super) struct OutputFile<'s> {
    place: &'s OutputDirectory,
    handle: DirectoryHandle<'s>,
    target: &'s PathBuffer,
    /// Index of the name in `target`.
    name: usize,
    temporary: &'s mut PathBuffer,
}

impl<'s> OutputFile<'s> {
    /// # Errors
    /// Why the directory cannot be accessed.
    pub(super) fn new(
        place: &'s OutputDirectory,
        target: &'s PathBuffer,
        name: usize,
        temporary: &'s mut PathBuffer,
    ) -> Result<Self, Failure> {
        let handle = place.handle()?;
        Ok(Self { place, handle, target, name, temporary })
    }

    fn entry(&self) -> Entry<'_> {
        self.handle.entry(self.target, self.name)
    }

    fn temporary_entry(&self) -> Entry<'_> {
        match self.handle.directory() {
            Some(directory) => Entry::within(directory, self.temporary.as_c_str()),
            None => Entry::at(self.temporary.as_c_str()),
        }
    }

    fn found(&self) -> Result<Option<Status>, Failure> {
        match self.entry().status() {
            Ok(status) => Ok(Some(status)),
            Err(errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.fails("look at the file")(errno)),
        }
    }

    /// Tests whether the target can be written. Returns the permissions of a new file, if possible.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(super) fn try_out(&mut self) -> Result<Option<u32>, Failure> {
        let found = self.found()?;
        if let Some(status) = &found {
            match status.kind {
                FileKind::Directory => return Err(fails("write a file")(errno::EISDIR)),
                FileKind::Socket => return Err(fails("open a socket")(errno::ENXIO)),
                FileKind::Special if !self.place.is_trusted(&self.handle, status) => return Err(foreign()),
                _ => self.entry().ensure_writable().map_err(fails("write the file"))?,
            }
            match status.kind {
                // Not opened: the close would be an end of file for a pipe's reader.
                FileKind::Special => return Ok(None),
                _ if self.place.keeps(&self.handle, status) => return Err(foreign()),
                _ => refuse_own_output(status)?,
            }
        }
        match self.create_temporary() {
            Ok(created) => {
                let _ = self.temporary_entry().unlink();
                Ok(created.status().ok().map(|status| status.permissions))
            }
            Err(errno) => match found {
                Some(status) if is_refusal(errno) => ensure_own(&status).map(|()| None),
                _ => Err(fails("create a file")(errno)),
            },
        }
    }

    /// Writes the file by `fill`. It gets its name when it is complete.
    ///
    /// # Errors
    /// Why there is no profile. Nothing of it remains then.
    pub(super) fn write<R>(mut self, mut fill: impl FnMut(&File) -> Result<R, i32>) -> Result<R, Failure> {
        let found = self.found()?;
        match found {
            Some(status) if status.kind == FileKind::Socket => {
                return Err(fails("open a socket")(errno::ENXIO));
            }
            Some(status) if status.kind != FileKind::Special => {}
            Some(status) if self.place.is_trusted(&self.handle, &status) => {
                return write_special(self.entry(), status.identity, false, fill);
            }
            Some(_) => return Err(foreign()),
            None => {}
        }
        let created = match (self.create_temporary(), &found) {
            (Ok(created), _) => created,
            (Err(errno), Some(status)) if is_refusal(errno) => return self.write_in_place(status, fill),
            (Err(errno), _) => return Err(self.fails("create a file")(errno)),
        };
        self.set_permissions(&created, found.as_ref());
        let written = fill(&created).and_then(|result| created.close().map(|()| result));
        let renamed = match written {
            Ok(_) => self.temporary_entry().rename(self.entry()),
            Err(_) => Ok(()),
        };
        if written.is_err() || renamed.is_err() {
            let _ = self.temporary_entry().unlink();
        }
        match (written, renamed, &found) {
            (Err(errno), _, _) => Err(fails("write the file")(errno)),
            (Ok(result), Ok(()), _) => Ok(result),
            // A mount point, or the file now belongs to another user.
            (_, Err(errno), Some(status)) if is_refusal(errno) || errno == errno::EBUSY => {
                self.write_in_place(status, fill)
            }
            (_, Err(errno), _) => Err(self.fails("name the file")(errno)),
        }
    }

    /// Keeps the permissions of an own file. A new file has those that the umask allows now and at
    /// the start: a daemon clears its umask only for its own files.
    fn set_permissions(&self, created: &File, found: Option<&Status>) {
        let Ok(status) = created.status() else { return };
        let is_same = |found: &&Status| {
            found.kind == FileKind::Regular && (found.owner, found.group) == (status.owner, status.group)
        };
        let wanted = match found.filter(is_same) {
            Some(found) => found.permissions & 0o777,
            None => status.permissions & self.place.permissions,
        };
        if wanted != status.permissions {
            created.set_permissions(wanted);
        }
    }

    fn create_temporary(&mut self) -> Result<File, i32> {
        const TRIES: usize = 4;
        let mut last = errno::EEXIST;
        for _ in 0..TRIES {
            self.temporary.truncate(0);
            if self.handle.directory().is_none() {
                self.temporary.push(self.place.resolved())?;
                self.temporary.push(b"/")?;
            }
            self.temporary.push(b".sigprof-")?;
            self.temporary.push_hexadecimal(file::random())?;
            match self.temporary_entry().create() {
                Ok(created) => return Ok(created),
                Err(errno::EEXIST) => {}
                Err(errno) => {
                    last = errno;
                    break;
                }
            }
        }
        Err(last)
    }

    fn write_in_place<R>(
        &self,
        found: &Status,
        mut fill: impl FnMut(&File) -> Result<R, i32>,
    ) -> Result<R, Failure> {
        ensure_own(found)?;
        let file = self.entry().open_for_writing(false).map_err(self.fails("open the file"))?;
        let status = file.status().map_err(fails("look at the file"))?;
        ensure_own(&status)?;
        file.empty();
        let written = fill(&file);
        if written.is_err() {
            file.empty();
        }
        written.and_then(|result| file.close().map(|()| result)).map_err(fails("write the file"))
    }

    /// An error of this process, or of the user that it has become.
    fn fails(&self, action: &'static str) -> impl Fn(i32) -> Failure + use<> {
        let is_other = self.place.has_changed_user();
        move |errno| {
            let action = match errno {
                errno::EACCES | errno::EPERM if is_other => {
                    "write there as the user that the program has become"
                }
                _ => action,
            };
            fails(action)(errno)
        }
    }
}

/// Writes to a device or a pipe, if it still has this identity: device and inode.
///
/// # Errors
/// Why it was not written completely.
pub(super) fn write_special<R>(
    entry: Entry<'_>,
    identity: (u64, u64),
    follows: bool,
    mut fill: impl FnMut(&File) -> Result<R, i32>,
) -> Result<R, Failure> {
    let file = entry.open_for_writing(follows).map_err(fails("open it"))?;
    if file.status().map(|status| status.identity) != Ok(identity) {
        return Err(fails("write to what has taken its place")(errno::ESTALE));
    }
    let written = fill(&file);
    written.and_then(|result| file.close().map(|()| result)).map_err(fails("write to it"))
}

/// Whether the directory permits no new file.
fn is_refusal(errno: i32) -> bool {
    matches!(errno, errno::EACCES | errno::EPERM | errno::EROFS)
}

fn ensure_own(status: &Status) -> Result<(), Failure> {
    let is_ours = status.kind == FileKind::Regular && status.owner == process::effective_user();
    if is_ours { Ok(()) } else { Err(foreign()) }
}

fn foreign() -> Failure {
    fails("write into another user's file")(errno::EPERM)
}
