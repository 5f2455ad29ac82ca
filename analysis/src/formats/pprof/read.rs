//! Reader of pprof's protobuf, with a pass for each kind of part, in the order of references.

use super::{
    field,
    wire::{Field, Malformed, Message},
};
use crate::{
    error::{Error, ErrorKind},
    profile::{
        Function, FunctionId, Known, Label, LabelSets, LabelValue, Line, Location, LocationId, Mapping,
        MappingId, Profile, ValueType,
    },
};
use foldhash::fast::RandomState;
use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

/// Limit; heap profiles have four. Each sample has a value for each type.
const MAX_TYPES: usize = 256;

/// Reads an uncompressed profile.
///
/// Samples must refer to existing parts; locations may refer to missing ones, as in google/pprof.
///
/// # Errors
/// If the bytes are not protobuf, or references or value counts do not match.
pub fn read(bytes: &[u8]) -> Result<Profile, Error> {
    let outline = Outline::of(bytes)?;
    if outline.sample_types.is_empty() {
        return Err(Error::new(ErrorKind::Format, "the profile has no sample types")
            .advise("the file is truncated, damaged, or not a pprof profile"));
    }
    if outline.number_of_types > MAX_TYPES {
        let number = outline.number_of_types;
        return Err(Error::new(
            ErrorKind::Format,
            format!("the profile has {number} sample types, more than {MAX_TYPES}"),
        )
        .advise("the file is damaged, or not a pprof profile"));
    }
    let mut strings = Strings { bytes: outline.strings, ..Strings::default() };
    let mut types = Vec::with_capacity(outline.sample_types.len());
    for message in outline.sample_types {
        types.push(strings.value_type(message)?);
    }
    let default = strings.signed(outline.default_type)?;
    let mut profile = Profile::new(types);
    if let Some(place) = profile.sample_types.iter().position(|known| known.kind == default) {
        profile.default_type = place;
    }
    profile.period_type = outline.period_type.map(|message| strings.value_type(message)).transpose()?;
    profile.period = outline.period;
    profile.time_nanos = outline.time_nanos;
    profile.duration_nanos = outline.duration_nanos;
    profile.drop_frames = strings.signed(outline.drop_frames)?;
    profile.keep_frames = strings.signed(outline.keep_frames)?;
    profile.doc_url = strings.signed(outline.doc_url)?;
    for place in outline.comments {
        profile.comments.push(strings.signed(place)?);
    }

    let mut paths = PathBytes { taken: 0, most: most_path_bytes(bytes.len()) };
    let mut mapping_ids = Ids::new("mapping");
    let mut function_ids = Ids::new("function");
    for_each(bytes, |part, message| match part {
        field::MAPPING => {
            read_mapping(message, &mut strings, &mut mapping_ids, &mut paths, &mut profile.mappings)
        }
        field::FUNCTION => read_function(message, &mut strings, &mut function_ids, &mut profile.functions),
        _ => Ok(()),
    })?;
    let mut location_ids = Ids::new("location");
    for_each(bytes, |part, message| match part {
        field::LOCATION => {
            let (id, location) = read_location(message, &mapping_ids, &function_ids)?;
            location_ids.add(id, message, profile.locations.len())?;
            profile.locations.push(location);
            Ok(())
        }
        _ => Ok(()),
    })?;
    let mut samples = SampleReader {
        profile,
        strings,
        label_sets: LabelSets::default(),
        locations: location_ids,
        chain: Vec::new(),
        values: Vec::new(),
        labels: Vec::new(),
    };
    for_each(bytes, |part, message| if part == field::SAMPLE { samples.read(message) } else { Ok(()) })?;
    Ok(samples.profile)
}

/// Limit for all paths: each mapping has a copy of its path. A thousand mappings of a large program
/// have some hundred kilobytes; a hostile file could refer to a huge path every few bytes.
fn most_path_bytes(bytes: usize) -> usize {
    bytes.saturating_mul(4).saturating_add(4 << 20)
}

/// Total length of the paths of all mappings.
struct PathBytes {
    taken: usize,
    most: usize,
}

