//! Several profiles as one: of the processes of one run, or of many runs.
//!
//! Addresses are those of a process, and loaders put the same file at different ones. So a location is the same in two
//! profiles when it lies at the same distance from the start of the same mapping:
//!
//! | mapping | is the same as another when |
//! | --- | --- |
//! | with a build id | that, its size in pages and its file offset are the same |
//! | of a file | the path, whether it was deleted, size and offset are the same |
//! | without a file: a JIT's code, `[heap]`, a memory file | it is of the same process and at the same place |
//!
//! What lies in the last kind in two processes has nothing in common, unless it has names already: then the names and the
//! addresses tell what is equal.

use super::{
    Builder, FunctionId, LabelSetId, Line, Location, LocationId, Mapping, MappingId, Profile, ValueType,
};
use crate::error::{Error, ErrorKind};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::{
    collections::HashMap,
    hash::BuildHasher as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Merges all profiles, each of which comes with the name of its file; None where there are none. One alone stays as it is.
///
/// Values of equal samples are added up; the result begins with the earliest of them and lasts as long as all together.
///
/// # Errors
/// Where two have different sample types, or different periods: of the kind [`ErrorKind::Mismatch`], with both names. An error
/// of the iterator is given back.
///
/// # Panics
/// For a profile whose numbers do not fit together ([`Profile::check`]).
pub fn merge(
    profiles: impl IntoIterator<Item = Result<(PathBuf, Profile), Error>>,
) -> Result<Option<Profile>, Error> {
    let mut profiles = profiles.into_iter();
    let Some((first_name, first)) = profiles.next().transpose()? else { return Ok(None) };
    let Some(second) = profiles.next() else { return Ok(Some(first)) };
    let mut merger = Merger::new(first_name, first);
    for profile in std::iter::once(second).chain(profiles) {
        let (name, profile) = profile?;
        merger.add(&name, &profile)?;
    }
    Ok(Some(merger.finish()))
}

/// Gathers profiles that go together.
#[derive(Debug)]
pub(super) struct Merger {
    builder: Builder,
    /// Of the first profile, for errors.
    name: PathBuf,
    /// How many profiles were added.
    sources: usize,
    mappings: HashMap<MappingKey, MappingId, RandomState>,
    /// The places of the locations in the profile.
    locations: HashTable<u32>,
    hashes: RandomState,
    /// Samples that are left from the last time that equal ones were added up.
    compact: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum MappingKey {
    /// The same code wherever it is mapped.
    Code { identity: Identity, pages: u64, offset: u64 },
    /// The same names at the same addresses.
    Named { start: u64, end: u64, file: PathBuf },
    /// Of one process.
    Private { owner: Owner, start: u64, end: u64, file: PathBuf },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    BuildId(Arc<str>),
    File(PathBuf, bool),
}

/// Whose a mapping without a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Process(u32),
    /// The profile of this number, where the process is not known.
    Source(usize),
}

impl Merger {
    pub(super) fn new(name: PathBuf, first: Profile) -> Self {
        let mut builder = Builder::new(first.sample_types.clone());
        let profile = &mut builder.profile;
        profile.default_type = first.default_type;
        profile.period_type.clone_from(&first.period_type);
        profile.drop_frames = first.drop_frames.clone();
        profile.keep_frames = first.keep_frames.clone();
        let mut merger = Self {
            builder,
            name,
            sources: 0,
            mappings: HashMap::default(),
            locations: HashTable::new(),
            hashes: RandomState::default(),
            compact: 0,
        };
        merger.take(&first);
        merger
    }

    /// Adds a profile, unless it does not go with the first.
    pub(super) fn add(&mut self, name: &Path, profile: &Profile) -> Result<(), Error> {
        self.check(profile).map_err(|error| error.at(name))?;
        self.take(profile);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Profile {
        let profile = &mut self.builder.profile;
        profile.is_clamped |= profile.samples.add_up_equal();
        profile.samples.drop_zeros();
        self.builder.finish()
    }

    fn check(&self, profile: &Profile) -> Result<(), Error> {
        let ours = &self.builder.profile;
        let fails = |what: &str, theirs: String, ours: String| {
            let reason = format!("{what} {theirs}, but {} has {ours}", self.name.display());
            Err(Error::new(ErrorKind::Mismatch, reason)
                .advise("profiles of different kinds or periods cannot be merged or subtracted; record both with the same --frequency and --clock"))
        };
        if profile.sample_types != ours.sample_types {
            return fails("the sample types are", types(&profile.sample_types), types(&ours.sample_types));
        }
        if let (Some(theirs), Some(ours)) = (&profile.period_type, &ours.period_type) {
            if theirs != ours {
                return fails("the period counts", type_name(theirs), type_name(ours));
            }
        }
        if profile.period != ours.period && profile.period != 0 && ours.period != 0 {
            let unit = ours.period_type.as_ref().map_or("", |period_type| &period_type.unit);
            let text = |period: i64| format!("{period} {unit}").trim_end().to_owned();
            return fails("the period is", text(profile.period), text(ours.period));
        }
        Ok(())
    }

    fn take(&mut self, from: &Profile) {
        self.take_head(from);
        for mapping in &from.mappings {
            // In their order, whether they are used or not: the first is the program.
            if has_file(mapping) {
                self.mapping(mapping, false);
            }
        }
        let functions: Vec<FunctionId> =
            from.functions.iter().map(|function| self.builder.function(function.clone())).collect();
        let mut is_used = vec![false; from.locations.len()];
        for sample in from.samples.iter() {
            sample.chain.iter().for_each(|id| is_used[id.index()] = true);
        }
        let locations: Vec<LocationId> = from
            .locations
            .iter()
            .zip(is_used)
            .map(
                |(location, is_used)| {
                    if is_used { self.location(from, location, &functions) } else { LocationId(0) }
                },
            )
            .collect();
        let label_sets: Vec<LabelSetId> =
            from.label_sets.iter().map(|labels| self.builder.label_set(labels.clone())).collect();
        let samples = &mut self.builder.profile.samples;
        samples.reserve(from.samples.len(), from.samples.frames());
        let mut chain = Vec::new();
        for sample in from.samples.iter() {
            chain.clear();
            chain.extend(sample.chain.iter().map(|id| locations[id.index()]));
            samples.push(&chain, sample.values, label_sets[sample.labels.index()]);
        }
        // As often as they double: the room for many alike profiles is that for two, and the work stays linear.
        if samples.len() > 2 * self.compact {
            let is_clamped = samples.add_up_equal();
            self.compact = samples.len();
            self.builder.profile.is_clamped |= is_clamped;
        }
        self.sources += 1;
    }

    fn take_head(&mut self, from: &Profile) {
        let profile = &mut self.builder.profile;
        if profile.period_type.is_none() {
            profile.period_type.clone_from(&from.period_type);
        }
        if profile.period == 0 {
            profile.period = from.period;
        }
        if profile.time_nanos == 0 || (1..profile.time_nanos).contains(&from.time_nanos) {
            profile.time_nanos = from.time_nanos;
        }
        profile.is_clamped |=
            from.is_clamped || profile.duration_nanos.checked_add(from.duration_nanos).is_none();
        profile.duration_nanos = profile.duration_nanos.saturating_add(from.duration_nanos);
        if profile.doc_url.is_empty() {
            profile.doc_url = from.doc_url.clone();
        }
        for comment in &from.comments {
            if !profile.comments.contains(comment) {
                profile.comments.push(comment.clone());
            }
        }
    }

    /// The mapping that one of the profile that is being added becomes; `is_named` says whether a location of it has a name.
    fn mapping(&mut self, mapping: &Mapping, is_named: bool) -> MappingId {
        let (start, end) = (mapping.start, mapping.end);
        let file = || mapping.file.clone();
        let key = if has_file(mapping) {
            // Some systems give the size in bytes.
            let pages = end.wrapping_sub(start).div_ceil(4096);
            let identity = match &mapping.build_id {
                id if id.is_empty() => Identity::File(file(), mapping.is_deleted),
                id => Identity::BuildId(id.clone()),
            };
            MappingKey::Code { identity, pages, offset: mapping.file_offset }
        } else if is_named {
            MappingKey::Named { start, end, file: file() }
        } else {
            let owner = mapping.process.map_or(Owner::Source(self.sources), Owner::Process);
            MappingKey::Private { owner, start, end, file: file() }
        };
        let mappings = &mut self.builder.profile.mappings;
        let id = *self.mappings.entry(key).or_insert_with(|| {
            mappings.push(mapping.clone());
            MappingId::at(mappings.len() - 1)
        });
        let ours = &mut mappings[id.index()];
        ours.process = ours.process.filter(|_| ours.process == mapping.process);
        let (known, also) = (&mut ours.has, mapping.has);
        known.functions &= also.functions;
        known.files &= also.files;
        known.lines &= also.lines;
        known.inlines &= also.inlines;
        id
    }

    fn location(&mut self, from: &Profile, location: &Location, functions: &[FunctionId]) -> LocationId {
        let of = from.mapping_of(location);
        let mapping = of.map(|mapping| self.mapping(mapping, !location.lines.is_empty()));
        let mut address = location.address;
        if let (Some(theirs), Some(ours)) = (of, mapping) {
            // An address of 0 is none.
            if address != 0 {
                let start = self.builder.profile.mappings[ours.index()].start;
                address = address.wrapping_sub(theirs.start).wrapping_add(start);
            }
        }
        let line = |line: &Line| Line { function: functions[line.function.index()], ..*line };
        let lines = location.lines.iter().map(line).collect();
        let location = Location { mapping, address, lines, is_folded: location.is_folded };
        let locations = &mut self.builder.profile.locations;
        let hash = self.hashes.hash_one(&location);
        if let Some(&place) = self.locations.find(hash, |&place| locations[place as usize] == location) {
            return LocationId(place);
        }
        let id = LocationId::at(locations.len());
        locations.push(location);
        self.locations.insert_unique(hash, id.0, |&place| self.hashes.hash_one(&locations[place as usize]));
        id
    }
}

/// Whether a mapping is of a file, or of code that all processes have: its bytes are the same in each of them.
fn has_file(mapping: &Mapping) -> bool {
    let name = mapping.file.as_os_str().as_bytes();
    let is_memory = || {
        let names = ["//anon", "/anon_hugepage", "/dev/zero", "/memfd:", "/SYSV"];
        names.iter().any(|begin| name.starts_with(begin.as_bytes()))
    };
    match name {
        b"[vdso]" | b"[vsyscall]" => true,
        [] => !mapping.build_id.is_empty(),
        [first, ..] => !mapping.build_id.is_empty() || *first != b'[' && !is_memory(),
    }
}

fn types(types: &[ValueType]) -> String {
    types.iter().map(type_name).collect::<Vec<_>>().join(", ")
}

fn type_name(value_type: &ValueType) -> String {
    format!("{}/{}", value_type.kind, value_type.unit)
}

#[cfg(test)]
mod tests;
