//! The list of mapped objects at the end of a profile: /proc/self/maps, and after it the executable
//! segments of sampled objects that are gone and overlap no mapping.
//!
//! # Safety
//! Declares a structure of integers zeroable.
#![allow(unsafe_code)]

use crate::{
    format::{Device, Mapping, Permissions, SlotWidth},
    sample::sampled_dsos::{SampledDso, SampledSegment},
    sys::{
        errno,
        file::File,
        memory::{MappedBox, Zeroable},
    },
};
use std::{
    borrow::Cow,
    io::{self, Write},
    ops::Range,
};

/// Enough for about 2 600 lines.
const KEPT_BYTES: usize = 256 << 10;

/// The lines of executable mappings at the start, for the spool and if /proc is gone later.
/// Anonymous code may be a copy of a file's: of the lines around it, the first one of the file that
/// is mapped before, and the next one of a file, are kept, too.
#[repr(C)]
pub(crate) struct KeptLines {
    used: usize,
    bytes: [u8; KEPT_BYTES],
}

// SAFETY: integers, for which zeros are valid: no lines.
unsafe impl Zeroable for KeptLines {}

impl KeptLines {
    /// Reads the lines; without /proc they are the parent's, `before`. For `lines` see [`write`].
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(super) fn read(lines: &mut [u8], before: Option<&Self>) -> Result<MappedBox<Self>, i32> {
        let mut kept = MappedBox::<Self>::zeroed()?;
        let mut choice = Choice { kept: &mut kept, first: 0..0, wants_next: false };
        match File::read(c"/proc/self/maps") {
            // The sink returns no errors. Lines that cannot be read are left out.
            Ok(maps) => {
                let _ = copy_lines(&mut io::sink(), lines, reader(maps), |line| choice.see(line));
            }
            Err(_) => before
                .map_or(&[][..], Self::text)
                .split(|&byte| byte == b'\n')
                .for_each(|line| choice.see(line)),
        }
        choice.drop_first();
        Ok(kept)
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    fn keep(&mut self, line: &[u8]) {
        if let Some([place @ .., newline]) = self.bytes.get_mut(self.used..=self.used + line.len()) {
            place.copy_from_slice(line);
            *newline = b'\n';
            self.used += line.len() + 1;
        }
    }
}

/// Chooses the lines to keep, in the order of addresses.
struct Choice<'k> {
    kept: &'k mut KeptLines,
    /// A file's first line, kept only if anonymous code follows.
    first: Range<usize>,
    wants_next: bool,
}

impl Choice<'_> {
    fn see(&mut self, line: &[u8]) {
        let Some(mapping) = Mapping::parse_line(line) else { return };
        let is_file = mapping.path.starts_with(b"/") && !mapping.is_anonymous();
        let is_first = is_file && mapping.offset == 0;
        let stays = mapping.is_executable() || is_file && self.wants_next;
        if is_first {
            self.drop_first();
        }
        if stays || is_first {
            let before = self.kept.used;
            self.kept.keep(line);
            if !stays {
                self.first = before..self.kept.used;
            }
        }
        if !mapping.is_anonymous() {
            self.wants_next = false;
        } else if mapping.is_executable() {
            self.wants_next = true;
            self.first = 0..0;
        }
    }

    fn drop_first(&mut self) {
        let first = std::mem::replace(&mut self.first, 0..0);
        for (from, to) in (first.end..self.kept.used).zip(first.start..) {
            let byte = self.kept.bytes.get(from).copied().unwrap_or_default();
            if let Some(place) = self.kept.bytes.get_mut(to) {
                *place = byte;
            }
        }
        self.kept.used -= first.len();
    }
}

/// Maximum number of sampled segments that are checked for overlap.
const SEGMENTS: usize = 1024;

