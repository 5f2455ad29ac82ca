//! Locations to look up, by object.

use super::{opened::ObjectKey, stand_in};
use crate::profile::{LabelValue, LocationId, Mapping, MappingId, Profile, label};
use std::collections::HashMap;

/// Sampled locations without a name or with a stand-in, by source of their names.
pub(super) struct Wanted {
    pub(super) objects: Vec<(ObjectKey, Vec<WantedAddress>)>,
    /// Code without a file, by process ID.
    pub(super) generated: Vec<(u32, Vec<WantedAddress>)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WantedAddress {
    pub(super) location: LocationId,
    pub(super) address: u64,
    /// File offset of its mapping.
    pub(super) file_offset: u64,
    /// Distance from the start of its mapping.
    pub(super) distance: u64,
    pub(super) is_mapped: bool,
    pub(super) has_stand_in: bool,
}

impl Wanted {
    /// Collects the locations of a profile. Stand-ins only if the executed file is certain, because
    /// another file has wrong names. `key` returns the object of a mapping.
    pub(super) fn of(profile: &Profile, key: impl Fn(&Mapping) -> Option<ObjectKey>) -> Self {
        // Only for sampled mappings: the list of objects may be very long.
        let mut keys: HashMap<MappingId, Option<ObjectKey>> = HashMap::new();
        let mut objects: Vec<(ObjectKey, Vec<WantedAddress>)> = Vec::new();
        let mut generated: Vec<(u32, Vec<WantedAddress>)> = Vec::new();
        let (mut object_at, mut generated_at) = (HashMap::new(), HashMap::new());
        let processes = processes(profile);
        let mut is_seen = vec![false; profile.locations.len()];
        for sample in profile.samples.iter() {
            for &id in sample.chain {
                if std::mem::replace(&mut is_seen[id.index()], true) {
                    continue;
                }
                let location = profile.location(id);
                let mapping = profile.mapping_of(location);
                let mut object = || {
                    let (id, mapping) = location.mapping.zip(mapping)?;
                    keys.entry(id).or_insert_with(|| key(mapping)).clone()
                };
                let has_stand_in = match (&location.lines[..], mapping) {
                    ([line], Some(mapping)) => {
                        stand_in::is_one(&profile.function(line.function).name, &mapping.file)
                            && object().is_some_and(|key| key.is_certain())
                    }
                    _ => false,
                };
                let is_wanted =
                    location.lines.is_empty() && !mapping.is_some_and(|known| known.has.functions);
                if location.address == 0 || !is_wanted && !has_stand_in {
                    continue;
                }
                let address = location.address;
                let (file_offset, distance) = match mapping {
                    Some(mapping) if (mapping.start..mapping.end).contains(&address) => {
                        (mapping.file_offset, address - mapping.start)
                    }
                    Some(_) => continue,
                    None => (0, 0),
                };
                let place = WantedAddress {
                    location: id,
                    address,
                    file_offset,
                    distance,
                    is_mapped: mapping.is_some(),
                    has_stand_in,
                };
                if let Some(key) = object() {
                    let at = *object_at.entry(key.clone()).or_insert_with(|| {
                        objects.push((key, Vec::new()));
                        objects.len() - 1
                    });
                    objects[at].1.push(place);
                    continue;
                }
                let of_sample = || {
                    let labels = profile.labels(sample.labels).iter();
                    labels.filter(|known| &*known.key == label::PROCESS_ID).find_map(|label| {
                        match label.value {
                            LabelValue::Number(number, _) => u32::try_from(number).ok(),
                            LabelValue::Text(_) => None,
                        }
                    })
                };
                let process = mapping.and_then(|mapping| mapping.process).or_else(of_sample).or(processes);
                if let Some(process) = process {
                    let at = *generated_at.entry(process).or_insert_with(|| {
                        generated.push((process, Vec::new()));
                        generated.len() - 1
                    });
                    generated[at].1.push(place);
                }
            }
        }
        Self { objects, generated }
    }

    pub(super) fn count(&self) -> usize {
        let objects = self.objects.iter().map(|(_, places)| places.len());
        objects.chain(self.generated.iter().map(|(_, places)| places.len())).sum()
    }
}

/// Returns the process of all mappings, if it is the same.
fn processes(profile: &Profile) -> Option<u32> {
    let mut processes = profile.mappings.iter().filter_map(|mapping| mapping.process);
    let first = processes.next()?;
    processes.all(|process| process == first).then_some(first)
}
