//! Assignment of graph nodes to locations.

use super::{Place, place::clean_path};
use crate::profile::{FunctionId, LocationId, MappingId, Profile};
use foldhash::fast::RandomState;
use std::{collections::HashMap, sync::Arc};

/// The nodes of each location, and their places. Nodes are numbered in the order of locations.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) places: Vec<Place>,
    /// The nodes of all locations, concatenated, innermost first.
    nodes: Vec<u32>,
    /// End of each location's nodes in `nodes`.
    ends: Vec<u32>,
}

/// Identity of a node: numbers of strings, line and address.
#[derive(PartialEq, Eq, Hash)]
struct NodeKey {
    name: u32,
    file: u32,
    object: u32,
    line: i64,
    address: u64,
}

struct TextNumbers {
    texts: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32, RandomState>,
}

impl TextNumbers {
    fn number(&mut self, text: Arc<str>) -> u32 {
        *self.numbers.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            u32::try_from(self.texts.len() - 1).expect("no more texts than functions and mappings")
        })
    }
}

impl Frames {
    pub(crate) fn new(profile: &Profile) -> Self {
        let mut texts = TextNumbers { texts: Vec::new(), numbers: HashMap::default() };
        let none = texts.number("".into());
        let functions: Vec<(u32, u32)> = profile
            .functions
            .iter()
            .map(|function| (texts.number(function.name.clone()), texts.number(clean_path(&function.file))))
            .collect();
        let objects: Vec<u32> = profile
            .mappings
            .iter()
            .map(|mapping| texts.number(mapping.file.to_string_lossy().into()))
            .collect();
        let object_of = |mapping: Option<MappingId>| mapping.map_or(none, |id| objects[id.index()]);

        let mut frames = Self { places: Vec::new(), nodes: Vec::new(), ends: Vec::new() };
        frames.nodes.reserve(profile.locations.len());
        frames.ends.reserve(profile.locations.len());
        let mut known: HashMap<NodeKey, u32, RandomState> = HashMap::default();
        for location in &profile.locations {
            let address = location.address;
            let mut add = |function: Option<FunctionId>, line: i64| {
                let (name, file) = function.map_or((none, none), |id| functions[id.index()]);
                // Otherwise rows of a function in two libraries would look the same.
                let is_nameless = name == none && file == none;
                let object = if is_nameless || address != 0 { object_of(location.mapping) } else { none };
                let key = NodeKey { name, file, object, line, address };
                let node = *known.entry(key).or_insert_with_key(|key| {
                    let text = |number: u32| texts.texts[number as usize].clone();
                    frames.places.push(Place {
                        name: text(key.name),
                        file: text(key.file),
                        line: key.line,
                        address: key.address,
                        object: text(key.object),
                    });
                    u32::try_from(frames.places.len() - 1).expect("fewer than 2^32 lines in a profile")
                });
                frames.nodes.push(node);
            };
            if location.lines.is_empty() {
                add(None, 0);
            }
            for line in &location.lines {
                add(Some(line.function), line.line);
            }
            frames.ends.push(u32::try_from(frames.nodes.len()).expect("fewer than 2^32 lines in a profile"));
        }
        frames
    }

    /// Returns the nodes of a location, innermost first; at least one.
    pub(crate) fn of(&self, location: LocationId) -> &[u32] {
        let place = location.index();
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.nodes[begin as usize..self.ends[place] as usize]
    }
}
