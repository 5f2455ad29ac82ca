//! The mapped objects of a spool: the lines of the start, and objects that were sampled later.

use super::{
    Head, OBJECT_BYTES, OBJECT_NAME_BYTES, OBJECT_SEGMENTS, OBJECTS, SpoolSource, TEXT, number_at, read,
};
use crate::format::{Mapping, Permissions, maps::Device};
use std::{borrow::Cow, cmp::Reverse, io};

impl Head {
    /// Reads the mapped objects: those sampled later, and the parts of the first lines beside them.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn mappings(&self, source: &impl SpoolSource) -> io::Result<Vec<Mapping<'static>>> {
        let text_bytes = self.text_bytes.saturating_sub(self.text_from);
        let text = read(source, TEXT as u64 + self.text_from, text_bytes)?;
        let objects = read(source, OBJECTS as u64, self.objects * OBJECT_BYTES as u64)?;
        let mut objects: Vec<&[u8]> = objects.chunks_exact(OBJECT_BYTES).collect();
        objects.sort_by_key(|object| Reverse(number_at(object, 0)));
        let mut sampled: Vec<Mapping<'static>> = Vec::new();
        // Several objects may have had the same addresses; the last one is listed.
        for segment in objects.into_iter().flat_map(segments) {
            if !sampled.iter().any(|known| overlap(known, &segment)) {
                sampled.push(segment);
            }
        }
        let lines = text.split(|&byte| byte == b'\n').filter_map(Mapping::parse_line);
        let mut mappings = Vec::new();
        let mut end = 0;
        for line in lines {
            // The kernel's lines are in order. Others are dropped: to split them may be costly.
            if line.start >= end {
                end = line.end;
                mappings.extend(without(owned(line), &sampled));
            }
        }
        mappings.extend(sampled);
        Ok(mappings)
    }
}

fn overlap(a: &Mapping<'_>, b: &Mapping<'_>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Returns the parts of `mapping` outside of `others`.
fn without(mapping: Mapping<'static>, others: &[Mapping<'_>]) -> Vec<Mapping<'static>> {
    let mut left = vec![mapping];
    for other in others {
        left = left.into_iter().flat_map(|piece| cut(piece, other)).collect();
    }
    left
}

fn cut(piece: Mapping<'static>, other: &Mapping<'_>) -> Vec<Mapping<'static>> {
    if !overlap(&piece, other) {
        return vec![piece];
    }
    let offset_after = piece.offset.wrapping_add(other.end.wrapping_sub(piece.start));
    let before = Mapping { end: other.start, ..piece.clone() };
    let after = Mapping { start: other.end, offset: offset_after, ..piece };
    [before, after].into_iter().filter(|part| part.start < part.end).collect()
}

fn segments(object: &[u8]) -> Vec<Mapping<'static>> {
    let number = |i: usize| number_at(object, 8 * i).unwrap_or(0);
    let name_at = 8 * (3 + 3 * OBJECT_SEGMENTS);
    let name_bytes = usize::try_from(number(1)).unwrap_or(usize::MAX).min(OBJECT_NAME_BYTES);
    let name = object.get(name_at..name_at + name_bytes).unwrap_or_default();
    let is_usable = number(0) != 0 && !name.is_empty() && !name.contains(&b'\n');
    let count = if is_usable { number(2).min(OBJECT_SEGMENTS as u64) as usize } else { 0 };
    let segment = |i: usize| Mapping {
        start: number(3 + 3 * i),
        end: number(4 + 3 * i),
        permissions: Permissions { read: true, write: false, execute: true, shared: false },
        offset: number(5 + 3 * i),
        device: Device { major: 0, minor: 0 },
        inode: 0,
        path: Cow::Owned(name.to_vec()),
        build_id: Cow::Borrowed(&[]),
    };
    (0..count).map(segment).filter(|segment| segment.start < segment.end).collect()
}

fn owned(mapping: Mapping<'_>) -> Mapping<'static> {
    Mapping {
        path: Cow::Owned(mapping.path.into_owned()),
        build_id: Cow::Owned(mapping.build_id.into_owned()),
        ..mapping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_file_offsets_of_mappings_cut_by_later_objects() {
        let mapping = |start, end, offset| Mapping {
            start,
            end,
            permissions: Permissions { read: true, write: false, execute: true, shared: false },
            offset,
            device: Device { major: 0, minor: 0 },
            inode: 0,
            path: Cow::Borrowed(b"/lib"),
            build_id: Cow::Borrowed(&[]),
        };
        let cut_by = |others: &[(u64, u64)]| -> Vec<_> {
            let others: Vec<_> = others.iter().map(|&(start, end)| mapping(start, end, 7)).collect();
            let left = without(mapping(0x1000, 0x5000, 0x200), &others);
            left.iter().map(|m| (m.start, m.end, m.offset)).collect()
        };
        assert_eq!(cut_by(&[]), [(0x1000, 0x5000, 0x200)]);
        assert_eq!(cut_by(&[(0x2000, 0x3000)]), [(0x1000, 0x2000, 0x200), (0x3000, 0x5000, 0x2200)]);
        assert_eq!(cut_by(&[(0, 0x2000), (0x4000, 0x9000)]), [(0x2000, 0x4000, 0x1200)]);
        assert_eq!(cut_by(&[(0, 0x9000)]), []);
    }
}
