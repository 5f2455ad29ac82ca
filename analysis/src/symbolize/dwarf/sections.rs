//! Sections of debug information, decompressed.

use super::{Dwarf, Slice};
use crate::symbolize::{
    image::Image,
    section::{self, Room},
};
use gimli::{RunTimeEndian, SectionId};
use object::{Object as _, ObjectSection as _};
use std::{borrow::Cow, sync::Arc};

const READ: [SectionId; 15] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugCuIndex,
    SectionId::DebugTuIndex,
    // Not read, but the index of a package is refused without them.
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugTypes,
];
/// The number of these that all files need; the others are for packages.
const ALWAYS: usize = 10;

pub(in crate::symbolize) struct Sections {
    image: Arc<Image>,
    endian: RunTimeEndian,
    is_split: bool,
    /// Sections that were compressed.
    decompressed: Vec<(SectionId, Vec<u8>)>,
    has_common_file: bool,
}

impl Sections {
    /// Reads `image`, a `.dwo` or `.dwp` file if `is_split`; None if `.debug_info` is empty.
    pub(in crate::symbolize) fn read(
        image: Arc<Image>,
        is_split: bool,
        notes: &mut Vec<String>,
    ) -> Option<Self> {
        let elf = image.elf()?;
        let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let mut decompressed = Vec::new();
        let mut room = Room::of(image.bytes().len());
        let mut has_info = false;
        for id in READ.into_iter().take(if is_split { READ.len() } else { ALWAYS }) {
            let Some(name) = (if is_split { id.dwo_name() } else { Some(id.name()) }) else { continue };
            let Some(found) = section::find(&elf, name) else { continue };
            match section::contents(&found, &mut room) {
                Ok(bytes) => {
                    has_info |= id == SectionId::DebugInfo && !bytes.is_empty();
                    if let Cow::Owned(bytes) = bytes {
                        decompressed.push((id, bytes));
                    }
                }
                // Replaced by an empty section, so that it is not read compressed.
                Err(reason) => {
                    notes.push(reason);
                    decompressed.push((id, Vec::new()));
                }
            }
        }
        let has_common_file = elf.section_by_name(".gnu_debugaltlink").is_some();
        drop(elf);
        has_info.then_some(Self { image, endian, is_split, decompressed, has_common_file })
    }

    pub(in crate::symbolize) fn image(&self) -> &Image {
        &self.image
    }

    /// True if it refers to a supplementary file of `dwz`.
    pub(super) fn has_common_file(&self) -> bool {
        self.has_common_file
    }

    /// Returns one section; empty if missing.
    pub(super) fn section(&self, id: SectionId) -> Slice<'_> {
        let decompressed =
            self.decompressed.iter().find(|(known, _)| *known == id).map(|(_, bytes)| bytes.as_slice());
        let raw = || {
            let name = if self.is_split { id.dwo_name()? } else { id.name() };
            if !READ.contains(&id) {
                return None;
            }
            self.image.elf()?.section_by_name(name)?.data().ok()
        };
        Slice::new(decompressed.or_else(raw).unwrap_or_default(), self.endian)
    }

    pub(super) fn dwarf(&self) -> Dwarf<'_> {
        let load = |id| Ok::<_, std::convert::Infallible>(self.section(id));
        let Ok(dwarf) = Dwarf::load(load);
        dwarf
    }
}
