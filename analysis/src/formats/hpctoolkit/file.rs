//! A database file in memory: checked look-ups by pointer.

use super::layout::{FIRST_SECTION, FileKind, MAGIC, MAJOR_VERSION, Record, Section};
use crate::error::{Error, ErrorKind};
use std::{borrow::Cow, marker::PhantomData};

/// A database file of a known kind and version.
#[derive(Clone, Copy, Debug)]
pub(super) struct DbFile<'a> {
    pub(super) kind: FileKind,
    pub(super) bytes: &'a [u8],
}

impl<'a> DbFile<'a> {
    /// Reads the beginning of a file. Every minor version of version 4 is accepted.
    ///
    /// # Errors
    /// If it is another file.
    pub(super) fn new(kind: FileKind, bytes: &'a [u8]) -> Result<Self, Error> {
        let file = Self { kind, bytes };
        let format = &bytes[MAGIC.len().min(bytes.len())..];
        if !bytes.starts_with(MAGIC) || !format.starts_with(kind.format) {
            return Err(Error::new(ErrorKind::Format, format!("not a {} of HPCToolkit", kind.name)));
        }
        match bytes.get(MAGIC.len() + kind.format.len()) {
            Some(&MAJOR_VERSION) => Ok(file),
            Some(version) => {
                Err(Error::new(ErrorKind::Format, format!("a database of version {version}, not 4"))
                    .advise("convert it with the hpcprof of HPCToolkit 2023.03 or newer"))
            }
            None => Err(file.too_short(MAGIC.len() as u64)),
        }
    }

    /// Returns size and pointer of a section.
    ///
    /// # Errors
    /// If it is not within the file.
    pub(super) fn section(&self, name: &str) -> Result<Section, Error> {
        let place = self.kind.sections.iter().position(|section| *section == name);
        let place = place.expect("the file has this section");
        let section: Section = self.record((FIRST_SECTION + place * Section::SIZE) as u64)?;
        self.slice(section.start, section.size)?;
        Ok(section)
    }

    /// Returns the record at the beginning of a section.
    ///
    /// # Errors
    /// If it is not within the file.
    pub(super) fn head<R: Record>(&self, section: &str) -> Result<R, Error> {
        self.record(self.section(section)?.start)
    }

    /// Returns `length` bytes at a pointer.
    ///
    /// # Errors
    /// If they are not within the file.
    pub(super) fn slice(&self, start: u64, length: u64) -> Result<&'a [u8], Error> {
        let end = start.checked_add(length).and_then(|end| usize::try_from(end).ok());
        end.and_then(|end| self.bytes.get(start as usize..end)).ok_or_else(|| self.too_short(start))
    }

    fn too_short(&self, start: u64) -> Error {
        let size = self.bytes.len();
        Error::new(ErrorKind::Format, format!("a structure lies beyond the end of the file ({size} bytes)"))
            .at_offset(start)
            .advise("the database is damaged or incomplete")
    }

    /// Returns the record at a pointer.
    ///
    /// # Errors
    /// If it is not within the file.
    pub(super) fn record<R: Record>(&self, start: u64) -> Result<R, Error> {
        self.slice(start, R::END as u64).map(R::decode)
    }

    /// Returns the array at a pointer. `size` is the distance of its records, or `R::SIZE`.
    ///
    /// # Errors
    /// If it is not within the file, or records are too small.
    pub(super) fn array<R: Record>(
        &self,
        start: u64,
        count: u64,
        size: usize,
    ) -> Result<Array<'a, R>, Error> {
        if size < R::END {
            let reason = format!("records of {size} bytes, which have {} in version 4.0", R::END);
            return Err(Error::new(ErrorKind::Format, reason).at_offset(start));
        }
        // Pointers of empty arrays may be arbitrary.
        let length = count.checked_mul(size as u64).ok_or_else(|| self.too_short(start))?;
        let bytes = if count == 0 { &[] } else { self.slice(start, length)? };
        Ok(Array { bytes, size, start, record: PhantomData })
    }

    /// Returns the text at a pointer, without its NUL.
    ///
    /// # Errors
    /// If it is not within the file.
    pub(super) fn text(&self, start: u64) -> Result<Cow<'a, str>, Error> {
        let bytes = self.slice(start, 0).map(|_| &self.bytes[start as usize..])?;
        let length = bytes.iter().position(|&byte| byte == 0).ok_or_else(|| self.too_short(start))?;
        Ok(String::from_utf8_lossy(&bytes[..length]))
    }
}

/// Records with a fixed distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array<'a, R> {
    bytes: &'a [u8],
    size: usize,
    /// Offset in the file.
    start: u64,
    record: PhantomData<R>,
}

impl<R: Record> Array<'_, R> {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.size
    }

    /// # Panics
    /// If there are not so many records.
    pub(super) fn get(&self, index: usize) -> R {
        R::decode(&self.bytes[index * self.size..])
    }

    /// Returns the offset in the file of a record.
    pub(super) fn offset(&self, index: usize) -> u64 {
        self.start + (index * self.size) as u64
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = R> {
        (0..self.len()).map(|index| self.get(index))
    }
}
