//! The spill file, in the profile's directory, which needs space anyway. Created when a half of the
//! table is first full, and removed when the profile is complete. Signal-safe unless stated
//! otherwise: system calls, and our own memory.
//!
//! # Safety
//! Converts words to bytes.
#![allow(unsafe_code)]

use super::spill::{SLICE_WORDS, SpillSink};
use crate::{
    format::spool::{SPILL_NAME_BYTES, SPILL_PREFIX, SPILL_SUFFIX},
    sys::{
        checked_file::CheckedFile,
        directory::{BorrowedDirectory, Directory},
        entry::Entry,
        errno,
        file::{self, PathBuffer},
        memory::{MappedBox, Zeroable},
    },
};
use core::ffi::CStr;

/// Bytes of the file system that are left to the application.
const RESERVE: u64 = 16 << 20;

pub(crate) struct SpillDirectory {
    pub(crate) directory: BorrowedDirectory,
    /// Absolute, without symbolic links.
    pub(crate) path: MappedBox<PathBuffer>,
}

pub(crate) struct SpillFile {
    /// None if no other file can be beside the profile.
    profile_directory: Option<SpillDirectory>,
    is_spooled: bool,
    /// Open again, because the application closed the first.
    reopened: Option<Directory>,
    name: [u8; SPILL_NAME_BYTES],
    name_bytes: usize,
    file: Option<CheckedFile>,
    buffer: Option<MappedBox<Slice>>,
}

#[repr(C)]
struct Slice([usize; SLICE_WORDS]);

// SAFETY: an array of integers, for which zero is a valid value.
unsafe impl Zeroable for Slice {}

impl SpillFile {
    /// Without a spool, the file is unlinked when it is created.
    pub(crate) fn new(profile_directory: Option<SpillDirectory>, is_spooled: bool) -> Self {
        Self {
            profile_directory,
            is_spooled,
            reopened: None,
            name: [0; SPILL_NAME_BYTES],
            name_bytes: 0,
            file: None,
            buffer: None,
        }
    }

    /// Reads `words.len()` words after the first `place`. For ordinary context and exit hooks.
    ///
    /// # Errors
    /// An `errno` value; `ENOENT` without a file.
    pub(crate) fn read(&mut self, place: u64, words: &mut [usize]) -> Result<(), i32> {
        let file = self.open()?;
        let length = size_of_val(words);
        // SAFETY: any bytes are valid words, and these are borrowed mutably.
        let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), length) };
        file.read_at(place * size_of::<usize>() as u64, bytes)
    }

    pub(crate) fn is_there(&mut self) -> bool {
        self.open().is_ok()
    }

    /// Unlinks the file. A session that continues still uses it.
    pub(crate) fn remove(&mut self) {
        if self.file.is_none() || self.find_directory().is_err() {
            return;
        }
        let (Some(file), Some(directory)) = (&self.file, self.directory()) else { return };
        let entry = Entry::within(directory, name(&self.name));
        // The name may now belong to another file.
        if entry.status().is_ok_and(|status| file.is(&status)) {
            let _ = entry.unlink();
        }
    }

    fn directory(&self) -> Option<&Directory> {
        self.reopened.as_ref().or(self.profile_directory.as_ref().map(|found| &*found.directory))
    }

    /// Opens the directory again if the application closed it and its path is unchanged.
    fn find_directory(&mut self) -> Result<(), i32> {
        let profile_directory = self.profile_directory.as_ref().ok_or(errno::ENOENT)?;
        if self.directory().is_some_and(Directory::is_still_open) {
            return Ok(());
        }
        let path = if profile_directory.path.as_bytes().is_empty() {
            c"/"
        } else {
            profile_directory.path.as_c_str()
        };
        let opened = Directory::open(path)?;
        if opened.identity() != profile_directory.directory.identity() {
            return Err(errno::ESTALE);
        }
        self.reopened = Some(opened.duplicate_high().ok_or(errno::EMFILE)?);
        Ok(())
    }

    /// Opens the file again if the application closed it.
    fn open(&mut self) -> Result<&CheckedFile, i32> {
        if !self.file.as_ref().ok_or(errno::ENOENT)?.is_still_open() {
            self.find_directory()?;
            let mut file = self.file.take().ok_or(errno::ENOENT)?;
            let reopened = self
                .directory()
                .ok_or(errno::ENOENT)
                .and_then(|directory| file.reopen(directory, name(&self.name)));
            self.file = Some(file);
            reopened?;
        }
        self.file.as_ref().ok_or(errno::ENOENT)
    }

    fn create(&mut self) -> Result<(), i32> {
        self.find_directory()?;
        let directory = self.directory().ok_or(errno::ENOENT)?;
        self.file = Some(CheckedFile::create(directory, name(&self.name))?);
        // After a kill, no process would find and remove it.
        if !self.is_spooled {
            self.give_up();
        }
        Ok(())
    }

    fn choose_name(&mut self) {
        const DIGITS: u32 = 16;
        let random = file::random();
        let digits = (0..DIGITS).rev().map(|i| match (random >> (4 * i) & 15) as u8 {
            digit @ 0..=9 => b'0' + digit,
            digit => b'a' + digit - 10,
        });
        let bytes = SPILL_PREFIX.iter().copied().chain(digits).chain(SPILL_SUFFIX.iter().copied());
        for (to, byte) in self.name.iter_mut().zip(bytes) {
            *to = byte;
            self.name_bytes += 1;
        }
    }
}

fn name(bytes: &[u8]) -> &CStr {
    CStr::from_bytes_until_nul(bytes).unwrap_or_default()
}

impl SpillSink for SpillFile {
    fn append(&mut self, place: u64, words: usize) -> Result<(), i32> {
        if self.file.is_none() {
            self.create()?;
        }
        self.open()?;
        let file = self.file.as_ref().ok_or(errno::ENOENT)?;
        // The profile needs as much space again.
        let bytes = (place + words as u64).saturating_mul(size_of::<usize>() as u64);
        if file.free_bytes()? < bytes.saturating_add(RESERVE) {
            return Err(errno::ENOSPC);
        }
        let slice = self.buffer.as_deref().and_then(|slice| slice.0.get(..words)).ok_or(errno::EINVAL)?;
        // SAFETY: words are valid as bytes, and these are borrowed.
        let bytes = unsafe { core::slice::from_raw_parts(slice.as_ptr().cast(), size_of_val(slice)) };
        file.write_at(place * size_of::<usize>() as u64, bytes)
    }

    fn name(&mut self) -> &[u8] {
        if self.name_bytes == 0 {
            self.choose_name();
        }
        self.name.get(..self.name_bytes).unwrap_or_default()
    }

    fn give_up(&mut self) {
        if let (Some(_), Some(directory)) = (&self.file, self.directory()) {
            let _ = Entry::within(directory, name(&self.name)).unlink();
        }
    }

    fn buffer(&mut self) -> Result<&mut [usize], i32> {
        if self.buffer.is_none() {
            self.buffer = Some(MappedBox::zeroed()?);
        }
        self.buffer.as_deref_mut().map(|slice| &mut slice.0[..]).ok_or(errno::ENOMEM)
    }
}
