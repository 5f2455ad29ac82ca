//! Database files that are written from the beginning to the end.

use super::super::layout::{FIRST_SECTION, FileKind, MAGIC, MAJOR_VERSION, Record, Section};
use std::{
    fs::File,
    io::{self, BufWriter, Seek as _, SeekFrom, Write as _},
    path::Path,
};

pub(super) fn append<R: Record>(bytes: &mut Vec<u8>, record: &R) {
    let at = bytes.len();
    bytes.resize(at + R::SIZE, 0);
    record.encode(&mut bytes[at..]);
}

/// A database file that is written from the beginning to the end; only its header comes last.
pub(super) struct Output {
    kind: FileKind,
    file: BufWriter<File>,
    pub(super) position: u64,
    sections: Vec<Section>,
}

impl Output {
    pub(super) fn create(directory: &Path, kind: FileKind) -> io::Result<Self> {
        let file = BufWriter::with_capacity(256 << 10, File::create(directory.join(kind.name))?);
        let mut output =
            Self { kind, file, position: 0, sections: vec![Section::default(); kind.sections.len()] };
        output.skip((FIRST_SECTION + kind.sections.len() * Section::SIZE) as u64)?;
        Ok(output)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.position += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Writes a record, with zeros in its gaps.
    pub(super) fn record<R: Record>(&mut self, record: &R) -> io::Result<()> {
        let mut bytes = [0; 64];
        record.encode(&mut bytes);
        self.bytes(&bytes[..R::SIZE])
    }

    pub(super) fn skip(&mut self, count: u64) -> io::Result<()> {
        self.position += count;
        io::copy(&mut io::Read::take(io::repeat(0), count), &mut self.file).map(drop)
    }

    pub(super) fn align(&mut self, alignment: usize) -> io::Result<()> {
        self.skip(self.position.next_multiple_of(alignment as u64) - self.position)
    }

    /// Ends a section that began at `start`.
    pub(super) fn section(&mut self, name: &str, start: u64) -> io::Result<()> {
        let place = self.kind.sections.iter().position(|section| *section == name);
        let section = Section { size: self.position - start, start };
        self.sections[place.expect("the file has this section")] = section;
        self.align(8)
    }

    pub(super) fn overwrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)?;
        self.file.seek(SeekFrom::End(0)).map(drop)
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.bytes(self.kind.footer)?;
        self.overwrite(0, &header(self.kind, &self.sections))?;
        self.file.flush()
    }
}

/// Returns the header of a file.
pub(super) fn header(kind: FileKind, sections: &[Section]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(kind.format);
    bytes.extend([MAJOR_VERSION, 0]);
    for section in sections {
        append(&mut bytes, section);
    }
    bytes
}