/// Writes the list. `lines` must hold the longest line, about `PATH_MAX` bytes; longer ones are
/// copied unparsed. If /proc/self/maps cannot be opened (`chroot`), writes `kept`. The result has
/// the error number of reading, or of opening if `kept` is empty (except ENOENT).
///
/// # Errors
/// Those of the sink.
pub(crate) fn write(
    out: &mut impl Write,
    lines: &mut [u8],
    dsos: &[SampledDso],
    kept: &[u8],
) -> io::Result<Result<(), i32>> {
    let mut covered = Covered::new();
    let mut look = |line: &[u8]| {
        if let Some(mapping) = Mapping::parse_line(line) {
            covered.mark(dsos, mapping.start, mapping.end);
        }
    };
    let listed = match File::read(c"/proc/self/maps") {
        Ok(maps) => copy_lines(out, lines, reader(maps), look)?,
        Err(errno) if kept.is_empty() && errno != errno::ENOENT => Err(errno),
        Err(_) => {
            out.write_all(kept)?;
            kept.split(|&byte| byte == b'\n').for_each(&mut look);
            Ok(())
        }
    };
    for (i, (object, segment)) in segments_of(dsos).enumerate() {
        if covered.is_marked(i) {
            continue;
        }
        // Of several objects at the same addresses, the last sampled one is listed.
        covered.mark(dsos, segment.start as u64, segment.end as u64);
        gone_line(object, segment).write_line(out, SlotWidth::NATIVE)?;
    }
    Ok(listed)
}

/// Reads `maps`, or the calling thread's: the former is empty after `pthread_exit` in `main`.
fn reader(mut maps: File) -> impl FnMut(&mut [u8]) -> Result<usize, i32> {
    let mut is_first = true;
    move |buffer| {
        let got = maps.read_some(buffer)?;
        let is_empty = std::mem::take(&mut is_first) && got == 0;
        if !is_empty {
            return Ok(got);
        }
        maps = File::read(c"/proc/thread-self/maps")?;
        maps.read_some(buffer)
    }
}

/// Copies from `read` to `out` and calls `look` with each line. An error of `read` ends the text.
fn copy_lines(
    out: &mut impl Write,
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8]) -> Result<usize, i32>,
    mut look: impl FnMut(&[u8]),
) -> io::Result<Result<(), i32>> {
    let mut filled = 0;
    let mut result = Ok(());
    loop {
        let room = buffer.get_mut(filled..).unwrap_or_default();
        // The records before the list are kept despite the error.
        let got = read(room).unwrap_or_else(|errno| {
            result = Err(errno);
            0
        });
        filled += got;
        let text = buffer.get(..filled).unwrap_or_default();
        let whole = match text.iter().rposition(|&byte| byte == b'\n') {
            Some(newline) => newline + 1,
            // A line longer than the buffer is copied in parts.
            None if got == 0 || filled == buffer.len() => filled,
            None => 0,
        };
        let text = text.get(..whole).unwrap_or_default();
        text.split(|&byte| byte == b'\n').for_each(&mut look);
        out.write_all(text)?;
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
        if got == 0 && filled == 0 {
            return Ok(result);
        }
    }
}

fn segments_of(dsos: &[SampledDso]) -> impl Iterator<Item = (&SampledDso, SampledSegment)> {
    dsos.iter().rev().flat_map(|object| object.segments().iter().map(move |segment| (object, *segment)))
}

fn gone_line<'m>(object: &'m SampledDso, segment: SampledSegment) -> Mapping<'m> {
    Mapping {
        start: segment.start as u64,
        end: segment.end as u64,
        permissions: Permissions { read: true, write: false, execute: true, shared: false },
        offset: segment.offset as u64,
        device: Device { major: 0, minor: 0 },
        inode: 0,
        path: Cow::Borrowed(object.name()),
        build_id: Cow::Borrowed(&[]),
    }
}

/// Which segments of sampled objects overlap a listed mapping.
struct Covered {
    marks: [bool; SEGMENTS],
}

impl Covered {
    fn new() -> Self {
        Self { marks: [false; SEGMENTS] }
    }

    fn mark(&mut self, dsos: &[SampledDso], start: u64, end: u64) {
        for (mark, (_, segment)) in self.marks.iter_mut().zip(segments_of(dsos)) {
            *mark |= start < segment.end as u64 && (segment.start as u64) < end;
        }
    }

