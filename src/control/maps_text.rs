//! The list of mapped objects at the end of a profile.
//!
//! It is /proc/self/maps as the kernel writes it, followed by the executable segments of objects that were met
//! while profiling and are gone, where they overlap nothing that is mapped now.

use crate::{
    format::{Device, Mapping, Permissions, SlotWidth},
    sample::met_objects::{MetObject, MetSegment},
    sys::file::File,
};
use std::{
    borrow::Cow,
    io::{self, Write},
};

/// Segments of met objects that can be told to overlap.
const SEGMENTS: usize = 1024;

/// Writes the list. `lines` must hold the longest line, about `PATH_MAX` bytes; what is longer is cut.
///
/// # Errors
/// Those of the sink. Without /proc the list holds met objects only, and where reading it fails, what came before.
pub(crate) fn write(out: &mut impl Write, lines: &mut [u8], met: &[MetObject]) -> io::Result<()> {
    let mut covered = Covered::new();
    if let Ok(maps) = File::read(c"/proc/self/maps") {
        copy_lines(out, lines, reader(maps), |line| {
            if let Some(mapping) = Mapping::parse_line(line) {
                covered.mark(met, mapping.start, mapping.end);
            }
        })?;
    }
    for (i, (object, segment)) in segments_of(met).enumerate() {
        if covered.is_marked(i) {
            continue;
        }
        // Several objects may have had the same addresses, one after another: the last one met is listed.
        covered.mark(met, segment.start as u64, segment.end as u64);
        gone_line(object, segment).write_line(out, SlotWidth::NATIVE)?;
    }
    Ok(())
}

/// Gathers the lines of executable mappings in `buffer`, and gives them to `keep` whenever it is full, and at the end.
///
/// # Errors
/// The error number of `open(2)` for /proc/self/maps; those of `keep`.
pub(super) fn for_executable_lines(
    buffer: &mut [u8],
    lines: &mut [u8],
    mut keep: impl FnMut(&[u8]) -> Result<(), i32>,
) -> Result<(), i32> {
    let maps = File::read(c"/proc/self/maps")?;
    let (mut used, mut result) = (0, Ok(()));
    let look = |line: &[u8]| {
        if !Mapping::parse_line(line).is_some_and(|mapping| mapping.is_executable()) {
            return;
        }
        if used + line.len() >= buffer.len() {
            let full = buffer.get(..used).unwrap_or_default();
            result = result.and_then(|()| keep(full));
            used = 0;
        }
        if let Some([place @ .., newline]) = buffer.get_mut(used..=used + line.len()) {
            place.copy_from_slice(line);
            *newline = b'\n';
            used += line.len() + 1;
        }
    };
    // A sink has no errors, and what /proc/self/maps cannot give is not there.
    let _ = copy_lines(&mut io::sink(), lines, reader(maps), look);
    result?;
    keep(buffer.get(..used).unwrap_or_default())
}

/// Reads `maps`. The kernel shows an empty list where the process's first thread has ended (`pthread_exit` in `main`); the
/// calling thread's own is then read.
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

/// Copies what `read` gives to `out`, and shows each whole line to `look`.
fn copy_lines(
    out: &mut impl Write,
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8]) -> Result<usize, i32>,
    mut look: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut filled = 0;
    loop {
        let room = buffer.get_mut(filled..).unwrap_or_default();
        // The records are worth more than the list: they are not given up for it.
        let got = read(room).unwrap_or(0);
        filled += got;
        let text = buffer.get(..filled).unwrap_or_default();
        let whole = match text.iter().rposition(|&byte| byte == b'\n') {
            Some(newline) => newline + 1,
            // A line longer than the buffer is passed on in pieces.
            None if got == 0 || filled == buffer.len() => filled,
            None => 0,
        };
        let text = text.get(..whole).unwrap_or_default();
        text.split(|&byte| byte == b'\n').for_each(&mut look);
        out.write_all(text)?;
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
        if got == 0 && filled == 0 {
            return Ok(());
        }
    }
}

fn segments_of(met: &[MetObject]) -> impl Iterator<Item = (&MetObject, MetSegment)> {
    met.iter().rev().flat_map(|object| object.segments().iter().map(move |segment| (object, *segment)))
}

fn gone_line<'m>(object: &'m MetObject, segment: MetSegment) -> Mapping<'m> {
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

/// Which met segments overlap something that is listed.
struct Covered {
    marks: [bool; SEGMENTS],
}

impl Covered {
    fn new() -> Self {
        Self { marks: [false; SEGMENTS] }
    }

    fn mark(&mut self, met: &[MetObject], start: u64, end: u64) {
        for (mark, (_, segment)) in self.marks.iter_mut().zip(segments_of(met)) {
            *mark |= start < segment.end as u64 && (segment.start as u64) < end;
        }
    }

    /// Segments beyond the array count as covered.
    fn is_marked(&self, i: usize) -> bool {
        self.marks.get(i).copied().unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_copied_whole_however_they_arrive() {
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
            copy_lines(&mut out, &mut buffer, read, |line| {
                if !line.is_empty() {
                    seen.push(line.to_vec());
                }
            })
            .unwrap();
            assert_eq!(out, text);
            assert!(seen.iter().any(|line| line == b"second"), "{step}");
        }
    }

    #[test]
    fn the_list_is_what_the_kernel_says() {
        let mut out = Vec::new();
        write(&mut out, &mut vec![0; 16 << 10], &[]).unwrap();
        let here = the_list_is_what_the_kernel_says as *const () as usize as u64;
        let found =
            out.split(|&byte| byte == b'\n').filter_map(Mapping::parse_line).find(|m| m.contains(here));
        assert!(found.unwrap().is_executable());
    }
}
