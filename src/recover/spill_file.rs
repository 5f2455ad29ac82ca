//! The spill file of a spool.

use super::{
    error::{Reason, RecoverError},
    spool::{Owner, Spool},
};
use crate::{
    format::spool::{Head, SpoolSource, SpooledRecord},
    sys::{file, process},
};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::PathBuf,
};

/// Bytes that are read in one part: many of the longest records.
const PART_BYTES: usize = 4 << 20;

impl Spool {
    /// Opens the spill file; None if there is none, or it was removed.
    ///
    /// # Errors
    /// If it cannot be read, is another user's, or is missing and may be in another container.
    pub(super) fn spilled(&self) -> Result<Option<File>, RecoverError> {
        let Some(path) = self.spill_path().filter(|_| self.head.spilled.is_some()) else { return Ok(None) };
        let fails = |error| RecoverError::new(&path, Reason::Io("open the spill file", error));
        let file = match file::open_unfollowed(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.owner() != Owner::Elsewhere => {
                return Ok(None);
            }
            other => other.map_err(fails)?,
        };
        let status = file.metadata().map_err(fails)?;
        if !status.is_file() || status.uid() != process::effective_user() {
            return Err(RecoverError::new(&path, Reason::OtherUser(status.uid())));
        }
        Ok(Some(file))
    }

    fn spill_path(&self) -> Option<PathBuf> {
        let name = self.head.spill_name.as_ref()?;
        Some(self.target().with_file_name(OsStr::from_bytes(name)))
    }

    /// Removes the spill file if it is this user's.
    pub(super) fn remove_spill_file(&self) {
        let Some(path) = self.spill_path() else { return };
        let is_own = |status: fs::Metadata| status.is_file() && status.uid() == process::effective_user();
        if fs::symlink_metadata(&path).is_ok_and(is_own) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Calls `visit` with the records of the spill file, in parts because the file may be large.
pub(super) fn for_each_spilled<E: From<io::Error>>(
    head: &Head,
    spilled: &impl SpoolSource,
    mut visit: impl FnMut(Vec<SpooledRecord>) -> Result<(), E>,
) -> Result<(), E> {
    let mut place = 0;
    let spilled_bytes = head.spilled.as_ref().map_or(0, |spilled| spilled.bytes);
    let mut part = vec![0; PART_BYTES];
    while place < spilled_bytes {
        let length = usize::try_from(spilled_bytes - place).unwrap_or(PART_BYTES).min(PART_BYTES);
        let got = read_fully(spilled, place, part.get_mut(..length).unwrap_or_default())?;
        let (records, bytes) = head.spilled_records(part.get(..got).unwrap_or_default());
        if bytes == 0 {
            // Truncated, or overwritten by another program.
            break;
        }
        visit(records)?;
        place += bytes as u64;
    }
    Ok(())
}

/// Reads into `buffer` up to the end of the source; returns the number of bytes.
fn read_fully(source: &impl SpoolSource, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match source.read_at(offset + done as u64, rest)? {
            0 => break,
            got => done += got,
        }
    }
    Ok(done)
}
