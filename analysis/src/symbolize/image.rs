//! Bytes of an ELF file, mapped or in memory, and its addresses.

use crate::error::{Error, ErrorKind};
use object::{Object as _, ObjectSegment as _, SegmentFlags, elf::PF_X};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// An ELF file of any class and byte order.
pub(super) type Elf<'data> = object::File<'data, &'data [u8]>;

/// The smallest page size.
const PAGE: u64 = 4096;

/// An ELF file. Addresses are the file's, as `objdump` prints them.
pub(super) struct Image {
    path: PathBuf,
    bytes: Bytes,
}

enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Image {
    /// Maps the file, which must be regular: opening a pipe or a device can block or have effects.
    ///
    /// # Errors
    /// If it cannot be read, or is not an ELF file.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let fails = |error| Error::io(path, "read the object", error);
        let is_file = fs::metadata(path).map_err(fails)?.is_file();
        if !is_file {
            return Err(Error::new(ErrorKind::Io, "is not a regular file").at(path));
        }
        Self::of_file(path, &File::open(path).map_err(fails)?)
    }

    /// Maps a file that was opened at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is not an ELF file.
    pub(super) fn of_file(path: &Path, file: &File) -> Result<Self, Error> {
        let fails = |error| Error::io(path, "read the object", error);
        if file.metadata().map_err(fails)?.len() == 0 {
            return Err(Error::new(ErrorKind::Format, "the file is empty (0 bytes)").at(path));
        }
        let bytes = Bytes::Mapped(map_file(file).map_err(fails)?);
        Self { path: path.into(), bytes }.checked()
    }

    /// Creates an image of an ELF file in memory: a decompressed one, or the vDSO.
    ///
    /// # Errors
    /// If it is not an ELF file.
    pub(super) fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, Error> {
        Self { path: path.into(), bytes: Bytes::Owned(bytes) }.checked()
    }

    fn checked(self) -> Result<Self, Error> {
        match Elf::parse(self.bytes()) {
            Ok(_) => Ok(self),
            Err(error) => {
                let reason = format!("not a valid ELF file ({error})");
                Err(Error::new(ErrorKind::Format, reason).at(&self.path).caused_by(error))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }

    /// Parses the headers, which is fast; None if the file has changed since it was opened.
    pub(super) fn elf(&self) -> Option<Elf<'_>> {
        Elf::parse(self.bytes()).ok()
    }

    /// Returns the linker's build ID, in lower-case hexadecimal digits; empty without one.
    pub(super) fn build_id(&self) -> String {
        let elf = self.elf();
        let id = elf.as_ref().and_then(|elf| elf.build_id().ok().flatten());
        id.map_or_else(String::new, hexadecimal)
    }

    /// Returns the address of the byte at `offset` in the file; None if it is not loaded.
    pub(super) fn address_of_offset(&self, offset: u64) -> Option<u64> {
        let elf = self.elf()?;
        let segments = elf.segments().filter(|segment| {
            let (start, size) = segment.file_range();
            offset.checked_sub(start).is_some_and(|distance| distance < size)
        });
        // A page at the border of two segments is mapped twice; code is in the executable one.
        let segment = segments.max_by_key(is_executable)?;
        Some(segment.address().wrapping_add(offset - segment.file_range().0))
    }

    /// Returns the file offset of code `distance` bytes in memory after the first byte of the file.
    pub(super) fn offset_of_code(&self, distance: u64) -> Option<u64> {
        let address = self.address_of_offset(0)?.checked_add(distance)?;
        let elf = self.elf()?;
        let mut code = elf.segments().filter(is_executable).filter_map(|segment| {
            let (start, size) = segment.file_range();
            let inside = address.checked_sub(segment.address()).filter(|&inside| inside < size);
            // A segment also maps the rest of its first page.
            let before = segment.address().checked_sub(address).filter(|&before| before <= start % PAGE);
            inside.map(|inside| start + inside).or(before.map(|before| start - before))
        });
        code.next()
    }

    /// Returns the address of the first page of the only executable segment; None if there are
    /// several. For debug files, which lack code, so that offsets are meaningless.
    pub(super) fn only_code_page(&self) -> Option<u64> {
        let elf = self.elf()?;
        let mut segments = elf.segments().filter(is_executable);
        let address = segments.next()?.address();
        segments.next().is_none().then_some(address & !(PAGE - 1))
    }
}

fn is_executable<'data>(segment: &impl object::ObjectSegment<'data>) -> bool {
    matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0)
}

/// Formats a build ID as `readelf -n` does.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[expect(unsafe_code, reason = "the mapping's bytes may change under us, which is stated below")]
pub(super) fn map_file(file: &File) -> std::io::Result<memmap2::Mmap> {
    // SAFETY: another process may change the file, so two reads may differ, as with read(2). The
    // parsers accept any bytes, check each offset against the length, and do not rely on equal
    // reads. If the file is truncated, SIGBUS kills this command; installers use rename(2).
    unsafe { memmap2::Mmap::map(file) }
}