/// Calls `visit` with the number and contents of each message field.
fn for_each<'a>(
    bytes: &'a [u8],
    mut visit: impl FnMut(u32, Message<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut profile = Message::new(bytes);
    while let Some(field) = profile.next()? {
        if let Ok(message) = field.message() {
            visit(field.number, message)?;
        }
    }
    Ok(())
}

/// The single fields, and parts without references.
#[derive(Default)]
struct Outline<'a> {
    sample_types: Vec<Message<'a>>,
    number_of_types: usize,
    strings: Vec<&'a [u8]>,
    period_type: Option<Message<'a>>,
    period: i64,
    time_nanos: i64,
    duration_nanos: i64,
    /// Without duplicates: two bytes of the file could repeat a string of any length.
    comments: Vec<i64>,
    known_comments: HashSet<i64, RandomState>,
    drop_frames: i64,
    keep_frames: i64,
    default_type: i64,
    doc_url: i64,
}

impl<'a> Outline<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut outline = Self::default();
        let mut profile = Message::new(bytes);
        while let Some(field) = profile.next()? {
            outline.take(&field)?;
        }
        if outline.strings.first().is_some_and(|first| !first.is_empty()) {
            return Err(Error::new(ErrorKind::Format, "the first string of the profile is not empty")
                .advise("the file is damaged, or not a pprof profile"));
        }
        Ok(outline)
    }

    fn take(&mut self, field: &Field<'a>) -> Result<(), Malformed> {
        let number = || field.number_value().map(|number| number as i64);
        match field.number {
            field::SAMPLE_TYPE => {
                self.number_of_types += 1;
                let message = field.message()?;
                if self.number_of_types <= MAX_TYPES {
                    self.sample_types.push(message);
                }
            }
            // Parsed later; here only checked to be messages.
            field::SAMPLE | field::MAPPING | field::LOCATION | field::FUNCTION => {
                field.message()?;
            }
            field::STRING => self.strings.push(field.message()?.bytes()),
            field::DROP_FRAMES => self.drop_frames = number()?,
            field::KEEP_FRAMES => self.keep_frames = number()?,
            field::TIME_NANOS => self.time_nanos = number()?,
            field::DURATION_NANOS => self.duration_nanos = number()?,
            field::PERIOD_TYPE => self.period_type = Some(field.message()?),
            field::PERIOD => self.period = number()?,
            // An empty comment would need memory for one byte of the file.
            field::COMMENT => field.numbers(|number| {
                if number != 0 && self.known_comments.insert(number as i64) {
                    self.comments.push(number as i64);
                }
            })?,
            field::DEFAULT_SAMPLE_TYPE => self.default_type = number()?,
            field::DOC_URL => self.doc_url = number()?,
            _ => {}
        }
        Ok(())
    }
}

/// The strings, each converted on first use.
#[derive(Default)]
struct Strings<'a> {
    bytes: Vec<&'a [u8]>,
    known: HashMap<u64, Arc<str>, RandomState>,
}

impl Strings<'_> {
    /// Returns the string at `place`; invalid UTF-8 is replaced.
    fn get(&mut self, place: u64) -> Result<Arc<str>, Error> {
        if let Some(known) = self.known.get(&place) {
            return Ok(known.clone());
        }
        let bytes = usize::try_from(place).ok().and_then(|place| self.bytes.get(place).copied());
        let text: Arc<str> = match bytes {
            Some(bytes) => String::from_utf8_lossy(bytes).into(),
            // A profile without strings.
            None if place == 0 => "".into(),
            None => {
                let reason = format!("string {place} is used, but there are {}", self.bytes.len());
                return Err(Error::new(ErrorKind::Format, reason).advise("the file is truncated or damaged"));
            }
        };
        self.known.insert(place, text.clone());
        Ok(text)
    }

    /// As `get`, for a signed index; a negative one is out of range.
    fn signed(&mut self, place: i64) -> Result<Arc<str>, Error> {
        self.get(place as u64)
    }

    fn value_type(&mut self, mut message: Message<'_>) -> Result<ValueType, Error> {
        let (mut kind, mut unit) = (0, 0);
        while let Some(field) = message.next()? {
            match field.number {
                1 => kind = field.number_value()?,
                2 => unit = field.number_value()?,
                _ => {}
            }
        }
        Ok(ValueType { kind: self.get(kind)?, unit: self.get(unit)? })
    }
}

