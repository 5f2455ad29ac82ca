//! A strict reader of profiles, independent of the crate's own, so that both do not have the same
//! fault.

use std::path::{Path, PathBuf};

/// Bytes of one slot: the width of a pointer.
const SLOT: usize = size_of::<usize>();

#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) path: PathBuf,
    pub(crate) period_micros: usize,
    pub(crate) records: Vec<Record>,
    pub(crate) mappings: Vec<Mapping>,
}

/// A call stack with its number of samples.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) count: usize,
    /// Innermost first; all except the first are return addresses.
    pub(crate) pcs: Vec<usize>,
}

/// One line of the list of mappings.
#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) executable: bool,
    pub(crate) file_offset: usize,
    pub(crate) path: String,
}

impl Profile {
    /// Reads the profile and panics at the first violation of the format.
    #[track_caller]
    pub(crate) fn read(path: &Path) -> Self {
        Self::try_read(path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()))
    }

    /// Reads the profile, or returns the first violation of the format.
    pub(crate) fn try_read(path: &Path) -> Result<Self, String> {
        parse(path, &std::fs::read(path).map_err(|error| error.to_string())?)
    }

    /// The number of samples of a profile that may lack mappings, because there was no /proc.
    #[track_caller]
    pub(crate) fn samples_without_list(path: &Path) -> usize {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut slots = Slots { bytes: &bytes, offset: 5 * SLOT };
        let mut samples = 0;
        loop {
            match parse_record(&mut slots).unwrap_or_else(|fault| panic!("{}: {fault}", path.display())) {
                Some(record) => samples += record.count,
                None => return samples,
            }
        }
    }

    pub(crate) fn samples(&self) -> usize {
        self.records.iter().map(|record| record.count).sum()
    }

    /// The number of PCs in the longest stack.
    pub(crate) fn deepest(&self) -> usize {
        self.records.iter().map(|record| record.pcs.len()).max().unwrap_or(0)
    }

    /// The share of samples, from 0 to 1, that have a record for which `condition` holds.
    pub(crate) fn share(&self, mut condition: impl FnMut(&Record) -> bool) -> f64 {
        let selected: usize =
            self.records.iter().filter(|record| condition(record)).map(|record| record.count).sum();
        selected as f64 / self.samples() as f64
    }

    pub(crate) fn mapping_of(&self, pc: usize) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| mapping.executable && (mapping.start..mapping.end).contains(&pc))
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Profile, String> {
    let mut slots = Slots { bytes, offset: 0 };
    let header = [slots.next()?, slots.next()?, slots.next()?, slots.next()?, slots.next()?];
    let [0, 3, 0, period_micros @ 1..=usize::MAX, 0] = header else {
        return Err(format!("the header is {header:?}"));
    };
    let mut records = Vec::new();
    while let Some(record) = parse_record(&mut slots)? {
        records.push(record);
    }
    let text = std::str::from_utf8(&bytes[slots.offset..]).map_err(|error| error.to_string())?;
    if !text.ends_with('\n') {
        return Err("the list of mapped objects does not end in a newline".to_owned());
    }
    let lines = text.lines().filter(|line| !line.trim_start_matches(' ').starts_with("build="));
    let mappings = lines.map(parse_mapping).collect::<Result<Vec<_>, _>>()?;
    if !mappings.iter().any(|mapping| mapping.executable) {
        return Err("no executable mapping is listed".to_owned());
    }
    Ok(Profile { path: path.to_owned(), period_micros, records, mappings })
}

/// Returns the next record, or `None` at the trailer.
fn parse_record(slots: &mut Slots<'_>) -> Result<Option<Record>, String> {
    let start = slots.offset;
    let (count, depth) = (slots.next()?, slots.next()?);
    let pcs = (0..depth).map(|_| slots.next()).collect::<Result<Vec<_>, _>>()?;
    match (count, pcs.as_slice()) {
        (0, [0]) => Ok(None),
        (0, _) | (_, []) => Err(format!("record at byte {start}: count {count}, {depth} PCs")),
        (_, pcs) if pcs.contains(&0) => Err(format!("record at byte {start}: a PC is 0")),
        _ => Ok(Some(Record { count, pcs })),
    }
}

struct Slots<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl Slots<'_> {
    fn next(&mut self) -> Result<usize, String> {
        let slot = self.bytes.get(self.offset..self.offset + SLOT);
        let slot = slot.ok_or_else(|| format!("the file ends inside the slot at byte {}", self.offset))?;
        self.offset += SLOT;
        Ok(usize::from_ne_bytes(slot.try_into().expect("a slice of one slot")))
    }
}

/// Parses `start-end rwxp offset major:minor inode path`; the path is optional.
fn parse_mapping(line: &str) -> Result<Mapping, String> {
    let fault = || format!("not a mapping: {line:?}");
    let hex = |text: &str| usize::from_str_radix(text, 16).map_err(|_| fault());
    let mut fields = line.splitn(6, ' ');
    let mut field = || fields.next().ok_or_else(fault);
    let (range, permissions, file_offset) = (field()?, field()?, field()?);
    let (_device, inode) = (field()?, field()?);
    inode.parse::<u64>().map_err(|_| fault())?;
    let (start, end) = range.split_once('-').ok_or_else(fault)?;
    let path = fields.next().unwrap_or("").trim_start().to_owned();
    let executable = permissions.as_bytes().get(2) == Some(&b'x');
    Ok(Mapping { start: hex(start)?, end: hex(end)?, executable, file_offset: hex(file_offset)?, path })
}