    /// Segments after the array's end count as marked.
    fn is_marked(&self, i: usize) -> bool {
        self.marks.get(i).copied().unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_complete_lines_however_the_text_is_split() {
        let text = b"first line\nsecond\n\na much longer third line\nlast";
        for step in 1..text.len() {
            let mut left = &text[..];
            let (mut out, mut seen, mut buffer) = (Vec::new(), Vec::new(), [0u8; 30]);
            let read = |buffer: &mut [u8]| {
                let got = step.min(left.len()).min(buffer.len());
                buffer[..got].copy_from_slice(&left[..got]);
                left = &left[got..];
                Ok(got)
            };
            let copied = copy_lines(&mut out, &mut buffer, read, |line| {
                if !line.is_empty() {
                    seen.push(line.to_vec());
                }
            });
            assert_eq!(copied.unwrap(), Ok(()));
            assert_eq!(out, text);
            assert!(seen.iter().any(|line| line == b"second"), "{step}");
        }
    }

    #[test]
    fn lines_of_code_are_kept_from_the_start() {
        let mut lines = vec![0; 16 << 10];
        let kept = KeptLines::read(&mut lines, None).unwrap();
        let here = lines_of_code_are_kept_from_the_start as *const () as usize as u64;
        let mappings = || kept.text().split(|&byte| byte == b'\n').filter_map(Mapping::parse_line);
        assert!(mappings().any(|mapping| mapping.contains(here)));
        assert!(kept.text().ends_with(b"\n"));
        let is_moved = |mapping: Mapping<'_>| mapping.is_executable() && mapping.is_anonymous();
        assert!(mappings().any(is_moved) || mappings().all(|mapping| mapping.is_executable()));
    }

    fn chosen(lines: &[&str]) -> Vec<usize> {
        let mut kept = MappedBox::<KeptLines>::zeroed().unwrap();
        let mut choice = Choice { kept: &mut kept, first: 0..0, wants_next: false };
        lines.iter().for_each(|line| choice.see(line.as_bytes()));
        choice.drop_first();
        let place = |line: &[u8]| lines.iter().position(|one| one.as_bytes() == line).unwrap();
        kept.text().split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(place).collect()
    }

    #[test]
    fn keeps_the_lines_of_files_around_anonymous_code() {
        let (head, code, data) = (
            "10000-11000 r--p 00000000 08:01 7 /bin/x",
            "11000-12000 r-xp 00001000 08:01 7 /bin/x",
            "14000-15000 rw-p 00003000 08:01 7 /bin/x",
        );
        let spilled = "12000-14000 r-xp 00000000 00:00 0 /anon_hugepage (deleted)";
        let heap = "20000-21000 rw-p 00000000 00:00 0 [heap]";
        let other = "30000-31000 r--p 00000000 08:01 8 /lib/y";
        let other_code = "31000-32000 r-xp 00001000 08:01 8 /lib/y";
        assert_eq!(chosen(&[head, code, data, heap, other, other_code, "no line"]), [1, 5]);
        assert_eq!(chosen(&[head, code, spilled, data, heap, other, other_code]), [0, 1, 2, 3, 6]);
        assert_eq!(chosen(&[head, spilled, data, heap, other, other_code]), [0, 1, 2, 5]);
        // Consecutive anonymous mappings count as one. Names that the kernel makes are not files.
        let memory = "13000-13800 rw-p 00000000 00:00 0";
        assert_eq!(chosen(&[head, &spilled.replace("14000", "13000"), memory, data]), [0, 1, 3]);
        assert_eq!(chosen(&[spilled, heap, other, other_code]), [0, 3]);
        assert_eq!(chosen(&[head, spilled, other, other_code, head]), [0, 1, 2, 3]);
    }

    #[test]
    fn the_list_is_what_the_kernel_says() {
        let mut out = Vec::new();
        write(&mut out, &mut vec![0; 16 << 10], &[], &[]).unwrap().unwrap();
        let here = the_list_is_what_the_kernel_says as *const () as usize as u64;
        let found =
            out.split(|&byte| byte == b'\n').filter_map(Mapping::parse_line).find(|m| m.contains(here));
        assert!(found.unwrap().is_executable());
    }
}