/// Indices by ID. Most profiles number their parts from 1.
struct Ids {
    what: &'static str,
    /// IDs 1 to this one have indices from 0.
    dense: u64,
    others: HashMap<u64, u32, RandomState>,
}

impl Ids {
    fn new(what: &'static str) -> Self {
        Self { what, dense: 0, others: HashMap::default() }
    }

    /// Adds the ID of the part `message` with index `place`.
    fn add(&mut self, id: u64, message: Message<'_>, place: usize) -> Result<(), Error> {
        let fails = |reason: String| {
            Error::new(ErrorKind::Format, reason)
                .at_offset(message.offset() as u64)
                .advise("the file is damaged; offsets are those of the uncompressed bytes")
        };
        if id == 0 {
            return Err(fails(format!("a {} has the id 0, which is reserved", self.what)));
        }
        if self.get(id).is_some() {
            return Err(fails(format!("two {}s have the id {id}", self.what)));
        }
        if place as u64 == self.dense && id == self.dense + 1 {
            self.dense = id;
        } else {
            let place = u32::try_from(place).map_err(|_| fails(format!("too many {}s", self.what)))?;
            self.others.insert(id, place);
        }
        Ok(())
    }

    fn get(&self, id: u64) -> Option<u32> {
        if (1..=self.dense).contains(&id) {
            return u32::try_from(id - 1).ok();
        }
        self.others.get(&id).copied()
    }
}

fn read_mapping(
    whole: Message<'_>,
    strings: &mut Strings<'_>,
    ids: &mut Ids,
    paths: &mut PathBytes,
    mappings: &mut Vec<Mapping>,
) -> Result<(), Error> {
    let (mut id, mut start, mut end, mut offset, mut file, mut build_id) = (0, 0, 0, 0, 0, 0);
    let mut has = Known::default();
    let mut message = whole;
    while let Some(field) = message.next()? {
        match field.number {
            1 => id = field.number_value()?,
            2 => start = field.number_value()?,
            3 => end = field.number_value()?,
            4 => offset = field.number_value()?,
            5 => file = field.number_value()?,
            6 => build_id = field.number_value()?,
            7 => has.functions = field.number_value()? != 0,
            8 => has.files = field.number_value()? != 0,
            9 => has.lines = field.number_value()? != 0,
            10 => has.inlines = field.number_value()? != 0,
            _ => {}
        }
    }
    ids.add(id, whole, mappings.len())?;
    let name = strings.get(file)?;
    paths.taken = paths.taken.saturating_add(name.len());
    if paths.taken > paths.most {
        let reason = format!("the paths of all mappings have more than {} bytes", paths.most);
        return Err(Error::new(ErrorKind::Format, reason)
            .at_offset(whole.offset() as u64)
            .advise("the file is damaged or malicious"));
    }
    let path = name.strip_suffix(" (deleted)");
    mappings.push(Mapping {
        start,
        end,
        file_offset: offset,
        file: PathBuf::from(path.unwrap_or(&name)),
        build_id: strings.get(build_id)?,
        is_deleted: path.is_some(),
        is_moved: false,
        process: None,
        has,
    });
    Ok(())
}

fn read_function(
    whole: Message<'_>,
    strings: &mut Strings<'_>,
    ids: &mut Ids,
    functions: &mut Vec<Function>,
) -> Result<(), Error> {
    let (mut id, mut name, mut system_name, mut file, mut start_line) = (0, 0, 0, 0, 0);
    let mut message = whole;
    while let Some(field) = message.next()? {
        match field.number {
            1 => id = field.number_value()?,
            2 => name = field.number_value()?,
            3 => system_name = field.number_value()?,
            4 => file = field.number_value()?,
            5 => start_line = field.number_value()? as i64,
            _ => {}
        }
    }
    ids.add(id, whole, functions.len())?;
    let (name, system_name) = (strings.get(name)?, strings.get(system_name)?);
    let has_system_name = !system_name.is_empty();
    let system_name = if has_system_name { system_name } else { name.clone() };
    let name = if name.is_empty() { system_name.clone() } else { name };
    functions.push(Function { name, system_name, file: strings.get(file)?, start_line });
    Ok(())
}

