//! Frames for formats without addresses: unnamed code is named by its object and offset.

use crate::profile::{Location, LocationId, MappingId, Profile};
use foldhash::fast::RandomState;
use std::{collections::HashMap, ops::Range, sync::Arc};

/// All frames, and those of each location.
#[derive(Debug)]
pub(super) struct LocationFrames {
    pub(super) frames: Vec<Frame>,
    /// The frame and line of each function at each location, innermost first.
    places: Vec<FrameLine>,
    /// Range of `places` of each location.
    of_location: Vec<Range<usize>>,
}

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) name: Arc<str>,
    /// The source file; empty if unknown.
    pub(super) file: Arc<str>,
    /// The object of its first location.
    pub(super) object: Option<MappingId>,
    /// The function's first line; 0 if unknown.
    pub(super) start_line: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FrameLine {
    /// Index in [`LocationFrames::frames`].
    pub(super) frame: usize,
    /// The line; 0 if unknown.
    pub(super) line: i64,
}

impl LocationFrames {
    pub(super) fn of(profile: &Profile) -> Self {
        let mut frames: Vec<Frame> = Vec::new();
        let mut known: HashMap<(Arc<str>, Arc<str>), usize, RandomState> = HashMap::default();
        let mut number = |frame: Frame| {
            *known.entry((frame.name.clone(), frame.file.clone())).or_insert_with(|| {
                frames.push(frame);
                frames.len() - 1
            })
        };
        let (mut places, mut of_location) = (Vec::new(), Vec::new());
        for location in &profile.locations {
            let begin = places.len();
            let object = location.mapping;
            for line in &location.lines {
                let function = profile.function(line.function);
                let (name, file) = (function.name.clone(), function.file.clone());
                let frame = number(Frame { name, file, object, start_line: function.start_line });
                places.push(FrameLine { frame, line: line.line });
            }
            if location.lines.is_empty() {
                let name = place_name(profile, location).into();
                let frame = number(Frame { name, file: "".into(), object, start_line: 0 });
                places.push(FrameLine { frame, line: 0 });
            }
            of_location.push(begin..places.len());
        }
        Self { frames, places, of_location }
    }

    /// Returns the frames of a call stack, innermost first.
    pub(super) fn chain<'a>(
        &'a self,
        chain: &'a [LocationId],
    ) -> impl DoubleEndedIterator<Item = FrameLine> + 'a {
        chain.iter().flat_map(|id| self.places[self.of_location[id.index()].clone()].iter().copied())
    }
}

/// Names unnamed code: `libc.so.6+0x1234`, with the file offset, or its address.
fn place_name(profile: &Profile, location: &Location) -> String {
    let object = profile.mapping_of(location).filter(|mapping| !mapping.file.as_os_str().is_empty());
    let Some(mapping) = object else { return format!("{:#x}", location.address) };
    let name = mapping.file.file_name().unwrap_or(mapping.file.as_os_str()).to_string_lossy();
    let offset = location.address.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
    format!("{name}+{offset:#x}")
}
