//! Merging of profiles, of the processes of one run or of many runs.
//!
//! Loaders map the same file at different addresses. So a location is the same in two profiles if
//! it has the same distance from the start of the same mapping:
//!
//! | mapping | is the same as another if |
//! | --- | --- |
//! | with a build ID | build ID, size in pages and file offset are the same |
//! | of a file | path, deleted or not, size and offset are the same |
//! | without a file: JIT code, `[heap]`, a memory file | process and addresses are the same |
//!
//! Named locations of the last kind are equal if their names and addresses are.
//!
//! As in pprof, the result has the sample types common to all, each in its finest unit.

use super::{
    Builder, FunctionId, LabelSetId, Line, Location, LocationId, Mapping, MappingId, Profile, ValueType,
};
use crate::{
    error::{Error, ErrorKind},
    units::factors_to_finer,
};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::{
    collections::{HashMap, HashSet},
    hash::BuildHasher as _,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    sync::Arc,
};

/// Merges all profiles, given with their file names; None if there are none.
///
/// Values of equal samples are added up; the time is the earliest, the duration the sum, the period
/// the longest (0 if units differ). [`Profile::left_out`] has types that not all profiles have.
///
/// # Errors
/// [`ErrorKind::Mismatch`] if a profile has no common sample type; those of the iterator.
///
/// # Panics
/// If IDs in a profile are out of range ([`Profile::check`]).
pub fn merge(
    profiles: impl IntoIterator<Item = Result<(PathBuf, Profile), Error>>,
) -> Result<Option<Profile>, Error> {
    let mut profiles = profiles.into_iter();
    let Some((first_name, first)) = profiles.next().transpose()? else { return Ok(None) };
    let Some(second) = profiles.next() else { return Ok(Some(first)) };
    let mut merger = Merger::new(first_name, first);
    for profile in std::iter::once(second).chain(profiles) {
        let (name, profile) = profile?;
        merger.add(&profile).map_err(|error| error.at(&name))?;
    }
    Ok(Some(merger.finish()))
}

/// Merges profiles one by one.
#[derive(Debug)]
pub(crate) struct Merger {
    builder: Builder,
    /// File name of the first profile, for errors.
    name: PathBuf,
    sources: usize,
    mappings: HashMap<MappingKey, MappingId, RandomState>,
    /// Indices of the profile's locations.
    locations: HashTable<u32>,
    hashes: RandomState,
    comments: HashSet<Arc<str>, RandomState>,
    /// Two profiles have periods of different kinds.
    has_mixed_periods: bool,
    /// Number of samples after equal ones were last added up.
    compact: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum MappingKey {
    /// The same code in all processes.
    Code { identity: Identity, pages: u64, offset: u64 },
    /// The same names at the same addresses.
    Named { start: u64, end: u64, file: PathBuf },
    /// Memory of one process.
    Private { owner: Owner, start: u64, end: u64, file: PathBuf },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    BuildId(Arc<str>),
    File(PathBuf, bool),
}

/// Owner of a mapping without a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Process(u32),
    /// Index of the profile, if the process is unknown.
    Source(usize),
}

impl Merger {
    pub(crate) fn new(name: PathBuf, first: Profile) -> Self {
        let mut builder = Builder::new(first.sample_types.clone());
        let profile = &mut builder.profile;
        profile.default_type = first.default_type;
        profile.drop_frames = first.drop_frames.clone();
        profile.keep_frames = first.keep_frames.clone();
        let mut merger = Self {
            builder,
            name,
            sources: 0,
            mappings: HashMap::default(),
            locations: HashTable::new(),
            hashes: RandomState::default(),
            comments: HashSet::default(),
            has_mixed_periods: false,
            compact: 0,
        };
        let columns: Vec<_> = (0..first.sample_types.len()).map(|column| (column, 1)).collect();
        merger.take(&first, &columns);
        merger
    }