fn read_location(
    mut message: Message<'_>,
    mappings: &Ids,
    functions: &Ids,
) -> Result<(u64, Location), Error> {
    let (mut id, mut location) = (0, Location::default());
    while let Some(field) = message.next()? {
        match field.number {
            1 => id = field.number_value()?,
            2 => location.mapping = mappings.get(field.number_value()?).map(MappingId),
            3 => location.address = field.number_value()?,
            4 => location.lines.extend(read_line(field.message()?, functions)?),
            5 => location.is_folded = field.number_value()? != 0,
            _ => {}
        }
    }
    location.lines.shrink_to_fit();
    Ok((id, location))
}

/// Reads a line; None if its function is unknown.
fn read_line(mut message: Message<'_>, functions: &Ids) -> Result<Option<Line>, Malformed> {
    let (mut function, mut line, mut column) = (0, 0, 0);
    while let Some(field) = message.next()? {
        match field.number {
            1 => function = field.number_value()?,
            2 => line = field.number_value()? as i64,
            3 => column = field.number_value()? as i64,
            _ => {}
        }
    }
    Ok(functions.get(function).map(|function| Line { function: FunctionId(function), line, column }))
}

struct SampleReader<'a> {
    profile: Profile,
    strings: Strings<'a>,
    label_sets: LabelSets,
    locations: Ids,
    // Buffers for the current sample.
    chain: Vec<LocationId>,
    values: Vec<i64>,
    labels: Vec<Label>,
}

impl SampleReader<'_> {
    fn read(&mut self, whole: Message<'_>) -> Result<(), Error> {
        self.chain.clear();
        self.values.clear();
        self.labels.clear();
        let width = self.profile.sample_types.len();
        let mut number_of_values = 0_usize;
        let mut unknown = None;
        let mut message = whole;
        while let Some(field) = message.next()? {
            match field.number {
                1 => field.numbers(|id| match self.locations.get(id) {
                    Some(place) => self.chain.push(LocationId(place)),
                    None => unknown = unknown.or(Some(id)),
                })?,
                2 => field.numbers(|value| {
                    number_of_values += 1;
                    // Each byte may be a value: excess values are counted but not kept.
                    if number_of_values <= width {
                        self.values.push(value as i64);
                    }
                })?,
                3 => self.label(field.message()?)?,
                _ => {}
            }
        }
        let fails = |reason: String| {
            Error::new(ErrorKind::Format, reason)
                .at_offset(whole.offset() as u64)
                .advise("the file is damaged; offsets are those of the uncompressed bytes")
        };
        if let Some(id) = unknown {
            return Err(fails(format!("a sample refers to location {id}, which does not exist")));
        }
        if number_of_values != width {
            return Err(fails(format!(
                "a sample has {number_of_values} values, but the profile has {width} sample types"
            )));
        }
        let labels = self.label_sets.intern(&mut self.profile.label_sets, &self.labels);
        self.profile.samples.push(&self.chain, &self.values, labels);
        Ok(())
    }

    fn label(&mut self, mut message: Message<'_>) -> Result<(), Error> {
        let (mut key, mut text, mut number, mut unit) = (0, 0, 0, 0);
        while let Some(field) = message.next()? {
            match field.number {
                1 => key = field.number_value()?,
                2 => text = field.number_value()?,
                3 => number = field.number_value()? as i64,
                4 => unit = field.number_value()?,
                _ => {}
            }
        }
        // An empty label would need memory for two bytes of the file.
        if (key, text, number, unit) == (0, 0, 0, 0) {
            return Ok(());
        }
        let value = if text != 0 {
            LabelValue::Text(self.strings.get(text)?)
        } else {
            LabelValue::Number(number, self.strings.get(unit)?)
        };
        self.labels.push(Label { key: self.strings.get(key)?, value });
        Ok(())
    }
}