    /// Adds a profile.
    ///
    /// # Errors
    /// If it has no sample type in common with those before it.
    pub(crate) fn add(&mut self, profile: &Profile) -> Result<(), Error> {
        let columns = self.common_columns(profile)?;
        self.take(profile, &columns);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Profile {
        let profile = &mut self.builder.profile;
        profile.is_clamped |= profile.samples.add_up_equal();
        profile.samples.drop_zeros();
        self.builder.finish()
    }

    /// Removes the sample types that `from` does not have and converts the others to the finer unit
    /// of both. Returns the corresponding columns of `from`, each with its factor.
    fn common_columns(&mut self, from: &Profile) -> Result<Vec<(usize, i64)>, Error> {
        let profile = &mut self.builder.profile;
        let (mut kept, mut columns) = (Vec::new(), Vec::new());
        for (place, ours) in profile.sample_types.iter_mut().enumerate() {
            let same = from.sample_types.iter().enumerate().find_map(|(column, theirs)| {
                let is_same = theirs.kind == ours.kind && columns.iter().all(|&(taken, _)| taken != column);
                let factors = factors_to_finer(&ours.unit, &theirs.unit).filter(|_| is_same);
                factors.map(|factors| (column, factors))
            });
            let Some((column, (our_factor, their_factor))) = same else { continue };
            if our_factor != 1 {
                ours.unit.clone_from(&from.sample_types[column].unit);
                profile.is_clamped |= profile.samples.multiply(place, our_factor);
            }
            kept.push(place);
            columns.push((column, their_factor));
        }
        if kept.is_empty() {
            let types =
                |types: &[ValueType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let reason = format!(
                "the sample types are {}, but {} has {}: none in common",
                types(&from.sample_types),
                self.name.display(),
                types(&profile.sample_types)
            );
            return Err(Error::new(ErrorKind::Mismatch, reason)
                .advise("such profiles cannot be merged or compared; show each by itself"));
        }
        let theirs = from.sample_types.iter().enumerate();
        let theirs = theirs.filter(|(column, _)| columns.iter().all(|(taken, _)| taken != column));
        let ours = profile.sample_types.iter().enumerate().filter(|(place, _)| !kept.contains(place));
        for (_, left_out) in ours.chain(theirs) {
            if !profile.left_out.contains(left_out) {
                profile.left_out.push(left_out.clone());
            }
        }
        if kept.len() < profile.sample_types.len() {
            profile.samples.keep_columns(&kept);
            profile.sample_types = kept.iter().map(|&place| profile.sample_types[place].clone()).collect();
            let default = kept.iter().position(|&place| place == profile.default_type);
            profile.default_type = default.unwrap_or(kept.len() - 1);
        }
        Ok(columns)
    }

    /// Adds a profile: the values of `columns`, multiplied by their factors.
    fn take(&mut self, from: &Profile, columns: &[(usize, i64)]) {
        self.take_head(from);
        for mapping in &from.mappings {
            // In their order, used or not: the first is the program.
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
            from.label_sets.iter().map(|labels| self.builder.label_set(labels)).collect();
        self.builder.forget_label_texts();
        let Profile { samples, is_clamped, .. } = &mut self.builder.profile;
        samples.reserve(from.samples.len(), from.samples.frames());
        let (mut chain, mut values) = (Vec::new(), Vec::new());
        for sample in from.samples.iter() {
            chain.clear();
            chain.extend(sample.chain.iter().map(|id| locations[id.index()]));
            values.clear();
            for &(column, factor) in columns {
                let value = sample.values[column];
                *is_clamped |= value.checked_mul(factor).is_none();
                values.push(value.saturating_mul(factor));
            }
            samples.push(&chain, &values, label_sets[sample.labels.index()]);
        }
        // At each doubling: many similar profiles need the memory of two, in linear time.
        if samples.len() > 2 * self.compact {
            let is_clamped = samples.add_up_equal();
            self.compact = samples.len();
            self.builder.profile.is_clamped |= is_clamped;
        }
        self.sources += 1;
    }

    fn take_head(&mut self, from: &Profile) {
        self.take_period(from);
        let profile = &mut self.builder.profile;
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
            if self.comments.insert(comment.clone()) {
                profile.comments.push(comment.clone());
            }
        }
        for left_out in &from.left_out {
            if !profile.left_out.contains(left_out) {
                profile.left_out.push(left_out.clone());
            }
        }
    }

    /// Keeps the longest period; none if two are of different kinds.
    fn take_period(&mut self, from: &Profile) {
        let profile = &mut self.builder.profile;
        let Some(theirs) = from.period_type.as_ref().filter(|_| !self.has_mixed_periods) else { return };
        let ours = profile.period_type.get_or_insert_with(|| theirs.clone());
        match factors_to_finer(&ours.unit, &theirs.unit).filter(|_| ours.kind == theirs.kind) {
            None => {
                self.has_mixed_periods = true;
                (profile.period_type, profile.period) = (None, 0);
            }
            Some((our_factor, their_factor)) => {
                if our_factor != 1 {
                    ours.unit.clone_from(&theirs.unit);
                }
                let scaled = |period: i64, factor| {
                    (period.saturating_mul(factor), period.checked_mul(factor).is_none())
                };
                let (ours, is_clamped) = scaled(profile.period, our_factor);
                let (theirs, is_also_clamped) = scaled(from.period, their_factor);
                profile.is_clamped |= is_clamped || is_also_clamped;
                profile.period = ours.max(theirs);
            }
        }
    }

    /// Returns the ID of the merged mapping. `is_named`: a location in it has a name.
    fn mapping(&mut self, mapping: &Mapping, is_named: bool) -> MappingId {
        let (start, end) = (mapping.start, mapping.end);
        let file = || mapping.file.clone();
        let key = if has_file(mapping) {
            // Some systems record the size in bytes.
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
            // 0 is an unknown address.
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

/// Whether a mapping has the same bytes in each process: of a file, or code of the kernel.
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

#[cfg(test)]
mod tests;
